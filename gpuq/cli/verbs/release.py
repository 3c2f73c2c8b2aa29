"""`gpuq release ID…`: let held jobs start."""

from __future__ import annotations

from gpuq.cli.verbs.control import control


def run(words: list[str]) -> int:
    """Release jobs."""
    return control("release", "released", "Let held jobs start.", words)
