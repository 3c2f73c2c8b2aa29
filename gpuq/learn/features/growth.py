"""What changed settings may do to memory, load and time of a script that was measured at others.

Arrives: runs of one script on one type of device, each with the settings it had (`JobFeatures.values`), and a job with settings of its
own. Leaves: a range (least, usual, most) for what the job needs, or None where that could be anything. Pure.

A measured value has a part that no setting changes, the framework's own (`_FIXED`), and a rest. A setting whose value is
multiplied by r multiplies the rest by r to some power between the two ends of its `SettingEffect`:

- width: weights of dense layers and recurrent ones grow with its square, activations in proportion, data not at all;
- depth, batch, counts of rows, words, users, trees: in proportion at most;
- length of sequences, side of images: attention and pixels grow with the square;
- epochs and steps: memory hardly, time in proportion;
- precision, optimiser, recomputation: half to double; another model, data set or configuration: anything.

Nothing is believed to shrink what it enlarges, so a run with larger settings bounds a job from above, and one with smaller ones
from below: every further run narrows the range, and where two runs differ in one setting only, what it cost there replaces
the belief (`_projected`): a setting that was shown not to matter does not widen anything any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpuq.learn.history.history import JobFeatures, MeasuredRun, Value, peak_utilization
from gpuq.learn.statistics import REPEATED_DURATION, predictive_bound
from gpuq.script.meaning import Meaning, meaning

MIB = 2**20
ANYTHING = math.inf
_LARGEST_LOG = 50.0
_MOST_KEPT = 10_000
# Runs of other settings that are compared; more of them narrow little and cost time.
MOST_RUNS = 12
# Of those, the ones that differ least.
MOST_COMPARED = 4
# A share of a measurement that two runs of the same work may differ by.
_NOISE = 0.05
# A range wider than this makes no bound: the job runs alone, and is measured.
WIDEST = 2.5
# Memory is read once a second: a run that is over sooner may have needed anything in between.
SHORTEST_S = 1.5
_LEAST_POWER = 0.1


@dataclass(frozen=True, slots=True)
class FactorRange:
    """A factor as natural logs: the least, the usual and the most it may be."""

    least: float = 0.0
    usual: float = 0.0
    most: float = 0.0

    def __add__(self, other: FactorRange) -> FactorRange:
        return FactorRange(self.least + other.least, self.usual + other.usual, self.most + other.most)


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """Powers of the ratio of two values by which memory and time grow: the least, the usual and the most."""

    memory: FactorRange
    time: FactorRange

    def of(self, what: str) -> FactorRange:
        """The powers of `memory` or `time`."""
        return self.memory if what == "memory" else self.time


_UNKNOWN_SPAN = FactorRange(-ANYTHING, 0.0, ANYTHING)
# Of memory the most is what the module's own words say, less a tenth where no script is made of matrices or pixels alone, and
# the usual value is the median over the scripts of `benchmarks/corpus`. Of time they are the 10th, 50th and 90th percentiles.
EFFECTS: Mapping[Meaning, SettingEffect] = {
    Meaning.LENGTH: SettingEffect(FactorRange(0.0, 0.0, 0.1), FactorRange(0.75, 0.95, 1.0)),
    Meaning.ACCUMULATION: SettingEffect(FactorRange(-1.0, 0.0, 0.1), FactorRange(0.0, 0.5, 1.0)),
    Meaning.DEPTH: SettingEffect(FactorRange(0.0, 0.5, 1.0), FactorRange(0.3, 0.8, 1.0)),
    Meaning.BATCH: SettingEffect(FactorRange(0.0, 0.3, 0.9), FactorRange(-0.3, 0.2, 0.8)),
    Meaning.SIDE: SettingEffect(FactorRange(0.0, 1.3, 1.9), FactorRange(0.6, 1.4, 1.9)),
    Meaning.SEQUENCE: SettingEffect(FactorRange(0.0, 0.7, 1.5), FactorRange(0.3, 1.0, 1.5)),
    Meaning.WIDTH: SettingEffect(FactorRange(0.0, 0.8, 1.8), FactorRange(0.4, 1.0, 1.7)),
    Meaning.COUNT: SettingEffect(FactorRange(0.0, 0.5, 1.0), FactorRange(0.2, 0.6, 0.9)),
    Meaning.OTHER: SettingEffect(FactorRange(0.0, 0.4, 1.0), FactorRange(0.1, 0.5, 0.9)),
}
_OF_ONE_THING = frozenset({Meaning.WIDTH, Meaning.DEPTH, Meaning.SIDE, Meaning.SEQUENCE, Meaning.BATCH})
# Of words and switches: a factor either way.
_HALF_OR_DOUBLE = FactorRange(-math.log(2), 0.0, math.log(2))
_WORDS: Mapping[Meaning, FactorRange] = {
    Meaning.COPIES: _HALF_OR_DOUBLE,
    Meaning.OTHER: FactorRange(-math.log(1.5), 0.0, math.log(1.5)),
}

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
# Per run: what it showed, and the least and most of that which no setting changes.
Values = list[tuple[float | None, tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting that two jobs have differently; None where one has it not."""

    name: str
    old: Value | None
    new: Value | None

    @property
    def ratio(self) -> float | None:
        """New / old where both are numbers above zero."""
        if isinstance(self.old, float) and isinstance(self.new, float) and self.old > 0 and self.new > 0:
            return self.new / self.old
        return None


