"""What changed settings may do to memory, load and time of a script that was measured at other settings.

From runs of one script on one type of device follows a range (least, usual, most) for a job with settings of its own; None
where it could be anything. This is what keeps a larger model from being given the bound of a smaller one.

A measured value has a fixed part that no setting changes, the framework's own (`_FIXED`), and a rest, which each changed setting
multiplies by a factor within the range of `setting_effects`.

No setting is assumed to shrink what it enlarges, so a run with larger settings bounds a job from above, and one with smaller
ones from below: every further run narrows the range. Where two runs differ in one setting only, the effect measured there
replaces the assumed one (`projected`). What the names of settings do not say is learned: until runs have shown that a setting
makes no difference (`without_effect`), a job with another value of it has no bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpuq.learn.features.setting_effects import (
    ANYTHING,
    UNKNOWN_TIME,
    FactorRange,
    SettingChange,
    assumed_effect,
    changes,
    has_effect,
    is_choice,
    of_a_step,
    projected,
    together,
)
from gpuq.learn.features.without_effect import LevelSetting, without_effect
from gpuq.learn.history.history import MeasuredRun, peak_utilization
from gpuq.learn.history.job_features import JobFeatures, Value
from gpuq.learn.statistics import REPEATED_DURATION, predictive_bound

MIB = 2**20
_LARGEST_LOG = 50.0
_MOST_KEPT = 10_000
# Different settings that are compared; more of them narrow the range little and cost time.
MOST_RUNS = 12
# Of those, how many of the least different ones are used.
MOST_COMPARED = 4
# A share of a measurement that two runs of the same work may differ by.
_NOISE = 0.05
# Most / usual above which a range gives no bound: the job runs alone and is measured.
WIDEST = 2.5
# A shorter run may have needed more memory than any sample shows. GPUs are sampled once a second, CPU devices ten times a
# second in the first five seconds of a job.
SHORTEST_S, SHORTEST_ON_CORES_S = 1.5, 0.3


# Bytes of a process that no setting changes, at least and at most, by framework: anonymous memory of a process that trains a
# layer of two inputs. On a GPU it is the driver's context and the kernels that a framework loads.
_FIXED: Mapping[str | None, tuple[float, float]] = {
    None: (8 * MIB, 16 * MIB),
    "scikit-learn": (60 * MIB, 90 * MIB),
    "pytorch": (140 * MIB, 220 * MIB),
    "keras": (240 * MIB, 330 * MIB),
    "tensorflow": (240 * MIB, 330 * MIB),
    "jax": (90 * MIB, 200 * MIB),
}
_FIXED_ON_GPU = (250 * MIB, 600 * MIB)
# Seconds of import and set-up, by framework, at least and at most.
_START_UP: Mapping[str | None, tuple[float, float]] = {
    None: (0.1, 0.4),
    "scikit-learn": (0.6, 2.0),
    "pytorch": (1.0, 4.0),
    "keras": (2.5, 8.0),
    "tensorflow": (2.5, 8.0),
    "jax": (1.0, 4.0),
}
# Per run: the measured value, and the least and most of its fixed part.
Values = list[tuple[float | None, tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class SettingRuns:
    """Runs with equal settings: their highest memory, and the time of the longest one."""

    known: JobFeatures
    memory_bytes: float | None
    duration_s: float | None
    first_step_s: float | None

    @classmethod
    def of(cls, runs: Sequence[MeasuredRun], shortest_s: float) -> SettingRuns:
        """From runs with equal settings, at least one. Memory is taken from runs of `shortest_s` and longer, and the time of the
        work from runs without a partner, if there are any."""
        long_enough = [run for run in runs if run.duration_s is None or run.duration_s >= shortest_s]
        memory = [run.peak_memory_bytes for run in long_enough if run.peak_memory_bytes is not None]
        timed = [run for run in runs if run.duration_s is not None]
        alone = [run for run in timed if not run.shared] or timed
        longest = max(alone, key=lambda run: run.duration_s or 0.0, default=None)
        return cls(
            known=runs[-1].known,
            memory_bytes=float(max(memory)) if memory else None,
            duration_s=None if longest is None else longest.duration_s,
            first_step_s=None if longest is None else longest.first_step_s,
        )


@dataclass(frozen=True, slots=True)
class NeedRange:
    """Least, usual and most, in the unit of what was measured."""

    least: float
    usual: float
    most: float


@dataclass(frozen=True, slots=True)
class SettingsComparison:
    """What a job may need, by runs of its script with other settings.

    `nearest` is what differs from the run that differs least. `memory` (bytes) and `seconds` are None where no run shows any.
    `load` is the factor by which the work of a step may have grown since the nearest run, at most; None for no comparable
    run.
    """

    nearest: tuple[SettingChange, ...]
    memory: NeedRange | None
    seconds: NeedRange | None
    load: float | None


class ScriptRuns:
    """Finished runs of one script on one type of device, by their settings, and what a job with other settings may need."""

    def __init__(self, runs: Sequence[MeasuredRun], device_type: str) -> None:
        """Runs with both peaks are preferred. Of more different settings than `MOST_RUNS` the latest count."""
        self.runs = [run for run in runs if run.complete] or list(runs)
        self.utilization_pct = peak_utilization(self.runs, self.runs)
        self._groups: dict[tuple[tuple[str, Value], ...] | None, list[MeasuredRun]] = {}
        for run in self.runs:
            self._groups.setdefault(run.known.values, []).append(run)
        self._on_cores = device_type.startswith("cpu-")
        shortest_s = SHORTEST_ON_CORES_S if self._on_cores else SHORTEST_S
        self._rows = [SettingRuns.of(group, shortest_s) for group in list(self._groups.values())[-MOST_RUNS:]]
        sized = [(run.known.batch_log2, run.peak_memory_bytes) for run in self.runs]
        known = [(2.0**batch, float(peak)) for batch, peak in sized if batch is not None and peak is not None]
        self.along_batch = [batch for batch, _ in known], [peak for _, peak in known]
        """Batch sizes, and the bytes that were needed at each."""
        self._compared: dict[tuple[object, ...], SettingsComparison] = {}
        self._seen: dict[tuple[str, int], dict[str, list[tuple[SettingChange, float]]]] = {}

    @cached_property
    def _level(self) -> Mapping[str, LevelSetting]:
        """The settings that made no difference to memory."""
        return without_effect([(row.known, row.memory_bytes) for row in self._rows])

    def alike(self, job: JobFeatures) -> list[MeasuredRun]:
        """The complete runs with exactly the job's settings and script; empty for a job of unknown settings."""
        same = self._groups.get(job.values, []) if job.values else []
        return [run for run in same if run.complete and job.same_work(run.known)]

    def compared(self, job: JobFeatures) -> SettingsComparison:
        """What a job may need; computed once for all jobs with the same settings."""
        key = job.values, job.given, job.framework
        if key not in self._compared:
            if len(self._compared) >= _MOST_KEPT:
                self._compared.clear()
            self._compared[key] = self._compare(job)
        return self._compared[key]

    def _compare(self, job: JobFeatures) -> SettingsComparison:
        changed = [tuple(changes(job, row.known)) for row in self._rows]
        # What a setting without effect is changed to does not matter; neither does its name.
        mattering = [[change for change in each if self._level_share(change) is None] for each in changed]
        # Another model or data set may be any other work, so such runs are no evidence.
        alike = [place for place, each in enumerate(mattering) if not any(map(is_choice, each))]
        # The fewer settings differ, the narrower the range: distant runs only cost time.
        near = sorted(alike, key=lambda place: (len(mattering[place]), len(changed[place])))[:MOST_COMPARED]
        nearest = [(place, changed[place]) for place in near]
        fixed = _FIXED.get(job.framework, _FIXED[None]) if self._on_cores else _FIXED_ON_GPU
        memories: Values = [(row.memory_bytes, fixed) for row in self._rows]
        # Where steps were counted, the time to the first one is nearly all that epochs and sizes do not change.
        usual = _START_UP.get(job.framework, _START_UP[None])
        durations: Values = [
            (row.duration_s, usual if row.first_step_s is None else (0.8 * row.first_step_s, row.first_step_s))
            for row in self._rows
        ]
        grown = [together(of_a_step(mattering[place])).most for place in near]
        return SettingsComparison(
            nearest=min(changed, key=len, default=()),
            memory=self._needs("memory", nearest, memories),
            seconds=self._needs("time", nearest, durations),
            load=math.exp(min(max(0.0, min(grown)), _LARGEST_LOG)) if grown else None,
        )

    def _needs(
        self, what: str, near: Sequence[tuple[int, tuple[SettingChange, ...]]], rows: Values
    ) -> NeedRange | None:
        """The range that all these runs leave open: the intersection of their ranges. The usual value is that of the
        narrowest."""
        found: list[tuple[float, NeedRange]] = []
        for place, changed in near:
            value, fixed = rows[place]
            if value is None:
                continue
            floor, ceiling = _fixed_part(value, fixed[0]), _fixed_part(value, fixed[1])
            span = self._joint_effect(what, place, rows, changed)
            middle = (floor + ceiling) / 2
            # The larger the fixed part, the less is multiplied: so it is small for the upper end and large for the lower one.
            least = ceiling + (value - ceiling) * math.exp(span.least)
            usual = middle + (value - middle) * math.exp(min(span.usual, _LARGEST_LOG))
            most = floor + (value - floor) * math.exp(span.most) if span.most < _LARGEST_LOG else ANYTHING
            found.append((span.most - span.least, NeedRange(min(least, most), usual, most)))
        if not found:
            return None
        # Each run gives valid bounds of its own, so the tightest of each side holds for all of them.
        usual = min(found, key=lambda pair: pair[0])[1].usual
        most = min(needs.most for _, needs in found)
        least = min(max(needs.least for _, needs in found), most)
        return NeedRange(least, min(max(usual, least), most), most)

    def _joint_effect(self, what: str, place: int, rows: Values, changed: Sequence[SettingChange]) -> FactorRange:
        """The effect of these changes of this run's settings, as it was measured or, where it was not, is assumed."""
        if len(rows) == 1:
            return together((change, assumed_effect(change, what)) for change in changed)
        shares = {change: share for change in changed if (share := self._level_share(change)) is not None}
        total = together(
            (change, self._learned(what, place, rows, change) or assumed_effect(change, what))
            for change in changed
            if change not in shares
        )
        if not shares:
            return total
        if what == "time":
            return total + UNKNOWN_TIME
        # Where many settings changed at once, memory was as level as where one did.
        value, (fixed, _) = rows[place]
        return total + _within(max(shares.values()) * _share_of_rest(value or 1.0, fixed))

    def _level_share(self, change: SettingChange) -> float | None:
        """By which share memory may differ after a change that was shown to make no difference; None for another."""
        found = self._level.get(change.name) if len(self._rows) > 1 else None
        return None if found is None else found.share(change)

    def _learned(self, what: str, place: int, rows: Values, change: SettingChange) -> FactorRange | None:
        """The effect that runs which differ from this one in the changed setting alone showed; None without any."""
        value, (fixed, _) = rows[place]
        if value is None:
            return None
        if (what, place) not in self._seen:
            # Setting -> (change, value measured there) of the runs that differ from this one in that setting only.
            lone: dict[str, list[tuple[SettingChange, float]]] = {}
            for row, (its, _) in zip(self._rows, rows, strict=True):
                differing = changes(row.known, self._rows[place].known)
                between = [one for one in differing if has_effect(one, what) and self._level_share(one) is None]
                # Of what is assumed to have none, only a run that differs in nothing else shows one.
                between = between or differing[: len(differing) == 1]
                if its is not None and len(between) == 1:
                    lone.setdefault(between[0].name, []).append((between[0], its))
            self._seen[what, place] = lone
        rest = value - _fixed_part(value, fixed)
        spans = [
            projected(change, seen, (its - value) / rest, _NOISE * value / rest, what)
            for seen, its in self._seen[what, place].get(change.name, ())
        ]
        return min((span for span in spans if span is not None), key=lambda span: span.most - span.least, default=None)


