"""Measurements of running attempts, and the slowdowns derived from them."""
