"""`python -m gpuq.pools`."""

import sys

from gpuq.pools.serve import main

if __name__ == "__main__":
    sys.exit(main())
