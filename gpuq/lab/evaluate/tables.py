"""Tables of measured jobs and pairs in the form that `gpuq.learn.interference` is fitted to.

Types of device, and ways of sharing, are kept apart: a slowdown under MPS says nothing about time-slicing. A direction of a
pair that was not measured gives no row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gpuq.lab.measured import PairMeasurement, SingleMeasurement
from gpuq.learn.interference.profile import Profile

DirectedSlowdowns = dict[tuple[str, str], list[float]]


def profile_of(single: SingleMeasurement) -> Profile:
    """What a single says of its job before it was ever beside another."""
    return Profile(
        kind=single.job,
        model=single.model or None,
        utilization_pct=single.utilization_pct,
        memory_utilization_pct=single.memory_utilization_pct,
        batch_log2=_log(single.batch_size, 2.0),
        step_log=_log(None if not single.steps_per_s else 1 / single.steps_per_s, math.e),
        memory_log=_log(single.peak_memory_mib, math.e),
        power_log=_log(single.power_w, math.e),
    )


def profiles(singles: Sequence[SingleMeasurement], device_type: str) -> Mapping[str, Profile]:
    """Job -> its profile on this type of device."""
    return {single.job: profile_of(single) for single in singles if single.device_type == device_type}


def directed(pairs: Sequence[PairMeasurement]) -> dict[tuple[str, str | None], DirectedSlowdowns]:
    """(device type, way of sharing) -> (job, job beside it) -> slowdowns of the first. Each row gives both directions."""
    found: dict[tuple[str, str | None], DirectedSlowdowns] = {}
    for pair in pairs:
        table = found.setdefault((pair.device_type, pair.sharing), {})
        for job, beside, slowdown in (
            (pair.job_a, pair.job_b, pair.slowdown_a),
            (pair.job_b, pair.job_a, pair.slowdown_b),
        ):
            if slowdown is not None and slowdown > 0:
                table.setdefault((job, beside), []).append(slowdown)
    return found


def _log(value: float | None, base: float) -> float | None:
    return round(math.log(value, base), 9) if value else None
