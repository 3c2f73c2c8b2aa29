"""The assignment problem of one pass: which waiting jobs start now, on which devices, and which two of them side by side.

Arrives: the board. Leaves: options, each of which starts one job, or two that share an idle device (the core starts one per
device and pass, so the second joins in the next), and the room that all options compete for. A plan is any set of options
that fits the room. What admission would refuse is no option: `admit` itself was asked about each.

The objective: completions per hour, weighted. An option is worth, for each job it starts, weight * 3600 / (expected duration *
expected slowdown), less what residents lose by their new partner in the same unit. On one machine that is Smith's rule (W. E.
Smith, Naval Research Logistics Quarterly 3, 1956): most weight per second first, best for the weighted mean completion time.
A level of priority is worth ten of the one below. Durations under a minute count as a minute; of a job whose duration nobody
foretells, as the median of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuq.core.state.device import Device
from gpuq.core.state.job import Job

Numbers = NDArray[np.float64]
Indices = NDArray[np.intp]
NO_PARTNER = -1


@dataclass(frozen=True)
class Slot:
    """Devices that options may ask for, so many of them: idle ones that are alike, those of them on one host, or a busy one."""

    devices: tuple[Device, ...]
    idle: bool


@dataclass(frozen=True)
class Batch:
    """n jobs, s seats, m options.

    `value` (m) is what an option is worth, in weighted completions per hour; `worth` (m, 2) is the part of it that each of its
    jobs brings, before what residents lose. `first` (m) and `second` (m) index `jobs`: who starts now, and who joins it in the
    next pass, or NOBODY. `devices` (m) counts the devices it takes. `rows` and `counts`
    (both m, w) say how much of which room it takes: a row below n is that job (room for one start), row n + k is seat k; unused
    columns count 0. `capacity` (n + s) is how much there is.

    For learners. `job_features` (n, 5): expected duration in seconds, peak utilisation in percent, memory needed in GiB, devices
    wanted, seconds waited. `slot_features` (s, 3): devices, 1 if idle, percent of utilisation committed on the first of them.
    Unknown is NaN.
    """

    jobs: tuple[Job, ...]
    slots: tuple[Slot, ...]
    value: Numbers
    worth: Numbers
    first: Indices
    second: Indices
    devices: Indices
    rows: Indices
    counts: Indices
    capacity: Indices
    weight: Numbers
    job_features: Numbers
    slot_features: Numbers

    @property
    def size(self) -> int:
        """How many options there are."""
        return len(self.value)

    @property
    def open_devices(self) -> int:
        """How many devices the options are about."""
        used = np.unique(self.rows[self.counts > 0])
        return len({d.id for row in used[used >= len(self.jobs)] for d in self.slots[row - len(self.jobs)].devices})

    @property
    def density(self) -> Numbers:
        """What each option is worth per device (m)."""
        return self.value / self.devices

    def left(self, chosen: Indices) -> Indices:
        """The room (n + s) that these options leave; below zero where they do not fit."""
        left = self.capacity.copy()
        np.subtract.at(left, self.rows[chosen], self.counts[chosen])
        return left

    def fit(self, options: Indices, left: Indices) -> NDArray[np.bool_]:
        """Which of these options each fit, alone, into the room left."""
        return np.asarray((left[self.rows[options]] >= self.counts[options]).all(axis=1))

    def allows(self, chosen: Indices) -> bool:
        """Whether these options fit together."""
        return bool((self.left(chosen) >= 0).all())
