"""NVIDIA GPUs through the driver's management library."""
