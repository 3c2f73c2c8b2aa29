"""What gpuq learns from its record, and how it answers the core's questions from it.

Serving (`serving`, and what it uses of `history`, `features`, `memory`, `interference` and `transfer`) needs numpy at most,
so that a dispatcher stays small. `training` uses scikit-learn and scipy, in a process of its own.
"""

import os

# Matrices are small and many: threads of the linear algebra library slow each other down (up to sevenfold on two cores) and take
# memory in a dispatcher. The variable must be set before numpy is imported. Jobs do not inherit it: they are children of workers.
os.environ.setdefault("OMP_NUM_THREADS", "1")
