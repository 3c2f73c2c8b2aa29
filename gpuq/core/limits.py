"""The numbers admission is held to; the settings' `[admission]` group is this very class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Limits:
    """When a second job may join a busy device."""

    residents_per_device: int = 2
    """Jobs on one device at most. Beyond two, measured gains shrink and the blame for a slowdown blurs."""
    utilization_pct: float = 100.0
    """The sum of predicted peak utilisations may not exceed this times the slowdown budget, where nothing measured speaks; with
    the objective `saving`, this times what saves enough: 1.8 for two and a `least_saving` of 0.1."""
    memory_headroom: float = 0.10
    """Share of a device's memory left free when two share: together 3 of 4 pairs used more than the sum of both."""
    max_slowdown: float = 1.15
    """Slowdown budget of a job that names none: 1.15 is 15% slower than alone."""
    objective: Literal["slowdown", "saving"] = "slowdown"
    """What pairs are judged by: `slowdown` keeps each job under its budget, `saving` wants packing to pay."""
    least_saving: float = 0.1
    """With `saving`: the predicted packing saving that a pair must have. 0.5 is two jobs that do not disturb each other."""
    stale_after_s: float = 10.0
    """A device whose last reading is older admits nobody."""
    patience_s: float = 1800.0
    """A job that waited this long gets the next device kept free for it, so that small jobs cannot starve it."""
    patience_ratio: float = 5.0
    """A job of which a duration is foretold is that patient at least for so many times its own device-time: what takes
    the devices for long, and they stand idle for it first, has to have waited for long."""
    start_grace_s: float = 5.0
    """An ordered attempt that its host does not report after this long is sent again, and then given up."""
    candidates_per_job: int = 8
    """Shared places tried for one job in one pass, best first."""
