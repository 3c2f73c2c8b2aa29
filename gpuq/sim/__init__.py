"""Simulation: the daemon's own core and policies in virtual time, for `gpuq simulate`."""
