"""`python -m gpuq_workers`: the worker service of this host."""

import sys

from gpuq_workers.serve import main

sys.exit(main())
