"""What changed settings may do to memory, load and time of a script that was measured at others.

Arrives: runs of one script on one type of device, each with the settings it had (`Known.values`), and a job with settings of its
own. Leaves: a range (least, usual, most) for what the job needs, or None where that could be anything. Pure.

A measured value has a part that no setting changes, the framework's own (`_FIXED`), and a rest. A setting whose value is
multiplied by r multiplies the rest by r to some power between the two ends of its `Effect`:

- width: weights of dense layers and recurrent ones grow with its square, activations in proportion, data not at all;
- depth, batch, counts of rows, words, users, trees: in proportion at most;
- length of sequences, side of images: attention and pixels grow with the square;
- epochs and steps: memory hardly, time in proportion;
- precision, optimiser, recomputation: half to double; another model, data set or configuration: anything.

Nothing is believed to shrink what it enlarges, so a run with larger settings bounds a job from above, and one with smaller ones
from below: every further run narrows the range, and where two runs differ in one setting only, what it cost there replaces
the belief (`_learned`): a setting that was shown not to matter does not widen anything any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpuq.learn.bounds import REPEATED_DURATION, predictive_bound
from gpuq.learn.history import Known, Run, Value
from gpuq.script.meaning import Meaning, meaning

MIB = 2**20
ANYTHING = math.inf
# Runs of other settings that are compared; more of them narrow little and cost time.
MOST_RUNS = 12
# A share of a measurement that two runs of the same work may differ by.
_NOISE = 0.05
# A range wider than this makes no bound: the job runs alone, and is measured.
WIDEST = 2.2
# Memory is read once a second: a run that is over sooner may have needed anything in between.
SHORTEST_S = 1.5
_LEAST_POWER = 0.1


@dataclass(frozen=True, slots=True)
class Span:
    """A factor as natural logs: the least, the usual and the most it may be."""

    least: float = 0.0
    usual: float = 0.0
    most: float = 0.0

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.usual + other.usual, self.most + other.most)

    @property
    def width(self) -> float:
        """How far apart its ends are."""
        return self.most - self.least


@dataclass(frozen=True, slots=True)
class Effect:
    """Powers of the ratio of two values by which memory and time grow: the least, the usual and the most."""

    memory: Span
    time: Span


_UNKNOWN_SPAN = Span(-ANYTHING, 0.0, ANYTHING)
EFFECTS: Mapping[Meaning, Effect] = {
    Meaning.LENGTH: Effect(Span(0.0, 0.0, 0.1), Span(0.7, 0.95, 1.0)),
    Meaning.ACCUMULATION: Effect(Span(0.0, 0.0, 0.1), Span(0.0, 0.5, 1.0)),
    Meaning.DEPTH: Effect(Span(0.0, 0.5, 1.0), Span(0.1, 0.8, 1.1)),
    Meaning.BATCH: Effect(Span(0.0, 0.2, 0.8), Span(-0.5, 0.2, 1.0)),
    Meaning.SIDE: Effect(Span(0.0, 1.2, 1.8), Span(0.3, 1.5, 2.0)),
    Meaning.SEQUENCE: Effect(Span(0.0, 0.6, 1.4), Span(0.0, 1.0, 1.6)),
    Meaning.WIDTH: Effect(Span(0.0, 0.6, 1.6), Span(0.2, 1.2, 2.0)),
    Meaning.COUNT: Effect(Span(0.0, 0.5, 1.0), Span(0.0, 0.6, 1.0)),
    Meaning.OTHER: Effect(Span(0.0, 0.4, 1.0), Span(0.0, 0.4, 1.0)),
}
# Of words and switches: a factor either way.
_HALF_OR_DOUBLE = Span(-math.log(2), 0.0, math.log(2))
_WORDS: Mapping[Meaning, Effect] = {
    Meaning.COPIES: Effect(_HALF_OR_DOUBLE, _HALF_OR_DOUBLE),
    Meaning.OTHER: Effect(Span(-math.log(1.5), 0.0, math.log(1.5)), Span(-math.log(1.5), 0.0, math.log(1.5))),
}

# Bytes of a process that no setting changes, at least and at most, by framework: anonymous memory of a process that trains a
# layer of two inputs. On a GPU it is the driver's context, from 300 MiB up.
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


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that two jobs have differently; `ratio` is the new value / the old, None where that is no number."""

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
class Needs:
    """Least, usual, most, in the unit of what was measured; and how many settings differ from the nearest run."""

    least: float
    usual: float
    most: float
    changed: tuple[str, ...]


