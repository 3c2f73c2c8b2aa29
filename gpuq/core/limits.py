"""The numbers admission is held to. Filled from the settings' `[admission]` group; docs/operations.md explains each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """See `gpuq.settings.Admission` for what each means and why its default is what it is."""

    residents_per_device: int = 2
    utilization_pct: float = 100.0
    memory_headroom: float = 0.10
    max_slowdown: float = 1.15
    stale_after_s: float = 10.0
    patience_s: float = 1800.0
    start_grace_s: float = 5.0
    candidates_per_job: int = 8
