"""Planners: choose the placement of a whole batch of waiting jobs at once."""
