"""The workloads that stand behind a trace's kinds: what each needs, and how much each pair slows each other.

A trace says when jobs come and how long they run, seldom what they are made of. A `WorkloadSet` supplies that; the scenario
builder assigns each kind one of its workloads. `law_workloads` is the set that needs no measured data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gpuq.learn.interference.law import slowdown
from gpuq.sim.world import Workload

# The slowdown of two that do not fit on one device together.
OUT_OF_MEMORY = math.inf
# The memory of a device that nothing describes. It is more than any measured job needs, so only pairs that are known not to fit
# together run out of memory there.
DEFAULT_DEVICE_MEMORY = 80 * 2**30
LAW_UTILIZATIONS = tuple(range(10, 101, 10))


@dataclass(frozen=True)
class WorkloadSet:
    """Workloads by name, and the slowdown of each beside each (itself included), on devices of one type.

    `pairs[a, b]` is the slowdown of `a` beside `b`. `sharing` is how two share a device there, None where it is not known.
    `device_memory` is in bytes.
    """

    name: str
    device_type: str
    sharing: str | None
    workloads: Mapping[str, Workload]
    pairs: Mapping[tuple[str, str], float]
    notes: tuple[str, ...] = ()
    device_memory: int = DEFAULT_DEVICE_MEMORY


def law_workloads() -> WorkloadSet:
    """Ten workloads of 10 to 100% utilisation whose pairs cost what the contention model (`learn.interference.law`) says.

    For traces where there is no measured data. What a simulation with them says of sharing is no better than that model. Memory
    is not known, so no job runs out of it.
    """
    utilizations = {f"busy {level}%": float(level) for level in LAW_UTILIZATIONS}
    return WorkloadSet(
        "law", "any GPU", None,
        {name: Workload(name, name, None, level) for name, level in utilizations.items()},
        {(a, b): slowdown(utilizations[a], utilizations[b]) or 1.0 for a in utilizations for b in utilizations},
        ("nothing in this world was measured: utilisations are 10 to 100%, pairs cost what the contention law says",),
    )  # fmt: skip
