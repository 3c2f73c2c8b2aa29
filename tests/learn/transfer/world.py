"""A small world with physics: convolutions, products of matrices and launches each have their own speed on each type."""

from __future__ import annotations

import math
import random

from gpuq.learn.transfer.fit import ProfiledJobs
from gpuq.learn.transfer.profile import OpProfile

OLD, NEW = "Old GPU", "New GPU"
# How much longer each op takes on the new type; waiting for the host is what stays.
SPEED = {"Conv2D": 0.25, "MatMul": 0.5, "Relu": 0.8, "SoftmaxCrossEntropyWithLogits": 1.0, "IDLE": 1.0}


def job(kind: str, mix: dict[str, float], batch: int) -> tuple[OpProfile, OpProfile]:
    """The same job's profiles on both types; `mix` is milliseconds per op for a batch of 32 on the old one."""
    times = {op: ms * (batch / 32 if op != "IDLE" else 1.0) for op, ms in mix.items()}
    return (
        _profile(kind, OLD, batch, times),
        _profile(kind, NEW, batch, {op: ms * SPEED[op] for op, ms in times.items()}),
    )


def _profile(kind: str, device_type: str, batch: int, times_ms: dict[str, float]) -> OpProfile:
    us = {op: 1000.0 * ms for op, ms in times_ms.items()}
    return OpProfile(
        framework="tensorflow",
        device_type=device_type,
        kind=kind,
        script_sha256="a" * 64,
        batch_log2=math.log2(batch),
        step_s=sum(times_ms.values()) / 1000.0,
        device_idle_us=us.pop("IDLE"),
        device_us=us,
    )


def jobs(kinds: int, seed: int = 0) -> list[tuple[OpProfile, OpProfile]]:
    """Kinds of random mixes, four batch sizes each."""
    chance = random.Random(seed)
    found = []
    for number in range(kinds):
        mix = {op: chance.lognormvariate(1.5, 1.0) for op in SPEED}
        found += [job(f"kind {number}", mix, batch) for batch in (16, 32, 64, 128)]
    return found


def measured(found: list[tuple[OpProfile, OpProfile]], *, both: bool = False) -> ProfiledJobs:
    return ProfiledJobs(
        kinds=[old.kind or "" for old, _ in found],
        profiles=[old for old, _ in found],
        step_s=[old.step_s or 0.0 for old, _ in found],
        target_s={NEW: [new.step_s or 0.0 for _, new in found]},
        target_profiles={NEW: [new for _, new in found]} if both else {},
    )
