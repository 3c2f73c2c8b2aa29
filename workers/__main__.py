"""`python -m workers`: the worker service of this host."""

import sys

from workers.serve import main

sys.exit(main())
