"""What holds for every test: how long Hypothesis may take says something about the machine, and nothing about gpuq."""

from hypothesis import HealthCheck, settings

settings.register_profile("gpuq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpuq")