def changes(new: Known, old: Known) -> list[Change]:
    """The settings that differ, by name. One that only one of the two has counts where it was given, not left as it is."""
    if new.values == old.values:
        return []
    ours, theirs = dict(new.values), dict(old.values)
    names = {name for name, _ in set(new.values) ^ set(old.values)}
    return [
        Change(name, theirs.get(name), ours.get(name))
        for name in sorted(names)
        if name in ours and name in theirs or name in new.given or name in old.given
    ]


def memory(runs: Sequence[Run], job: Known, device_type: str) -> Needs | None:
    """Bytes that the job may need, from finished runs of its script; None without any that measured memory."""
    on_cores = device_type.startswith("cpu-")
    fixed = _FIXED.get(job.framework, _FIXED[None]) if on_cores else _FIXED_ON_GPU
    measured = [
        (run, float(run.peak_memory_bytes))
        for run in runs
        if run.peak_memory_bytes is not None and (run.duration_s is None or run.duration_s > SHORTEST_S)
    ]
    return _needs(measured, job, lambda _: fixed, lambda effect: effect.memory)


def duration(runs: Sequence[Run], job: Known) -> tuple[float, float] | None:
    """(half, nine of ten) take no longer, in seconds, from finished runs of its script; None where that could be anything."""
    usual = _START_UP.get(job.framework, _START_UP[None])

    def start_up(run: Run) -> tuple[float, float]:
        return usual if run.first_step_s is None else (0.8 * run.first_step_s, run.first_step_s)

    needs = _needs([(run, run.duration_s) for run in runs if run.duration_s], job, start_up, lambda effect: effect.time)
    if needs is None or needs.most == ANYTHING:
        return None
    return needs.usual, bounded(needs, predictive_bound([1.0], 0.9, REPEATED_DURATION))


def load(runs: Sequence[Run], job: Known) -> float:
    """By how much the work of one step may have grown since the nearest run, at most: 1 for work that is no larger."""
    found = [
        sum((_span(change, lambda effect: effect.memory) for change in changes(job, run.known)), Span()) for run in runs
    ]
    return math.exp(max(0.0, min((span.most for span in found), default=0.0)))


def busier(utilization_pct: float, factor: float) -> float:
    """Peak utilisation where the device has `factor` times as much to do and what feeds it stays as it is."""
    busy = utilization_pct / 100 * factor
    return min(100.0, 100 * busy / (1 - utilization_pct / 100 + busy)) if factor > 1 else utilization_pct


def bounded(needs: Needs, noise: float) -> float:
    """The upper end, where a run that is repeated may need `noise` times as much: independent, so squares of logs add up."""
    above = math.log(needs.most / needs.usual)
    return needs.usual * math.exp(math.hypot(above, math.log(max(1.0, noise))))


def along_batch(runs: Sequence[Run], job: Known) -> tuple[list[float], list[float]] | None:
    """(batch sizes, bytes) where runs and job differ in nothing else and two sizes at least were measured; else None."""
    rows = [
        (run.known.batch_log2, run.peak_memory_bytes)
        for run in runs
        if {change.name for change in changes(job, run.known)} <= {"batch-size"}
    ]
    sized = [(2.0**batch, float(peak)) for batch, peak in rows if batch is not None and peak is not None]
    if job.batch_log2 is None or len({batch for batch, _ in sized}) < 2:
        return None
    return [batch for batch, _ in sized], [peak for _, peak in sized]


