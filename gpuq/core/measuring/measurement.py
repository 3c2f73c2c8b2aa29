"""What was measured of one attempt: its peaks, and its progress under each set of partners.

Measured by the worker service of its host. What could not be measured is None. `slowdown.py` computes the alone rate, the
shared rate and the slowdown from the segments.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuq.core.state.attempt import AttemptId

HELD_BACK_LIMIT = 0.09
"""The largest share of a job's time that other processes may have taken for its utilisation and rates to count as its own.

They are then at most a tenth off (1 / 0.91). Gpuq's own processes take 2% of one core while a job runs.
"""


@dataclass(frozen=True, slots=True)
class Segment:
    """Progress while the partners were exactly `partners` (empty: alone), summed over windows of a few seconds.

    `windows` counts them; `rate_sum` and `rate_square_sum` are the sums of each window's steps/s and of its square.
    `blink`: they were there but paused, for about a second each time, so this is progress alone. `foreign`: processes that gpuq
    did not start were at work on the device for more than `HELD_BACK_LIMIT` of each window; `held_back_s` is how much of
    `seconds` they may have taken from the job at most.
    """

    partners: tuple[AttemptId, ...]
    seconds: float
    steps: int
    windows: int
    rate_sum: float
    rate_square_sum: float
    blink: bool = False
    foreign: bool = False
    held_back_s: float = 0.0

    @property
    def is_own_rate(self) -> bool:
        """Whether foreign load left the rate within a tenth of what it would have been without."""
        return not self.foreign or self.held_back_s <= HELD_BACK_LIMIT * self.seconds


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the worker saw of one attempt, up to now or over its whole life.

    `peak_utilization_pct` is the 95th percentile of 5 s means after the first step; `peak_memory_bytes` the highest
    reading. `steps` is None for a job that gives no progress signal; `not_counted` then says why. `peak_memory_is_bound`: the
    framework took a fixed part of the device at once, so the peak says what the job needs at most. `energy_joules` is its part
    of what its devices took, `idle_joules` the part of that which they would have taken anyway (gpuq/adapters/nvml/energy.py
    has the rule). `blink` says in a sentence how often a partner was paused to measure this attempt, or why none was; None where
    no pause was asked for.

    `foreign_load` is the mean time per second for which processes that gpuq did not start ran on the attempt's devices: cores
    for CPU devices, a share of the device for GPUs; None where it is not known. `held_back` is the mean share of its time that
    they can have taken from the job at most. `utilization_is_bound`: they took so much that `peak_utilization_pct` only says
    what the job needs at most. `step_processes` is how many processes counted steps at the same time; `steps` is then the most
    that any of them counted.
    """

    peak_utilization_pct: float | None = None
    peak_memory_bytes: int | None = None
    steps: int | None = None
    first_step_at: float | None = None
    segments: tuple[Segment, ...] = ()
    partners: tuple[AttemptId, ...] = ()
    energy_joules: float | None = None
    idle_joules: float | None = None
    peak_memory_is_bound: bool = False
    blink: str | None = None
    not_counted: str | None = None
    foreign_load: float | None = None
    held_back: float | None = None
    utilization_is_bound: bool = False
    step_processes: int | None = None
