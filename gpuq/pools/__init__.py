"""Pools: hosts that gpuq requests from Slurm or Kubernetes when jobs wait, and gives back when idle. A client of the API."""
