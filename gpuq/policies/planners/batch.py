"""The assignment problem of one pass, which all planners solve: which waiting jobs to start now, and on which devices.

    maximise    sum of value[o] * x[o]                  over options o, in weighted completions per hour
    subject to  sum of use[r, o] * x[o] <= capacity[r]  for every resource r
                x[o] in {0, 1}

An option starts one job on the devices that it needs, or two jobs that share an idle device. (The core starts one job per device
and pass, so the second of a pair joins in the next pass.) A resource is either a job, which can be started once, or a slot:
equivalent devices, of which an option takes one or several. Only options that `admit` allows are in the problem.

The value of an option is the sum, over the jobs that it starts, of weight * 3600 / (expected duration * expected slowdown), minus
the same measure of what residents lose by their new partner. On one machine this is Smith's rule (W. E. Smith, Naval Research
Logistics Quarterly 3, 1956): the most weight per second first minimises the weighted mean completion time. A job weighs ten times
one of the next lower priority. Durations are at least a minute; an unknown duration counts as the median of the known ones.
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
    """Devices that are equivalent to an option: idle ones that get the same verdicts, those of them on one host, or a busy
    one."""

    devices: tuple[Device, ...]
    idle: bool


@dataclass(frozen=True)
class Options:
    """m options as arrays.

    `value` (m): weighted completions per hour. `worth` (m, 2): the part that the first and the second job bring, before what
    residents lose. `first`, `second` (m): indices of the jobs; `second` is NO_PARTNER where one job starts alone. `devices` (m):
    the number of devices taken. `rows`, `counts` (m, w): the resources that an option uses and how much of each, padded with
    counts of 0. Among n jobs and s slots, row i < n is job i and row n + k is slot k.
    """

    value: Numbers
    worth: Numbers
    first: Indices
    second: Indices
    devices: Indices
    rows: Indices
    counts: Indices


@dataclass(frozen=True)
class Batch(Options):
    """The problem of one pass: n jobs, s slots, m options.

    `capacity` (n + s): 1 for a job, the number of devices for a slot. `weight` (n): by priority.

    The features are for learned policies. `job_features` (n, 5): expected duration in s, peak utilisation in percent, memory in
    GiB, devices, time waited in s. `slot_features` (s, 3): devices, 1 if idle, utilisation in percent committed on the first
    device. Unknown values are NaN.
    """

    jobs: tuple[Job, ...]
    slots: tuple[Slot, ...]
    capacity: Indices
    weight: Numbers
    job_features: Numbers
    slot_features: Numbers

    @property
    def size(self) -> int:
        """The number of options."""
        return len(self.value)

    @property
    def open_devices(self) -> int:
        """The number of devices that any option uses."""
        used = np.unique(self.rows[self.counts > 0])
        return len({d.id for row in used[used >= len(self.jobs)] for d in self.slots[row - len(self.jobs)].devices})

    @property
    def density(self) -> Numbers:
        """Value per device of each option (m)."""
        return self.value / self.devices

    def left(self, chosen: Indices) -> Indices:
        """The capacity (n + s) that these options leave; negative where they do not fit together."""
        left = self.capacity.copy()
        np.subtract.at(left, self.rows[chosen], self.counts[chosen])
        return left

    def fit(self, options: Indices, left: Indices) -> NDArray[np.bool_]:
        """Which of these options would fit, each by itself, into the capacity `left`."""
        return np.asarray((left[self.rows[options]] >= self.counts[options]).all(axis=1))

    def allows(self, chosen: Indices) -> bool:
        """Whether these options fit together."""
        return bool((self.left(chosen) >= 0).all())
