"""Real training scripts to submit, and `python -m workloads.demo`. Each runs without gpuq too."""
