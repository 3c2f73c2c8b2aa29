"""`python -m gpuq.campaign`: what `gpuq characterize` becomes. Exit codes are gpuq's own."""

import sys

from gpuq.campaign.command import main

if __name__ == "__main__":
    sys.exit(main())
