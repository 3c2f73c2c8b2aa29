"""What holds for every test: how long Hypothesis may take says something about the machine, and nothing about gpuq."""

import os
import sys

from hypothesis import HealthCheck, settings

settings.register_profile("gpuq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpuq")

# Containers often set this. The suite starts hundreds of interpreters, and each would compile gpuq's modules again: a fifth of
# the start of a service.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
