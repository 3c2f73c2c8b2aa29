"""`python -m gpuq.notifier`."""

import sys

from gpuq.notifier.serve import main

if __name__ == "__main__":
    sys.exit(main())
