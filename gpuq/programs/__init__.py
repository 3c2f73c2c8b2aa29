"""Commands that run as processes of their own: `gpuq up`, `gpuq model train`, `gpuq profile`."""
