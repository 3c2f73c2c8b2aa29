"""Programs of the command that are processes of their own: `gpuq up`, the nightly training, `gpuq profile`."""
