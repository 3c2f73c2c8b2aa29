"""Importers: who came when, from gpuq's own history, from a CSV file, and from public traces."""