def busier(utilization_pct: float, factor: float) -> float:
    """Peak utilisation if the device has `factor` times the work per step and the host side of a step stays as it is.

    With u the busy share, a step takes u * factor + (1 - u) of its former time, and the device is busy for u * factor of it.
    """
    busy = utilization_pct / 100 * factor
    return min(100.0, 100 * busy / (1 - utilization_pct / 100 + busy)) if factor > 1 else utilization_pct


def bounded(needs: NeedRange, noise: float) -> float:
    """The upper end, where a repeated run may need `noise` times as much. Both are independent, so squared logs add up."""
    if needs.usual <= 0:  # runs that used nothing
        return needs.most
    above = math.log(needs.most / needs.usual)
    return needs.usual * math.exp(math.hypot(above, math.log(max(1.0, noise))))


def seconds(needs: NeedRange | None) -> tuple[float | None, float | None]:
    """(p50, p90) of the duration in seconds; (None, None) where it could be anything."""
    if needs is None or needs.most == ANYTHING:
        return None, None
    return needs.usual, bounded(needs, predictive_bound([1.0], 0.9, REPEATED_DURATION))


def _share_of_rest(value: float, fixed: float) -> float:
    """The measured value as a multiple of the part of it that settings multiply."""
    return value / (value - _fixed_part(value, fixed))


def _within(share: float) -> FactorRange:
    return FactorRange(math.log(max(0.01, 1 - share)), 0.0, math.log(1 + share))


def _fixed_part(value: float, believed: float) -> float:
    """The part of a measured value that no setting changes; half the value where it is not above the assumed fixed part."""
    return believed if believed < 0.95 * value else 0.5 * value
