"""What gpuq learns from its record, and how it answers the core's questions from it.

Serving (`predictor` and what it uses: `kind`, `history`, `clusters`, `peaks`, `interference`, `transfer`, `drift`, `shelf`)
needs numpy at most; `train` and its parts use scikit-learn and scipy, in a process of their own. `characterize` and
`evaluate` are tools that people start.
"""

import os

# Many small matrices: threads of the linear algebra only get into each other's way (on two cores they cost up to sevenfold),
# and take memory in a dispatcher. It has to be said before numpy is loaded; jobs are no children of what imports this.
os.environ.setdefault("OMP_NUM_THREADS", "1")
