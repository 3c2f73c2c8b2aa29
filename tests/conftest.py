"""What holds for every test.

How long Hypothesis may take says something about the machine, and nothing about gpuq.
"""

import os

# As `gpuq.learn` sets it, which must happen before numpy is imported: some modules of tests import numpy before any of gpuq.
# Threads that wait for each other in the linear algebra library took half of the processor time of those tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

settings.register_profile("gpuq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpuq")
