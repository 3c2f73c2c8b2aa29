"""Experiments on the simulator: bounds, replay on real processes, conformance of policies, training of the learned one."""
