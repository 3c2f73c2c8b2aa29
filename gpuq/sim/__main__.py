"""`python -m gpuq.sim`: the process that `gpuq simulate` becomes. Exit codes are gpuq's own."""

import sys

from gpuq.sim.command import main

if __name__ == "__main__":
    sys.exit(main())
