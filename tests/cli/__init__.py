"""Tests of gpuq.cli."""
