"""The slowdown account of a run: how much time it may still lose to partners and pauses within its slowdown budget.

A run of `ran_s` seconds of which `lost_s` were lost has done the work of `ran_s - lost_s` seconds alone. With a budget of 1.15 it
may lose 0.15 seconds for each of those:

    left_s = (budget - 1) * (ran_s - lost_s) - lost_s

Nothing is counted in advance, so a run that has something left is within its budget whenever it ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuq.core.measuring.slowdown import Rates


@dataclass(frozen=True, slots=True)
class SlowdownAccount:
    """What a run has earned and lost, in seconds. `slowed_s` was lost to partners, `paused_s` to pauses; None where
    that was not measured, and then `left_s` is not known either."""

    budget: float
    earned_s: float | None
    slowed_s: float | None
    paused_s: float | None
    left_s: float | None


def slowdown_account(budget: float, ran_s: float, slowed_s: float | None, paused_s: float | None) -> SlowdownAccount:
    """The account of a run that began `ran_s` seconds ago."""
    if slowed_s is None or paused_s is None:
        return SlowdownAccount(budget, None, slowed_s, paused_s, None)
    lost_s = max(0.0, slowed_s) + max(0.0, paused_s)
    earned_s = (budget - 1) * max(0.0, ran_s - lost_s)
    return SlowdownAccount(budget, earned_s, slowed_s, paused_s, earned_s - lost_s)


def slowed_s(beside_s: float, measured: Rates) -> float | None:
    """Seconds lost in `beside_s` seconds beside partners at these rates; None where one of the rates is not known."""
    if beside_s == 0:
        return 0.0
    alone, shared = measured.alone_rate, measured.shared_rate
    return None if alone is None or shared is None else beside_s * max(0.0, 1 - shared / alone)
