"""`python -m gpuq.lab.campaign`: what `gpuq characterize` becomes. Exit codes are gpuq's own."""

import sys

from gpuq.lab.campaign.command import main

if __name__ == "__main__":
    sys.exit(main())
