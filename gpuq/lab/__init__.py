"""The laboratory: measuring campaigns, characterisation, evaluation on public data, rivals, and experiments on the simulator.

It is an optional part of gpuq (the extra `lab`). It imports the product, and the product never imports it: what the command and
the simulator use of it comes in through entry points (pyproject.toml).
"""
