"""NVIDIA GPUs through NVML, the driver's management library. `backend.py` puts the other modules together."""
