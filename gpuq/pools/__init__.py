"""Pools: hosts that gpuq requests from Slurm when jobs wait, and gives back when they are idle. A client of the API and Slurm."""
