"""`python -m gpuq.daemon`: the dispatcher."""

import sys

from gpuq.daemon.main import main

sys.exit(main())
