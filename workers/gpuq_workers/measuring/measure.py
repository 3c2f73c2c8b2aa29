"""The arithmetic of one attempt's measurement: peaks, and progress for each set of partners.

`Meter` takes one look a second (usage, partners, step counter) and gives a `Measurement`. Its state is plain data, so that a
restarted worker service continues; the gap between is attributed to no one. No clock and no file is used here. Times are
CLOCK_MONOTONIC seconds unless stated otherwise.

Peak utilisation is the 95th percentile of 5 s means after the first step, or of all means for a job without counted steps.
Beside a partner on a fully used device a job gets less than it wants, so such windows say nothing about its peak. A job that was
never alone, on a device that was full in more than one window in twenty, has no known peak.

Foreign load. Windows in which processes that gpuq did not start hardly ran are the job's own. For the other windows the largest
part of the job's time that was taken is known. If it is small over all of them together, they count as well; otherwise their
rates are kept apart and their utilisation only bounds the job's peak. They are judged together and not one by one: a job loses
most in its busiest phases, and keeping only the quiet windows would make it look lighter than it is.

A job that never was on its GPU has the peaks 0. That is known only where it was looked for long enough (`_LEAST_ABSENT_S`), and
only at its end: until then it may still be loading what it will put there.

Energy is the sum over the looks, known from the first look that has it; a look without it adds nothing.

A framework may allocate most of a GPU at once and manage it itself (TensorFlow all of it, JAX three quarters, by default). Then
the highest reading is only an upper bound on the job's need; `prealloc.py` detects that.

Progress windows run from one observed step to another at least `window_s` later, so slow steps make longer windows instead of
rates of zero. The first window after the first step is dropped (compilation, cold caches), and so is every window in which the
partners changed. While the job or its partner is paused (`measuring/blink.py`) nothing is counted and no window spans the
pause; what was measured in the pause becomes a segment of its own.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpuq.adapters.devices import ResidentUsage
from gpuq.core.measuring.account import slowed_s
from gpuq.core.measuring.measurement import HELD_BACK_LIMIT, Measurement, Segment
from gpuq.core.measuring.slowdown import Rates, rates
from gpuq.core.state.attempt import AttemptId
from gpuq_workers.measuring.foreign import ForeignLoad
from gpuq_workers.measuring.level import MemoryLevel
from gpuq_workers.measuring.prealloc import PoolWatch, is_bound
from gpuq_workers.measuring.progress import Progress

WINDOW_S = 5.0
_FULL_PCT = 98.0
_PERCENTILE = 0.95
_BINS_PER_PCT = 10
_MOST_SEGMENTS = 200
# The peak of the windows without foreign load stands for all windows only if they are at least this share of them.
_LEAST_QUIET = 0.25
# In how many looks, and for how long, none of a job's processes was on its devices before that is taken for its need. A use of
# less than a second may fall between two looks; a program that runs for ten seconds and uses a GPU at all is on it for longer.
# Unknown looks may be one in ten: the first ones of a job are, while the memory of the one before it is still given back.
_LEAST_ABSENT_LOOKS, _LEAST_ABSENT_S, _LEAST_ABSENT = 10, 9.0, 0.9


@dataclass(frozen=True, slots=True)
class Look:
    """One attempt at one moment. `at` is wall time, `clock` monotonic; `usage` and `busy_pct` are of its busiest device.

    `total_memory_bytes` is the memory of its smallest GPU, None for an attempt on CPU devices. `is_absent`: none of its processes
    is on its devices, as a driver says that lists processes.
    """

    at: float
    clock: float
    usage: ResidentUsage
    busy_pct: float | None
    partners: tuple[AttemptId, ...]
    progress: Progress | None
    total_memory_bytes: int | None = None
    is_absent: bool = False


@dataclass(slots=True)
class MeterState:
    """An attempt's sums between looks. Histograms map tenths of a percent to the number of 5 s means.

    Windows with considerable foreign load are in neither `alone` nor `shared`. `disturbed` has them as they were read, `at_most`
    with the most that the job would have used without that load.
    """

    alone: dict[int, int] = field(default_factory=dict)
    shared: dict[int, int] = field(default_factory=dict)
    full_windows: int = 0
    disturbed: dict[int, int] = field(default_factory=dict)
    at_most: dict[int, int] = field(default_factory=dict)
    foreign: ForeignLoad = field(default_factory=ForeignLoad)
    peak_memory_bytes: int | None = None
    estimated_memory_bytes: int | None = None
    steps: int | None = None
    step_processes: int | None = None
    first_step_at: float | None = None
    segments: list[Segment] = field(default_factory=list)
    partners: list[AttemptId] = field(default_factory=list)
    energy_joules: float | None = None
    idle_joules: float | None = None
    pool_bytes: int | None = None
    blink: str | None = None
    beside_s: float = 0.0
    """Seconds beside partners, the time in no window included."""
    looks: int = 0
    absent_looks: int = 0
    absent_s: float = 0.0
    """Looks in which it was on none of its devices, and the seconds between two of them in a row."""
    level: MemoryLevel = field(default_factory=MemoryLevel)

    @property
    def was_absent(self) -> bool:
        """Whether it was on none of its devices, as far as enough looks tell."""
        often = self.absent_looks >= max(_LEAST_ABSENT_LOOKS, _LEAST_ABSENT * self.looks)
        return often and self.absent_s >= _LEAST_ABSENT_S


@dataclass(slots=True)
class _Mean:
    """The current 5 s mean of utilisation."""

    since: float
    total: float = 0.0
    count: int = 0
    busy: float = 0.0
    shared: bool = False
    foreign: ForeignLoad = field(default_factory=ForeignLoad)

    @property
    def mean(self) -> float:
        """Percent."""
        return self.total / self.count

    @property
    def is_full(self) -> bool:
        """Whether the device was fully used, so that the job may have got less than it wanted."""
        return self.busy / self.count >= _FULL_PCT

    @property
    def most(self) -> float:
        """The most that the job would have used without the foreign load, in percent."""
        left = 1.0 - (self.foreign.mean_held_back or 0.0)
        return 100.0 if (self.shared and self.is_full) or self.mean >= 100.0 * left else self.mean / left


@dataclass(frozen=True, slots=True)
class _Window:
    """An open window of progress: the step counter and the time at its begin, and the partners."""

    steps: int
    since: float
    partners: tuple[AttemptId, ...]


class AttemptPeaks(NamedTuple):
    """An attempt's highest memory in bytes and utilisation in percent; a bound says what it needs at most."""

    memory_bytes: int | None
    memory_is_bound: bool
    utilization_pct: float | None
    utilization_is_bound: bool


