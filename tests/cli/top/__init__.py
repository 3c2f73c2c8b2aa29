"""Tests of `gpuq top`."""
