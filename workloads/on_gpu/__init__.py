"""All that is to be measured on a machine with an NVIDIA GPU, unattended and in short steps: `python -m workloads.on_gpu`."""
