"""Reads PROFET's release (github.com/ddps-lab/profet): op times of CNN trainings on four GPU types, and their step times.

The columns of `profet_ops.csv` are instance, model, pixels, batchsize, step_ms, then `Device_OP` and `Host_OP` in microseconds
over a window of unknown length.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuq.lab.public import number, rows
from gpuq.learn.transfer.fit import ProfiledJobs
from gpuq.learn.transfer.profile import IDLE, OpProfile

# The instances' GPUs.
T4, M60, K80, V100 = "Tesla T4", "Tesla M60", "Tesla K80", "Tesla V100"
_TYPES = {"g4dn.xlarge": T4, "g3s.xlarge": M60, "p2.xlarge": K80, "p3.2xlarge": V100}


@dataclass(frozen=True)
class ProfiledWorkload:
    """One model at one image and batch size on one type."""

    model: str
    pixels: int
    batch: int
    device_type: str
    profile: OpProfile


def workloads(data: Path) -> list[ProfiledWorkload]:
    """Every row, in the file's order. Raises OSError where there is no file."""
    return [_workload(row) for row in rows(data / "profet_ops.csv")]


def measured(found: Sequence[ProfiledWorkload], anchor: str, targets: Sequence[str]) -> ProfiledJobs:
    """What was profiled on the anchor and timed on every target."""
    by_work: dict[tuple[str, int, int], dict[str, ProfiledWorkload]] = defaultdict(dict)
    for one in found:
        by_work[one.model, one.pixels, one.batch][one.device_type] = one
    both = [types for types in by_work.values() if all(name in types for name in (anchor, *targets))]
    return ProfiledJobs(
        kinds=[types[anchor].model for types in both],
        profiles=[types[anchor].profile for types in both],
        step_s=[types[anchor].profile.step_s or math.nan for types in both],
        target_s={name: [types[name].profile.step_s or math.nan for types in both] for name in targets},
        target_profiles={name: [types[name].profile for types in both] for name in targets},
    )


def _workload(row: Mapping[str, str]) -> ProfiledWorkload:
    device, host = _times(row, "Device_"), _times(row, "Host_")
    step_ms = number(row["step_ms"])
    device_type = _TYPES[row["instance"]]
    batch = int(row["batchsize"])
    profile = OpProfile(
        framework="tensorflow",
        device_type=device_type,
        kind=row["model"],
        batch_log2=math.log2(batch),
        step_s=None if step_ms is None else step_ms / 1000.0,
        device_idle_us=device.pop(IDLE, None),
        device_us=device,
        host_idle_us=host.pop(IDLE, None),
        host_us=host,
    )
    return ProfiledWorkload(row["model"], int(row["pixels"]), batch, device_type, profile)


def _times(row: Mapping[str, str], prefix: str) -> dict[str, float]:
    """Microseconds by op, without those that took no time: a job does not have them."""
    values = {name.removeprefix(prefix): number(text) for name, text in row.items() if name.startswith(prefix)}
    return {name: value for name, value in values.items() if value}
