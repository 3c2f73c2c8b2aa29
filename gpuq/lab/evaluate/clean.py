"""Makes tables of singles and pairs consistent: one spelling for each name, percent for fractions, pairs with their jobs'
profiles.

Nothing is changed or left out without a note for the person who brought the tables. Repetitions are combined only after the
test rows are taken away, so that none of them is learnt from.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from gpuq.lab.evaluate.answers import Directed
from gpuq.lab.measured import PairMeasurement, SingleMeasurement

UNNAMED = "unnamed device type"
_JOINTS = re.compile(r"[\W_]+")
# A batch size at the end of a job's name is not part of the model's: `DCGAN:256`, `vgg16@bs=32`, `lstm_b64`.
_BATCH = re.compile(r"([\s:@#]+(bs|b|batch)?|[\s:@#_-]+(bs|b|batch)([_-]?size)?)[=_-]?\d+$", re.IGNORECASE)
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\W_]+(?=\d)")
# With at least this many values, none above 1 is no accident: they are fractions.
_ENOUGH = 4
# Pairs below a slowdown of 1 exist as noise only. If the median is below this, the numbers are speeds.
_SPEEDS_BELOW = 0.97
# Two jobs on one device are slowed to a few times; a median beyond this is no slowdown but percent.
_PERCENT_FROM = 50.0


@dataclass(frozen=True, slots=True)
class JoinedPair:
    """One measured pair, each job with what was measured of it alone. At least one slowdown is known."""

    device_type: str
    sharing: str | None
    a: SingleMeasurement
    b: SingleMeasurement
    slowdown_a: float | None
    slowdown_b: float | None
    measured_at: float | None

    @property
    def models(self) -> frozenset[str]:
        """The models of its two jobs."""
        return frozenset((self.a.model, self.b.model))

    @property
    def group(self) -> tuple[str, str | None]:
        """Device type and sharing mode, which are never mixed."""
        return self.device_type, self.sharing

    @property
    def key(self) -> tuple[str, str | None, str, str]:
        """What identifies the pair; repetitions have the same key."""
        return self.device_type, self.sharing, self.a.job, self.b.job

    def directed(self) -> list[Directed]:
        """The slowdowns that are known, one for each direction."""
        both = ((self.a, self.b, self.slowdown_a), (self.b, self.a, self.slowdown_b))
        return [Directed(job, beside, value) for job, beside, value in both if value is not None]


@dataclass(frozen=True, slots=True)
class CleanTables:
    """Consistent tables. A single is one row as measured; a pair has its jobs in the order of their names."""

    singles: tuple[SingleMeasurement, ...]
    pairs: tuple[JoinedPair, ...]
    notes: tuple[str, ...]


def clean(singles: Sequence[SingleMeasurement], pairs: Sequence[PairMeasurement]) -> CleanTables:
    """One spelling for each device type and model, percent for fractions, pairs with their jobs' profiles."""
    notes: list[str] = []
    device = _one_spelling([*(single.device_type for single in singles), *(pair.device_type for pair in pairs)])
    if blank := sum(not single.model for single in singles):
        notes.append(f"{_count(blank, 'single')} without a model: each counts as a model of its own, by its job's name")
    named = [replace(row, device_type=device(row.device_type), model=_model_of(row.model, row.job)) for row in singles]
    model = _one_spelling([single.model for single in named])
    named = [replace(single, model=model(single.model)) for single in named]
    for column in ("utilization_pct", "memory_utilization_pct"):
        known = [value for single in named if (value := getattr(single, column)) is not None]
        if len(known) >= _ENOUGH and 0 < max(known) <= 1:
            notes.append(f"{column} is nowhere above 1: read as fractions, times 100")
            percents: list[dict[str, Any]] = [{column: _times_100(getattr(single, column))} for single in named]
            named = [replace(single, **percent) for single, percent in zip(named, percents, strict=True)]
    if several := len({work(single) for single in named}) - len({_place(single) for single in named}):
        notes.append(
            f"{_count(several, 'single')} with another batch size or model under a name that is taken: pairs use the median"
        )
    placed = _placed(named, pairs, device, model, notes)
    return CleanTables(tuple(named), tuple(placed), tuple(notes))


def work(single: SingleMeasurement) -> tuple[str, str, str, float | None]:
    """What identifies the work that a single measured; repetitions have the same."""
    return single.device_type, single.job, single.model, single.batch_size