@dataclass(frozen=True, slots=True)
class SettingRuns:
    """Runs with the same settings: the most memory, and the time of the one that took longest."""

    known: JobFeatures
    memory_bytes: float | None
    duration_s: float | None
    first_step_s: float | None


@dataclass(frozen=True, slots=True)
class NeedRange:
    """Least, usual, most, in the unit of what was measured."""

    least: float
    usual: float
    most: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a job may need, by runs of its script with other settings.

    `nearest` is what differs from the run that differs least. `memory` is in bytes and `seconds` in seconds; None where no run
    shows any. `load` is by how much the work of a step may have grown since the nearest run, at most.
    """

    nearest: tuple[SettingChange, ...]
    memory: NeedRange | None
    seconds: NeedRange | None
    load: float | None


class ScriptRuns:
    """Finished runs of one script on one type of device, by their settings, and what a job with others may need."""

    def __init__(self, runs: Sequence[MeasuredRun], device_type: str) -> None:
        """Runs that showed both peaks go first. Of more different settings than `MOST_RUNS` the last ones count."""
        self.runs = [run for run in runs if run.complete] or list(runs)
        self.utilization_pct = peak_utilization(self.runs, self.runs)
        self._groups: dict[tuple[tuple[str, Value], ...] | None, list[MeasuredRun]] = {}
        for run in self.runs:
            self._groups.setdefault(run.known.values, []).append(run)
        self._rows = [_measured(group) for group in list(self._groups.values())[-MOST_RUNS:]]
        sized = [(run.known.batch_log2, run.peak_memory_bytes) for run in self.runs]
        known = [(2.0**batch, float(peak)) for batch, peak in sized if batch is not None and peak is not None]
        self.along_batch = [batch for batch, _ in known], [peak for _, peak in known]
        """Batch sizes, and the bytes that were needed at each."""
        self._on_cores = device_type.startswith("cpu-")
        self._compared: dict[tuple[object, ...], Comparison] = {}
        self._seen: dict[tuple[str, int], dict[str, list[tuple[SettingChange, float]]]] = {}

    def alike(self, job: JobFeatures) -> list[MeasuredRun]:
        """Those of the very same settings and script; none for a job of which no setting is known."""
        same = self._groups.get(job.values, []) if job.values else []
        return [run for run in same if run.complete and job.same_work(run.known)]

    def compared(self, job: JobFeatures) -> Comparison:
        """What a job may need; worked out once for all jobs with the same settings."""
        key = job.values, job.given, job.framework
        if key not in self._compared:
            if len(self._compared) >= _MOST_KEPT:
                self._compared.clear()
            self._compared[key] = self._compare(job)
        return self._compared[key]

    def _compare(self, job: JobFeatures) -> Comparison:
        changed = [tuple(changes(job, row.known)) for row in self._rows]
        # Another model or data set may be any other work, so such runs say nothing of this job.
        alike = [place for place, each in enumerate(changed) if not any(_is_choice(change.name) for change in each)]
        near = sorted(alike, key=lambda place: len(changed[place]))[:MOST_COMPARED]
        grown = [_together(_of_a_step(changed[place])).most for place in near]
        return Comparison(
            nearest=min(changed, key=len, default=()),
            memory=self._needs("memory", [(place, changed[place]) for place in near], self._memory(job)),
            seconds=self._needs("time", [(place, changed[place]) for place in near], self._seconds(job)),
            load=math.exp(min(max(0.0, min(grown)), _LARGEST_LOG)) if grown else None,
        )

    def _memory(self, job: JobFeatures) -> Values:
        fixed = _FIXED.get(job.framework, _FIXED[None]) if self._on_cores else _FIXED_ON_GPU
        return [(row.memory_bytes, fixed) for row in self._rows]

    def _seconds(self, job: JobFeatures) -> Values:
        usual = _START_UP.get(job.framework, _START_UP[None])
        return [
            (row.duration_s, usual if row.first_step_s is None else (0.8 * row.first_step_s, row.first_step_s))
            for row in self._rows
        ]

    def _needs(
        self, what: str, near: Sequence[tuple[int, tuple[SettingChange, ...]]], rows: Values
    ) -> NeedRange | None:
        """The range that these runs leave open together; its usual value is that of the one that leaves least."""
        found: list[tuple[float, NeedRange]] = []
        for place, changed in near:
            value, fixed = rows[place]
            if value is None:
                continue
            floor, ceiling = _fixed_part(value, fixed[0]), _fixed_part(value, fixed[1])
            span = self._factor(what, place, rows, changed)
            middle = (floor + ceiling) / 2
            least = ceiling + (value - ceiling) * math.exp(span.least)
            usual = middle + (value - middle) * math.exp(min(span.usual, _LARGEST_LOG))
            most = floor + (value - floor) * math.exp(span.most) if span.most < _LARGEST_LOG else ANYTHING
            found.append((span.most - span.least, NeedRange(min(least, most), usual, most)))
        if not found:
            return None
        usual = min(found, key=lambda pair: pair[0])[1].usual
        most = min(needs.most for _, needs in found)
        least = min(max(needs.least for _, needs in found), most)
        return NeedRange(least, min(max(usual, least), most), most)

    def _factor(self, what: str, place: int, rows: Values, changed: Sequence[SettingChange]) -> FactorRange:
        """What all changes since this run do together to the part of it that grows."""
        believed = [(change, _span(change, what)) for change in changed]
        if len(rows) == 1 or not changed:
            return _together(believed)
        return _together((change, self._learned(what, place, rows, change) or span) for change, span in believed)

    def _learned(self, what: str, place: int, rows: Values, change: SettingChange) -> FactorRange | None:
        """What runs that differ from this one in nothing but the changed setting showed of it; None without any."""
        value, (fixed, _) = rows[place]
        if value is None:
            return None
        if (what, place) not in self._seen:
            self._seen[what, place] = self._lone_changes(what, place, rows)
        rest = value - _fixed_part(value, fixed)
        spans = [
            _projected(change, seen, (its - value) / rest, _NOISE * value / rest, what)
            for seen, its in self._seen[what, place].get(change.name, ())
        ]
        return min((span for span in spans if span is not None), key=lambda span: span.most - span.least, default=None)

    def _lone_changes(self, what: str, place: int, rows: Values) -> dict[str, list[tuple[SettingChange, float]]]:
        """Setting -> (change, value measured there) of the runs that differ from this one in that setting only."""
        found: dict[str, list[tuple[SettingChange, float]]] = {}
        for row, (its, _) in zip(self._rows, rows, strict=True):
            between = [one for one in changes(row.known, self._rows[place].known) if _tells(one, what)]
            if its is not None and len(between) == 1:
                found.setdefault(between[0].name, []).append((between[0], its))
        return found


def changes(new: JobFeatures, old: JobFeatures) -> list[SettingChange]:
    """The settings that differ, by name."""
    names = new.different(old)
    if not names:
        return []
    ours, theirs = dict(new.values or ()), dict(old.values or ())
    return [SettingChange(name, theirs.get(name), ours.get(name)) for name in names]


def busier(utilization_pct: float, factor: float) -> float:
    """Peak utilisation where the device has `factor` times as much to do and what feeds it stays as it is."""
    busy = utilization_pct / 100 * factor
    return min(100.0, 100 * busy / (1 - utilization_pct / 100 + busy)) if factor > 1 else utilization_pct


def bounded(needs: NeedRange, noise: float) -> float:
    """The upper end, where a run that is repeated may need `noise` times as much: independent, so squares of logs add up."""
    above = math.log(needs.most / needs.usual)
    return needs.usual * math.exp(math.hypot(above, math.log(max(1.0, noise))))


def seconds(needs: NeedRange | None) -> tuple[float | None, float | None]:
    """(half, nine of ten) of such jobs take no longer, in seconds; None where that could be anything."""
    if needs is None or needs.most == ANYTHING:
        return None, None
    return needs.usual, bounded(needs, predictive_bound([1.0], 0.9, REPEATED_DURATION))


def _of_a_step(changed: Sequence[SettingChange]) -> Iterable[tuple[SettingChange, FactorRange]]:
    """What changes the work of one step, with by how much: how many there are does not."""
    return [
        (change, _span(change, "memory"))
        for change in changed
        if meaning(change.name) not in (Meaning.LENGTH, Meaning.ACCUMULATION)
    ]


def _fixed_part(value: float, believed: float) -> float:
    """What of a measured value no setting changes; half of it where it is no more than what was believed of its framework."""
    return believed if believed < 0.95 * value else 0.5 * value


def _measured(runs: Sequence[MeasuredRun]) -> SettingRuns:
    memory = [
        run.peak_memory_bytes
        for run in runs
        if run.peak_memory_bytes is not None and (run.duration_s is None or run.duration_s >= SHORTEST_S)
    ]
    timed = [run for run in runs if run.duration_s is not None]
    alone = [run for run in timed if not run.shared] or timed
    longest = max(alone, key=lambda run: run.duration_s or 0.0, default=None)
    return SettingRuns(
        known=runs[-1].known,
        memory_bytes=float(max(memory)) if memory else None,
        duration_s=None if longest is None else longest.duration_s,
        first_step_s=None if longest is None else longest.first_step_s,
    )


def _together(spans: Iterable[tuple[SettingChange, FactorRange]]) -> FactorRange:
    """What several changes do together.

    Two widths grow the matrix between them as one of them squared does, two depths the stack they are parts of: of such
    settings the one that does most counts. Rows and columns, and all else, multiply.
    """
    total = FactorRange()
    ends: dict[tuple[Meaning, bool], FactorRange] = {}
    for change, span in spans:
        about = meaning(change.name)
        if about not in _OF_ONE_THING or change.ratio is None:
            total += span
            continue
        key = about, change.ratio > 1
        ends[key] = max(ends.get(key, span), span, key=lambda one: abs(one.usual) + one.most - one.least)
    return sum(ends.values(), total)


@lru_cache(maxsize=65_536)
def _span(change: SettingChange, what: str) -> FactorRange:
    """What is believed of a change before anything was measured of it."""
    about, ratio = meaning(change.name), change.ratio
    if about is Meaning.STORE:
        return FactorRange(-ANYTHING, 0.0, 0.0) if change.new in ("false", None) else _UNKNOWN_SPAN
    if about is Meaning.OTHER and _is_factor(change):
        return _WORDS[about]
    if ratio is not None and about in EFFECTS:
        power = EFFECTS[about].of(what)
        ends = sorted(exponent * math.log(ratio) for exponent in (power.least, power.most))
        return FactorRange(ends[0], power.usual * math.log(ratio), ends[1])
    if about is Meaning.LENGTH:
        return FactorRange(0.0, 0.0, 0.1) if what == "memory" else _UNKNOWN_SPAN
    # A number that only one of the two was given, over a default that is not known, may be any number of times that.
    numbers = isinstance(change.old, float) or isinstance(change.new, float)
    return _WORDS[about] if about in _WORDS and not numbers else _UNKNOWN_SPAN


def _is_factor(change: SettingChange) -> bool:
    """Whether a number is a factor or a share and no size: sizes are whole."""
    numbers = [value for value in (change.old, change.new) if isinstance(value, float)]
    return len(numbers) == 2 and not all(value.is_integer() for value in numbers)


def _projected(change: SettingChange, seen: SettingChange, share: float, noise: float, what: str) -> FactorRange | None:
    """What a change does, where another change of the same setting added `share` (of the part that grows), give or take `noise`.

    Through two measured values of a number goes one power of each exponent it may have: the extrapolation of the highest
    bounds that of all others. Of words, what another word changed.
    """
    if change.ratio is None or seen.ratio is None:
        return FactorRange(*(math.log(max(0.01, 1 + share + error)) for error in (-noise, 0.0, noise)))
    if abs(math.log(seen.ratio)) < 0.05:
        return None
    power = EFFECTS.get(meaning(change.name), EFFECTS[Meaning.OTHER]).of(what)
    ways = [
        (change.ratio**exponent - 1) / (seen.ratio**exponent - 1)
        for exponent in (max(part, _LEAST_POWER) for part in (power.least, power.usual, power.most))
    ]
    ends = [math.log(max(0.01, 1 + (share + error) * way)) for way in ways for error in (-noise, noise)]
    return FactorRange(min(ends), math.log(max(0.01, 1 + share * ways[1])), max(ends))


def _is_choice(name: str) -> bool:
    return meaning(name) is Meaning.CHOICE


def _tells(change: SettingChange, what: str) -> bool:
    """Whether a change may have made a difference of its own to what is compared."""
    span = _span(change, what)
    return span.most - span.least > 0.25 or abs(span.usual) > 0.1
