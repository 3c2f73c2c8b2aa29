"""gpuq's own learning as one of the methods that are judged: the code that serves, refitted.

Arrives: what was measured. Leaves: the same answers a served forecast would hold.
"""

from __future__ import annotations

from gpuq.learn.evaluate.baselines import ridge, same_model
from gpuq.learn.evaluate.judge import Method

OURS = Method("gpuq", pairs=ridge, utilization=same_model, memory=same_model)