def combined(
    singles: Iterable[SingleMeasurement], same: Callable[[SingleMeasurement], Hashable] = work
) -> list[SingleMeasurement]:
    """One single for each group of equal `same`: the medians of what they measured."""
    groups: dict[Hashable, list[SingleMeasurement]] = defaultdict(list)
    for single in singles:
        groups[same(single)].append(single)
    columns = (
        "batch_size", "utilization_pct", "memory_utilization_pct", "peak_memory_mib", "power_w", "steps_per_s",
    )  # fmt: skip
    one_each = []
    for found in groups.values():
        medians: dict[str, Any] = {name: _middle([getattr(single, name) for single in found]) for name in columns}
        one_each.append(replace(found[0], **medians))
    return one_each


def combined_pairs(pairs: Iterable[JoinedPair]) -> list[JoinedPair]:
    """One measurement per pair: for each direction the median of its repetitions."""
    groups: dict[tuple[str, str | None, str, str], list[JoinedPair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.key].append(pair)
    return [
        replace(
            found[0],
            slowdown_a=_middle([pair.slowdown_a for pair in found]),
            slowdown_b=_middle([pair.slowdown_b for pair in found]),
        )
        for found in groups.values()
    ]


def wrong_unit(pairs: Iterable[JoinedPair]) -> str | None:
    """What the slowdowns look like, where that is no time together / time alone."""
    known = [row.slowdown for pair in pairs for row in pair.directed()]
    middle = median(known) if known else 1.0
    if middle < _SPEEDS_BELOW:
        return f"the median slowdown is {middle:.2f}: these look like speeds (together / alone); a slowdown is 1 / that"
    if middle >= _PERCENT_FROM:
        return (
            f"the median slowdown is {middle:.0f}: these look like percent; a slowdown is time together / time alone, "
            "1.04 for 104%"
        )
    return None


def _one_spelling(names: Sequence[str]) -> Callable[[str], str]:
    """Maps names that differ in case, blanks or joints (`V100`, `v100 `, `V-100`) to their most frequent spelling."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for name in names:
        spellings[_plain(name)][name] += 1
    chosen = {plain: found.most_common(1)[0][0] for plain, found in spellings.items()}
    return lambda name: chosen.get(_plain(name), name) or UNNAMED


def _model_of(model: str, job: str) -> str:
    """The model's name; where there is none, the job's without its batch size."""
    return model if model and model != job else _BATCH.sub("", job) or job


def _plain(name: str) -> str:
    parts = _BETWEEN_DIGITS.split(name.casefold())
    return ".".join(_JOINTS.sub("", part) for part in parts) or name


def _placed(
    singles: Sequence[SingleMeasurement],
    pairs: Sequence[PairMeasurement],
    device: Callable[[str], str],
    model: Callable[[str], str],
    notes: list[str],
) -> list[JoinedPair]:
    profiles = {_place(single): single for single in combined(singles, _place)}
    elsewhere = {single.job: single.model for single in singles}
    missing: set[str] = set()

    def profile(device_type: str, job: str) -> SingleMeasurement:
        found = profiles.get((device_type, job))
        if found is None:
            missing.add(f"{job} on {device_type}")
            return SingleMeasurement(device_type, job, elsewhere.get(job) or model(_model_of("", job)))
        return found

    placed, empty = [], 0
    for pair in pairs:
        if pair.slowdown_a is None and pair.slowdown_b is None:
            empty += 1
            continue
        device_type = device(pair.device_type)
        a, b = profile(device_type, pair.job_a), profile(device_type, pair.job_b)
        values = (a, b, pair.slowdown_a, pair.slowdown_b)
        if b.job < a.job:
            values = (b, a, pair.slowdown_b, pair.slowdown_a)
        placed.append(JoinedPair(device_type, pair.sharing, *values, pair.measured_at))
    _note_pairs(placed, empty, sorted(missing), notes)
    return placed


def _note_pairs(placed: Sequence[JoinedPair], empty: int, missing: Sequence[str], notes: list[str]) -> None:
    if empty:
        notes.append(f"{_count(empty, 'pair')} with both slowdowns blank: left out")
    if missing:
        shown = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        notes.append(
            f"{_count(len(missing), 'job')} in pairs but not in singles ({shown}): nothing is known of them alone"
        )
    whole = combined_pairs(placed)
    if one_sided := sum(len(pair.directed()) == 1 for pair in whole):
        notes.append(
            f"{_count(one_sided, 'pair')} with one slowdown: it is learned from, but counts for neither admission nor its risk, "
            "since the worse of the two is not known"
        )
    if repeats := len(placed) - len(whole):
        notes.append(
            f"{_count(repeats, 'row')} repeating a pair or giving its other direction: combined, by the median"
        )
    if (wrong := wrong_unit(whole)) is not None:
        notes.append(wrong)


def _place(single: SingleMeasurement) -> tuple[str, str]:
    return single.device_type, single.job


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _times_100(value: float | None) -> float | None:
    return None if value is None else value * 100


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
