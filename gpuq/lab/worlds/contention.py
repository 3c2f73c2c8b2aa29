"""A world that needs no measurement: ten workloads of 10 to 100% utilisation, whose pairs cost what the contention law says.

For traces played where there is no measured data. What it says of sharing is no better than the law (docs/learning.md).
"""

from __future__ import annotations

from gpuq.learn.interference.law import slowdown
from gpuq.sim.world import Workload
from gpuq.sim.worlds.workload_set import Zoo

LEVELS = tuple(range(10, 101, 10))


def law_zoo() -> Zoo:
    """Nobody measured it, and its notes say so. Memory is not known: nobody runs out of it."""
    names = {f"busy {level}%": float(level) for level in LEVELS}
    return Zoo(
        "law", "any GPU", None,
        {name: Workload(name, name, None, level) for name, level in names.items()},
        {(a, b): slowdown(names[a], names[b]) or 1.0 for a in names for b in names},
        ("nothing in this world was measured: utilisations are 10 to 100%, pairs cost what the contention law says",),
    )  # fmt: skip
