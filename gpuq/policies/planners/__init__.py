"""Planners: policies that choose for many waiting jobs at once, by optimisation over the assignment problem of `batch.py`."""
