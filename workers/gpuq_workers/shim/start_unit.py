"""Start the shim of a unit: `python -I -S shim/start_unit.py`, by an absolute path.

No more than that, because Python compiles a script at each start, and a module once.
"""

import sys

# Appended, so that no file beside ours shadows a module of the standard library.
sys.path.append(__file__.rsplit("/", 3)[0])

from gpuq_workers.shim.unit import main

raise SystemExit(main(sys.argv[1:]))
