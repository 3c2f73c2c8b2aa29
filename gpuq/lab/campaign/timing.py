"""How long the phases of a run take, and how precise its figures must be."""

from __future__ import annotations

from dataclasses import dataclass

from gpuq.lab.campaign.guard import MOST_FOREIGN_PCT


@dataclass(frozen=True)
class Timing:
    """Durations in seconds. `tight`: the 95% half-width wanted, as a share of the rate or slowdown. `most_foreign_pct`: percent
    of the device that other processes may use before a run counts as disturbed.
    """

    tight: float = 0.03
    most_foreign_pct: float = MOST_FOREIGN_PCT
    window_s: float = 0.5
    phase_s: float = 1.5
    settle_s: float = 0.3
    least_steps: int = 20
    fewest_cycles: int = 3
    most_cycles: int = 6
    most_s: float = 40.0
    warm_up_s: float = 30.0
    first_step_s: float = 300.0
    poll_s: float = 0.02
    sample_s: float = 1.0
    grace_s: float = 5.0
