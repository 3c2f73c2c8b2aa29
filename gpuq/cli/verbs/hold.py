"""`gpuq hold ID…`: keep waiting jobs from starting."""

from __future__ import annotations

from gpuq.cli.verbs.control import control


def run(words: list[str]) -> int:
    """Hold jobs."""
    return control("hold", "held", "Keep waiting jobs from starting, until `gpuq release`.", words)
