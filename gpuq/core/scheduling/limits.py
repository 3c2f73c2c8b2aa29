"""The limits that `admit` applies. The settings' group `[admission]` is this class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from types import MappingProxyType
from typing import Annotated, Literal

NOT_A_SETTING: Mapping[str, bool] = MappingProxyType({"setting": False})
"""Metadata of a field that no site sets: only simulations and tests give it another value."""


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a numeric setting may have. `above` and `below` are themselves outside; infinite values always are."""

    at_least: float = -inf
    above: float = -inf
    at_most: float = inf
    below: float = inf

    def __contains__(self, value: float) -> bool:
        return isfinite(value) and self.at_least <= value <= self.at_most and self.above < value < self.below

    def __str__(self) -> str:
        """The range as words that follow "a number": "from 0 to 100", "above 0 and at most 1", "of at least 1"."""
        if isfinite(self.at_least) and isfinite(self.at_most):
            return f"from {self.at_least} to {self.at_most}"
        limits = (("at least", self.at_least), ("above", self.above), ("at most", self.at_most), ("below", self.below))
        written = " and ".join(f"{word} {limit}" for word, limit in limits if isfinite(limit))
        return f"of {written}" if isfinite(self.at_least) else written


@dataclass(frozen=True, slots=True)
class Limits:
    """When a second job may join a busy device."""

    residents_per_device: Annotated[int, Range(at_least=1)] = 2
    """Jobs on one device at most. Beyond two, measured gains shrink and the blame for a slowdown blurs."""
    utilization_pct: Annotated[float, Range(above=0)] = 100.0
    """The sum of predicted peak utilisations may not exceed this times the slowdown budget, where no slowdown was measured; with
    the objective `saving`, this times what saves enough: 1.8 for two and a `least_saving` of 0.1."""
    memory_headroom: Annotated[float, Range(at_least=0, below=1)] = 0.10
    """Share of a device's memory left free when two share: together 3 of 4 pairs used more than the sum of both."""
    max_slowdown: Annotated[float, Range(at_least=1, at_most=5)] = 1.15
    """Slowdown budget of a job that names none: 1.15 is 15% slower than alone."""
    risk: Annotated[float, Range(above=0, at_most=1)] = 0.1
    """The share of admitted pairs that may exceed a slowdown budget; 1 admits by what is expected alone."""
    trials: bool = False
    """Try pairs that are refused only because too little was measured, where that can be undone within the budgets of all."""
    objective: Literal["slowdown", "saving"] = "slowdown"
    """What pairs are judged by: `slowdown` keeps each job under its budget, `saving` requires that packing pays."""
    least_saving: Annotated[float, Range(at_least=0, at_most=0.5)] = 0.1
    """With `saving`: the predicted packing saving that a pair must have. 0.5 is two jobs that do not disturb each other."""
    pauses: bool = False
    """Let short jobs run at once while the residents of their devices stand still, within the residents' slowdown budgets."""
    pause_margin: float = field(default=2.0, metadata=NOT_A_SETTING)
    """A resident is paused if its account allows this many times the newcomer's 90th percentile."""
    stale_after_s: Annotated[float, Range(at_least=2)] = 10.0
    """A device whose last reading is older admits no job."""
    lease_s: Annotated[float, Range(at_least=0, at_most=3600)] = 60.0
    """A job with `--requeue` ends when its host was not connected to the dispatcher for this long; it may start elsewhere 30 s
    later. 0: it runs on, and starts elsewhere only after `gpuq host lost`; so does every job where the record is SQLite."""
    patience_s: Annotated[float, Range(at_least=0)] = 1800.0
    """A job that waited this long has devices reserved for it, so that small jobs cannot starve it."""
    patience_ratio: float = field(default=5.0, metadata=NOT_A_SETTING)
    """A job whose duration is forecast must have waited this many times its own device-time as well as `patience_s`."""
    # A gang that takes all devices for a day costs the other jobs more than one that takes them for an hour: the devices stand
    # idle while they are collected, and are gone afterwards. Chosen on simulated stretches that were not used to judge it
    # (docs/measurements/scheduling.md). Device-times are finite, so every job's wait stays bounded.
    launches_per_pass: int = field(default=500, metadata=NOT_A_SETTING)
    """A pass that has started so many jobs ends."""
    judgements_per_pass: int = field(default=2000, metadata=NOT_A_SETTING)
    """A pass that has judged so many jobs on devices beside residents ends, and the next goes on with the jobs behind."""
    # Both bound the time for which the dispatcher does nothing else: where every job is of another kind, no judgement serves
    # twice.
    start_grace_s: float = field(default=5.0, metadata=NOT_A_SETTING)
    """Seconds until an ordered attempt that its host has not reported is ordered again."""
    # A message takes milliseconds, so five seconds of silence mean that it was lost. Repeating an order is harmless: a start
    # is claimed in the record, which succeeds once.
    candidates_per_job: int = field(default=8, metadata=NOT_A_SETTING)
    """Admitted shared devices among which the policy chooses for one job in one pass, the least used first."""
    # Devices that refuse do not count. Refusals are remembered until the device changes, and `judgements_per_pass` bounds how
    # many are new in a pass.