class Meter:
    """Measures one attempt, look by look."""

    def __init__(
        self, state: MeterState | None = None, window_s: float = WINDOW_S, requested: float | None = None
    ) -> None:
        """`requested`: the share of a device that the job's environment makes its framework allocate at once; None for none."""
        self.state = state or MeterState()
        self._pool = PoolWatch(requested)
        self._window_s = window_s
        self._mean: _Mean | None = None
        self._window: _Window | None = None
        self._before: _Window | None = None
        self._window_foreign = ForeignLoad()
        self._recent: deque[Progress] = deque(maxlen=64)
        self._last: Look | None = None
        self._beside_since: float | None = None
        self._paused = False
        # Both are kept until a window ends, which is less often than they are asked for.
        self._rates: dict[tuple[AttemptId, ...] | None, Rates] = {}
        self._peak: tuple[float | None, bool] | None = None

    def look(self, look: Look) -> None:
        """Add one look."""
        if self._paused:
            return
        state, usage = self.state, look.usage
        self.add_memory(usage)
        self._take_absence(look)
        if usage.memory_bytes and look.total_memory_bytes and state.pool_bytes is None:
            state.pool_bytes = self._pool.look(usage.memory_bytes, look.total_memory_bytes)
        state.energy_joules = _added(state.energy_joules, usage.energy_joules)
        state.idle_joules = _added(state.idle_joules, usage.idle_joules)
        state.partners.extend(partner for partner in look.partners if partner not in state.partners)
        if self._beside_since is not None:
            state.beside_s += look.clock - self._beside_since
        self._beside_since = look.clock if look.partners else None
        state.foreign.add(usage.foreign_load, usage.held_back)
        self._window_foreign.add(usage.foreign_load, usage.held_back)
        if look.progress is not None:
            self._take_progress(look, look.progress)
            age_s = look.clock - look.progress.first_step_at
            state.level.look(state.peak_memory_bytes or 0, age_s, look.progress.steps)
        self._take_utilization(look)
        self._last = look

    def add_memory(self, usage: ResidentUsage) -> None:
        """Add the memory of `usage` to the peaks, and nothing else of it."""
        if not usage.memory_bytes:  # a 0 is read while the job starts or ends: every process has some memory
            return
        state = self.state
        if usage.memory_is_estimate:
            state.estimated_memory_bytes = max(usage.memory_bytes, state.estimated_memory_bytes or 0)
        else:
            state.peak_memory_bytes = max(usage.memory_bytes, state.peak_memory_bytes or 0)

    def pause(self) -> None:
        """Ignore looks until `resume`: the job or its partner is about to be paused."""
        self._paused = True
        self._window = self._before = self._mean = self._beside_since = None
        self._recent.clear()

    def resume(self) -> None:
        """Count looks again."""
        self._paused = False

    def add_blink(self, partners: tuple[AttemptId, ...], steps: int, seconds: float) -> None:
        """Add a segment measured in a pause: `steps` within `seconds` while `partners`, all of them, stood still."""
        now = ForeignLoad()
        if self._last is not None:
            now.add(self._last.usage.foreign_load, self._last.usage.held_back)
        self._add(_segment(partners, seconds, steps, now, blink=True))
        count = self.blinks()
        self.state.blink = "once" if count == 1 else f"{count} times"

    def blinks(self) -> int:
        """In how many pauses of all its partners it was measured."""
        return sum(segment.windows for segment in self.state.segments if segment.blink)

    def finish(self, progress: Progress | None) -> Measurement:
        """The measurement of an attempt that has ended; `progress` is the last state of its step counter."""
        if self._last is not None and progress is not None:
            self._take_progress(replace(self._last, progress=progress), progress)
            self._close_window(progress, self._window_s / 2)
        elif progress is not None:
            self.state.steps = progress.steps
        measured = self.measurement()
        if not self.state.was_absent or (measured.peak_memory_bytes, measured.peak_utilization_pct) != (None, None):
            return measured
        return replace(measured, peak_memory_bytes=0, peak_utilization_pct=0.0)

    def peaks(self) -> AttemptPeaks:
        """The peaks up to now."""
        state = self.state
        utilization, utilization_is_bound = self._peak_utilization()
        memory = state.peak_memory_bytes or state.estimated_memory_bytes
        only_estimated = memory is not None and state.peak_memory_bytes is None
        memory_is_bound = only_estimated or is_bound(state.peak_memory_bytes, state.pool_bytes)
        return AttemptPeaks(memory, memory_is_bound, utilization, utilization_is_bound)

    def measurement(self) -> Measurement:
        """The measurement up to now."""
        state, peaks = self.state, self.peaks()
        return Measurement(
            peak_utilization_pct=peaks.utilization_pct,
            peak_memory_bytes=peaks.memory_bytes,
            steps=state.steps,
            first_step_at=state.first_step_at,
            segments=tuple(state.segments),
            partners=tuple(sorted(state.partners)),
            energy_joules=state.energy_joules,
            idle_joules=state.idle_joules,
            peak_memory_is_bound=peaks.memory_is_bound,
            blink=state.blink,
            foreign_load=state.foreign.mean_load,
            held_back=state.foreign.mean_held_back,
            utilization_is_bound=peaks.utilization_is_bound,
            step_processes=state.step_processes,
        )

    def rates(self, beside: tuple[AttemptId, ...] | None = None) -> Rates:
        """The progress up to now, alone and beside partners; `beside` as in `slowdown.rates`."""
        if beside not in self._rates:
            self._rates[beside] = rates(Measurement(segments=tuple(self.state.segments)), beside)
        return self._rates[beside]

    def slowed_s(self) -> float | None:
        """Seconds lost to partners so far; None where it had one and its cost is not measured."""
        return slowed_s(self.state.beside_s, self.rates()) if self.state.beside_s else 0.0

    def level_s(self, least_s: float) -> float | None:
        """For how long the memory has been level (see `level`); None while it is not, or where its peak is only a bound."""
        last, state = self._last, self.state
        if last is None or last.progress is None or is_bound(state.peak_memory_bytes, state.pool_bytes):
            return None
        return state.level.level_s(last.clock - last.progress.first_step_at, last.progress.steps, least_s)

    def rate(self) -> float | None:
        """Steps per second over the last few seconds; 0 for a job that stopped stepping, None if no steps are counted."""
        if len(self._recent) < 2 or self._last is None:
            return None
        newest = self._recent[-1]
        older = [p for p in self._recent if p.last_step_at <= newest.last_step_at - self._window_s]
        base = older[-1] if older else self._recent[0]
        steps, seconds = newest.steps - base.steps, newest.last_step_at - base.last_step_at
        # A job that stopped stepping keeps its old window: it counts as halted after the window and three more steps.
        silence = self._last.clock - newest.last_step_at
        if seconds < 1e-3:
            return None
        return 0.0 if steps <= 0 or silence > self._window_s + 3 * seconds / steps else steps / seconds

    # --- absence and utilisation ---

    def _take_absence(self, look: Look) -> None:
        state, last = self.state, self._last
        state.looks += 1
        if look.is_absent:
            state.absent_looks += 1
            if last is not None and last.is_absent:
                state.absent_s += look.clock - last.clock

    def _take_utilization(self, look: Look) -> None:
        if self._mean is None:
            self._mean = _Mean(look.clock)
            return
        mean, usage = self._mean, look.usage
        # With 0 bytes the job is not on its device yet, or no more.
        if usage.utilization_pct is not None and usage.memory_bytes != 0:
            mean.total += usage.utilization_pct
            mean.busy += look.busy_pct or 0.0
            mean.count += 1
            mean.shared = mean.shared or bool(look.partners)
            mean.foreign.add(usage.foreign_load, usage.held_back)
        # A look may come a little early, and five looks at one a second shall make one window.
        if look.clock - mean.since < 0.9 * self._window_s:
            return
        self._mean, self._peak = _Mean(look.clock), None
        if mean.count and mean.foreign.is_considerable:
            _count(self.state.disturbed, mean.mean)
            _count(self.state.at_most, mean.most)
        elif mean.count:
            _count(self.state.shared if mean.shared else self.state.alone, mean.mean)
            if mean.shared and mean.is_full:
                self.state.full_windows += 1

    def _peak_utilization(self) -> tuple[float | None, bool]:
        """(peak, whether it is only an upper bound)."""
        if self._peak is None:
            self._peak = self._peak_of_windows()
        return self._peak or self._mean_so_far()

    def _peak_of_windows(self) -> tuple[float | None, bool] | None:
        state = self.state
        quiet = sum(state.alone.values()) + sum(state.shared.values())
        disturbed = sum(state.disturbed.values())
        if not quiet and not disturbed:
            return None
        # In order of trust: enough windows without foreign load; windows in which the load took little; else an upper bound.
        own = self._quiet_peak()
        if own is not None and quiet >= _LEAST_QUIET * (quiet + disturbed):
            return max(own, _percentile(state.disturbed) or 0.0), False
        if not disturbed:
            return None, False
        others = () if own is None else (state.alone, state.shared)
        read, most = (_percentile(bins, *others) or 0.0 for bins in (state.disturbed, state.at_most))
        return (read, False) if read >= (1 - HELD_BACK_LIMIT) * most else (most, True)

    def _quiet_peak(self) -> float | None:
        """The peak of the windows without foreign load; None where a full device hid it, or there are none."""
        alone, shared = _percentile(self.state.alone), _percentile(self.state.shared)
        if alone is None and self.state.full_windows > (1 - _PERCENTILE) * sum(self.state.shared.values()):
            return None
        return max((value for value in (alone, shared) if value is not None), default=None)

    def _mean_so_far(self) -> tuple[float | None, bool]:
        mean = self._mean
        if mean is None or not mean.count or (mean.shared and mean.is_full):
            return None, False
        if mean.foreign.is_considerable and mean.mean < (1 - HELD_BACK_LIMIT) * mean.most:
            return mean.most, True
        return mean.mean, False

    # --- progress ---

    def _take_progress(self, look: Look, progress: Progress) -> None:
        state = self.state
        if state.first_step_at is None:
            state.first_step_at = look.at - (look.clock - progress.first_step_at)
            # Looks before the first step measured imports and loading; the peak is that of the training.
            state.alone, state.shared, state.full_windows, self._mean = {}, {}, 0, None
            state.disturbed, state.at_most, self._peak = {}, {}, None
        state.steps = progress.steps
        state.step_processes = progress.processes
        # A counter that decreases belongs to a new process: rates across the two would be wrong.
        if self._recent and progress.steps < self._recent[-1].steps:
            self._recent.clear()
        if not self._recent or progress.last_step_at > self._recent[-1].last_step_at:
            self._recent.append(progress)
        window = self._window
        if window is not None and (window.partners != look.partners or progress.steps < window.steps):
            self._window = window = None
        if window is None:
            self._open_window(look, progress)
        else:
            self._close_window(progress, self._window_s)

    def _open_window(self, look: Look, progress: Progress) -> None:
        """Open a window at the next step seen from now on: the current step may have begun beside other partners."""
        here = _Window(progress.steps, progress.last_step_at, look.partners)
        if self._before is None or self._before.partners != look.partners:
            self._before = here
        elif progress.last_step_at - progress.first_step_at >= self._window_s and here.steps != self._before.steps:
            self._window, self._before, self._window_foreign = here, None, ForeignLoad()

    def _close_window(self, progress: Progress, at_least_s: float) -> None:
        window = self._window
        if window is None or progress.last_step_at - window.since < at_least_s or progress.steps <= window.steps:
            return
        seconds, steps = progress.last_step_at - window.since, progress.steps - window.steps
        self._add(_segment(window.partners, seconds, steps, self._window_foreign))
        self._window = _Window(progress.steps, progress.last_step_at, window.partners)
        self._window_foreign = ForeignLoad()

    def _add(self, new: Segment) -> None:
        self._rates = {}
        segments = self.state.segments
        for index, old in enumerate(segments):
            if (old.partners, old.blink, old.foreign) == (new.partners, new.blink, new.foreign):
                segments[index] = replace(
                    old,
                    seconds=old.seconds + new.seconds,
                    steps=old.steps + new.steps,
                    windows=old.windows + new.windows,
                    rate_sum=old.rate_sum + new.rate_sum,
                    rate_square_sum=old.rate_square_sum + new.rate_square_sum,
                    held_back_s=old.held_back_s + new.held_back_s,
                )
                return
        segments.append(new)
        # Dropped is the shortest segment with partners: the time alone is what every slowdown is computed from.
        if len(segments) > _MOST_SEGMENTS:
            segments.remove(min(segments[:-1], key=lambda segment: (not segment.partners, segment.seconds)))


def _added(sum_: float | None, more: float | None) -> float | None:
    return sum_ if more is None else (sum_ or 0.0) + more


def _segment(
    partners: tuple[AttemptId, ...], seconds: float, steps: int, foreign: ForeignLoad, *, blink: bool = False
) -> Segment:
    """One window of progress."""
    rate = steps / seconds
    taken_s = seconds * (foreign.mean_held_back or 0.0) if foreign.is_considerable else 0.0
    return Segment(partners, seconds, steps, 1, rate, rate * rate, blink, foreign.is_considerable, taken_s)


def _count(bins: dict[int, int], percent: float) -> None:
    key = round(_BINS_PER_PCT * percent)
    bins[key] = bins.get(key, 0) + 1


def _percentile(*histograms: dict[int, int]) -> float | None:
    """The smallest value that 95% of the means do not exceed: for fewer than twenty, the largest. None for no means."""
    rank = math.ceil(_PERCENTILE * sum(sum(bins.values()) for bins in histograms))
    for key, count in sorted(item for bins in histograms for item in bins.items()):
        rank -= count
        if rank <= 0:
            return key / _BINS_PER_PCT
    return None
