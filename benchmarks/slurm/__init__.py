"""gpuq's pilots against other ways to run the same jobs on the same Slurm: GPU-hours and the time until all have ended."""