def _needs(
    measured: Sequence[tuple[Run, float]],
    job: Known,
    fixed: Callable[[Run], tuple[float, float]],
    of: Callable[[Effect], Span],
) -> Needs | None:
    """The range that all runs leave open together."""
    rows = _highest(measured)[-MOST_RUNS:]
    found: list[tuple[float, Needs]] = []
    for run, value in rows:
        floor, ceiling = (min(part, 0.95 * value) for part in fixed(run))
        span, names = Span(), []
        for change in changes(job, run.known):
            span += _learned(change, run, value, rows, floor, of) or _span(change, of)
            names.append(change.name)
        least = ceiling + (value - ceiling) * math.exp(span.least)
        usual = (floor + ceiling) / 2 + (value - (floor + ceiling) / 2) * math.exp(min(span.usual, 50.0))
        most = floor + (value - floor) * math.exp(min(span.most, 50.0)) if span.most < ANYTHING else ANYTHING
        found.append((span.width, Needs(min(least, most), usual, most, tuple(names))))
    if not found:
        return None
    _, nearest = min(found, key=lambda pair: pair[0])
    most = min(needs.most for _, needs in found)
    least = min(max(needs.least for _, needs in found), most)
    return Needs(least, min(max(nearest.usual, least), most), most, nearest.changed)


def _highest(measured: Sequence[tuple[Run, float]]) -> list[tuple[Run, float]]:
    """Of runs with the same settings the one that showed the most, in the order of their latest."""
    found: dict[tuple[tuple[str, Value], ...], tuple[Run, float]] = {}
    for run, value in measured:
        before = found.pop(run.known.values, None)
        found[run.known.values] = before if before is not None and before[1] > value else (run, value)
    return list(found.values())


def _span(change: Change, of: Callable[[Effect], Span]) -> Span:
    """What is believed of a change before anything was measured of it."""
    about, ratio = meaning(change.name), change.ratio
    if about is Meaning.STORE:
        return Span(-ANYTHING, 0.0, 0.0) if change.new in ("false", None) else _UNKNOWN_SPAN
    if ratio is not None and about in EFFECTS:
        power = of(EFFECTS[about])
        ends = sorted(exponent * math.log(ratio) for exponent in (power.least, power.most))
        return Span(ends[0], power.usual * math.log(ratio), ends[1])
    if about is Meaning.LENGTH:
        return of(Effect(Span(0.0, 0.0, 0.1), _UNKNOWN_SPAN))
    # A number that only one of the two was given, over a default that is not known, may be any number of times that.
    numbers = isinstance(change.old, float) or isinstance(change.new, float)
    return of(_WORDS[about]) if about in _WORDS and not numbers else _UNKNOWN_SPAN


def _learned(
    change: Change,
    run: Run,
    value: float,
    rows: Sequence[tuple[Run, float]],
    floor: float,
    of: Callable[[Effect], Span],
) -> Span | None:
    """What runs that differ from `run` in nothing but this setting showed of it; None without any.

    Through two measured values of a number goes one power of each exponent it may have: the extrapolation of the highest
    bounds that of all others. Of a word, what another value changed.
    """
    seen: list[Span] = []
    noise = _NOISE * value / (value - floor)
    for other, its in rows:
        between = [one for one in changes(other.known, run.known) if _tells(one, of)]
        if len(between) != 1 or between[0].name != change.name:
            continue
        share = (its - value) / (value - floor)
        if change.ratio is None or between[0].ratio is None:
            if between[0].new == change.new or meaning(change.name) is not Meaning.CHOICE:
                seen.append(Span(*(math.log(max(0.01, 1 + share + error)) for error in (-noise, 0.0, noise))))
        elif abs(math.log(between[0].ratio)) > 0.05:
            seen.append(_along(change.ratio, between[0].ratio, share, noise, of(_effect(change.name))))
    return min(seen, key=lambda span: span.width, default=None)


def _along(ratio: float, seen: float, share: float, noise: float, power: Span) -> Span:
    """The factor at `ratio`, where at `seen` it was 1 + share."""
    factors = []
    for exponent in (max(power.least, _LEAST_POWER), max(power.usual, _LEAST_POWER), max(power.most, _LEAST_POWER)):
        way = (ratio**exponent - 1) / (seen**exponent - 1)
        factors.append([math.log(max(0.01, 1 + (share + error) * way)) for error in (-noise, 0.0, noise)])
    ends = [end for row in factors for end in row]
    return Span(min(ends), factors[1][1], max(ends))


def _effect(name: str) -> Effect:
    return EFFECTS.get(meaning(name), EFFECTS[Meaning.OTHER])


def _tells(change: Change, of: Callable[[Effect], Span]) -> bool:
    """Whether a change may have made a difference of its own to what is compared."""
    span = _span(change, of)
    return span.width > 0.25 or abs(span.usual) > 0.1
