"""Traces from gpuq's own record and from CSV files, and what every imported trace goes through."""
