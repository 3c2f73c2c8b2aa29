"""Experiments on the simulator: replay of real runs, conformance of policies, training of the policy `reinforcement`."""
