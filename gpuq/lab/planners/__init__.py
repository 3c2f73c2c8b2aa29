"""Planners to compare the product's own with: simulated annealing, a genetic algorithm, and a trained network.

They are policies like any other (entry points of `gpuq.policies`), and solve the batch of `gpuq.policies.planners.batch`.
"""
