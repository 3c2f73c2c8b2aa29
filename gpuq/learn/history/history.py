"""What has been measured of each kind on each type of device, and what each pair of kinds cost each other.

Arrives: outcomes, from the record at start and one by one as attempts finish. Leaves: the latest runs of a kind, the
latest slowdowns of a pair, and pairs that ran out of memory together. Bounded: old runs make room for new ones, kinds
not seen for long for others. Types of device never mix.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any

from gpuq.core.state.attempt import MemoryCause
from gpuq.learn.features.compute import compute_log2
from gpuq.learn.history.outcome import AttemptSide, JobSide, Outcome, outcome_from_rows
from gpuq.learn.memory.footprint import LayerTerms, parts_of
from gpuq.learn.statistics import order_statistic

Value = float | str
# Whose, which, on how many devices.
Script = tuple[str, str, int]

RUNS_KEPT = 64
PARTIAL_KEPT = 16
PAIRS_KEPT = 16
# The rule adds up peak utilisations of two jobs, so each must rarely be too low; the highest of up to nine runs.
UTILIZATION_QUANTILE = 0.9
KINDS_KEPT = 20_000
SCRIPT_KINDS_KEPT = 24

__all__ = ["History", "JobFeatures", "MeasuredRun", "MeasuredSlowdown", "Outcome", "outcome_from_rows", "place_of"]


@dataclass(frozen=True, slots=True)
class JobFeatures:
    """What forecasts need of a job's features."""

    script_sha256: str | None = None
    batch_log2: float | None = None
    tokens: tuple[str, ...] = ()
    compute_log2: float | None = None
    """Multiply-adds per sample of a training step; None where nothing tells."""
    layers: LayerTerms | None = None
    """What its script says of its network's layers; None where that is too little to add up."""
    values: tuple[tuple[str, Value], ...] | None = None
    """The settings it runs with, by name (see `gpuq.script.tunables`); None where they were not looked for."""
    given: frozenset[str] = frozenset()
    """Those that the script does not say itself."""
    framework: str | None = None
    script: Script | None = None
    """Whose script it is, which, and on how many devices; None where that is not known."""

    @classmethod
    def of(cls, features: Mapping[str, Any]) -> JobFeatures:
        """From a features dictionary as it was stored; what is odd in it is taken as unknown."""
        sha, batch, tokens = (features.get(name) for name in ("script_sha256", "batch_log2", "tokens"))
        return cls(
            script_sha256=sha if isinstance(sha, str) else None,
            batch_log2=float(batch) if isinstance(batch, int | float) and abs(batch) < 64 else None,
            tokens=tuple(intern(word) for word in _texts(tokens)),
            compute_log2=compute_log2(features),
            layers=parts_of(features),
            values=_values(features.get("values")),
            given=frozenset(intern(name) for name in _texts(features.get("given"))),
            framework=_text(features.get("framework")),
            script=_script(features),
        )

    def same_work(self, other: JobFeatures) -> bool:
        """Whether script, batch size and all settings are alike, as far as both are known."""
        return (
            _agree(self.script_sha256, other.script_sha256)
            and _agree(self.batch_log2, other.batch_log2)
            and not self.different(other)
        )

    def different(self, run: JobFeatures) -> list[str]:
        """The names of the settings that differ from those of a run, sorted; none for a job whose settings are not known.

        One that only one of the two has counts where it was given to it.
        """
        if self.values is None or self.values == run.values:
            return []
        ours, theirs, given = dict(self.values), dict(run.values or ()), self.given | run.given
        names = {name for name, _ in set(ours.items()) ^ set(theirs.items())}
        return sorted(name for name in names if (name in ours and name in theirs) or name in given)


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One attempt, as far as peaks, durations and power go. Percent, bytes, seconds, watts."""

    known: JobFeatures
    peak_utilization_pct: float | None
    peak_memory_bytes: int | None
    duration_s: float | None
    alone_rate: float | None
    whole: bool
    shared: bool
    attempt: tuple[int, int] | None
    power_w: float | None = None
    first_step_s: float | None = None
    """From its start to its first step; None where no step was counted."""
    utilization_at_most: float | None = None

    @property
    def complete(self) -> bool:
        """Whether both peaks of the whole job were measured."""
        return self.whole and self.peak_utilization_pct is not None and self.peak_memory_bytes is not None


def place_of(device_type: str, sharing: str | None) -> str:
    """Where slowdowns may be compared: a type of device with one way of sharing (None: not known)."""
    return device_type if sharing is None else f"{device_type} / {sharing}"


@dataclass(frozen=True, slots=True)
class MeasuredSlowdown:
    """A kind's measured slowdown beside another: time together / time alone, and its 95% interval where known."""

    value: float
    low: float | None
    high: float | None


class _Runs:
    """The latest runs of one kind, by what they showed.

    Runs of one sort never push out those of another: many shared runs leave the runs alone, which show a kind's own peaks;
    and runs that showed little leave those that showed more, so that what is known stays known.
    """

    __slots__ = ("_by_sort",)

    def __init__(self) -> None:
        self._by_sort: dict[tuple[bool, ...], deque[MeasuredRun]] = {}

    def all(self) -> list[MeasuredRun]:
        return [run for runs in self._by_sort.values() for run in runs]

    def add(self, run: MeasuredRun) -> None:
        has_utilization, has_memory = run.peak_utilization_pct is not None, run.peak_memory_bytes is not None
        sort = (run.whole, has_utilization, has_memory, run.complete and run.shared)
        if sort not in self._by_sort:
            self._by_sort[sort] = deque(maxlen=RUNS_KEPT if run.complete else PARTIAL_KEPT)
        self._by_sort[sort].append(run)


class History:
    """See the module's own words. Not for more than one thread."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, str], _Runs] = OrderedDict()
        # Script and type of device -> kinds of it with a run, the longest unseen first.
        self._kinds_of: dict[tuple[Script, str], OrderedDict[str, None]] = {}
        self._slowdowns: OrderedDict[tuple[str, str, str], deque[MeasuredSlowdown]] = OrderedDict()
        self._places: set[str] = set()
        self._unsafe: set[tuple[str, str, str]] = set()

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[JobSide, AttemptSide]], device_types: Mapping[str, str]) -> History:
        """The history that the record's ended attempts add up to, oldest end first.

        Rows that teach nothing are passed over.
        """
        outcomes = (outcome_from_rows(job, attempt, device_types) for job, attempt in rows)
        return cls.from_outcomes(outcome for outcome in outcomes if outcome is not None)

    @classmethod
    def from_outcomes(cls, outcomes: Iterable[Outcome]) -> History:
        """The history that these outcomes add up to, in their order."""
        history = cls()
        for outcome in outcomes:
            history.learn(outcome)
        return history

    def learn(self, outcome: Outcome) -> bool:
        """Add a finished attempt. False if it is already here: a message may come twice."""
        key = (outcome.kind, outcome.device_type)
        runs = self._runs.setdefault(key, _Runs())
        self._runs.move_to_end(key)
        if outcome.attempt is not None and any(run.attempt == outcome.attempt for run in runs.all()):
            return False
        run = _run(outcome)
        runs.add(run)
        self._learn_script(run, key)
        self._learn_pairs(outcome)
        if len(self._runs) > KINDS_KEPT:
            self._forget(*self._runs.popitem(last=False))
        return True

    def _forget(self, key: tuple[str, str], runs: _Runs) -> None:
        for run in runs.all():
            if run.known.script is not None and (kinds := self._kinds_of.get((run.known.script, key[1]))):
                kinds.pop(key[0], None)

    def _learn_script(self, run: MeasuredRun, key: tuple[str, str]) -> None:
        if run.known.script is None:
            return
        kinds = self._kinds_of.setdefault((run.known.script, key[1]), OrderedDict())
        kinds[key[0]] = None
        kinds.move_to_end(key[0])
        if len(kinds) > SCRIPT_KINDS_KEPT:
            kinds.popitem(last=False)

    def _learn_pairs(self, outcome: Outcome) -> None:
        for partner, value, low, high in outcome.slowdowns:
            where = place_of(outcome.device_type, outcome.sharing)
            self._places.add(where)
            key = (outcome.kind, partner, where)
            self._slowdowns.setdefault(key, deque(maxlen=PAIRS_KEPT)).append(MeasuredSlowdown(value, low, high))
            self._slowdowns.move_to_end(key)
        if len(self._slowdowns) > KINDS_KEPT:
            self._slowdowns.popitem(last=False)
        # What a foreign process took says nothing of the two.
        if outcome.outgrew_device and outcome.shared and outcome.memory_cause != MemoryCause.FOREIGN:
            for partner in outcome.partner_kinds:
                self._unsafe |= {
                    (outcome.kind, partner, outcome.device_type),
                    (partner, outcome.kind, outcome.device_type),
                }

    def runs(self, kind: str, device_type: str) -> list[MeasuredRun]:
        """The kind's latest runs on this type of device: sort by sort, each oldest first."""
        runs = self._runs.get((kind, device_type))
        return [] if runs is None else runs.all()

    def siblings(self, kind: str, device_type: str, known: JobFeatures) -> list[MeasuredRun]:
        """Finished runs of the kind and of other kinds of the same script, whatever their settings; its own last."""
        kinds = () if known.script is None else self._kinds_of.get((known.script, device_type), ())
        found = [run for other in kinds if other != kind for run in self.runs(other, device_type) if run.whole]
        return [*found, *(run for run in self.runs(kind, device_type) if run.whole)]

    def comparable(self, kind: str, device_type: str, known: JobFeatures) -> tuple[list[MeasuredRun], bool]:
        """The runs to predict a job from, and whether they are of the same work: script and settings alike.

        Where no run is, all of the kind's runs stand in; unfinished ones never do. Runs with both peaks go first.
        """
        whole = [run for run in self.runs(kind, device_type) if run.whole]
        usable = [run for run in whole if run.complete] or whole
        same = [run for run in usable if known.same_work(run.known)]
        return (same, True) if same and (_show_both(same) or not _show_both(usable)) else (usable, False)

    def slowdowns(self, kind: str, beside: str, place: str) -> list[MeasuredSlowdown]:
        """How much `kind` was slowed beside the other kind in this place, oldest first."""
        return list(self._slowdowns.get((kind, beside, place), ()))

    def measured_pairs(self, place: str) -> bool:
        """Whether any slowdown was measured in this place."""
        return place in self._places

    def all_slowdowns(self) -> dict[str, dict[tuple[str, str], list[float]]]:
        """Place -> (kind, kind beside it) -> its slowdowns, the pair longest unseen first."""
        found: dict[str, dict[tuple[str, str], list[float]]] = {}
        for (kind, beside, where), measured in self._slowdowns.items():
            found.setdefault(where, {})[kind, beside] = [slowdown.value for slowdown in measured]
        return found

    def unsafe(self, kind: str, other: str, device_type: str) -> bool:
        """Whether one of the two ran out of memory beside the other."""
        return (kind, other, device_type) in self._unsafe

    def kinds(self) -> Iterator[tuple[str, str]]:
        """All (kind, device type) with a run, the longest unseen first."""
        return iter(list(self._runs))


def measured(runs: Iterable[MeasuredRun], name: str) -> list[float]:
    """What these runs showed of a field of theirs: those without a partner; where there is none, all."""
    known = [(run.shared, float(value)) for run in runs if (value := getattr(run, name)) is not None]
    return [value for shared, value in known if not shared] or [value for _, value in known]


def peak_utilization(used: Sequence[MeasuredRun], runs: Sequence[MeasuredRun]) -> float | None:
    """An upper quantile of the runs alone; what a partner held down counts only where it was higher still."""
    values = measured(used, "peak_utilization_pct") or measured(used, "utilization_at_most")
    if not values:
        return None
    partly = [run.peak_utilization_pct for run in runs if not run.whole and run.peak_utilization_pct is not None]
    together = [run.peak_utilization_pct for run in used if run.shared and run.peak_utilization_pct is not None]
    floor = order_statistic([*together, *partly], UTILIZATION_QUANTILE) if together or partly else 0.0
    return max(order_statistic(values, UTILIZATION_QUANTILE), floor)


def _run(outcome: Outcome) -> MeasuredRun:
    return MeasuredRun(
        known=JobFeatures.of(outcome.features),
        peak_utilization_pct=outcome.peak_utilization_pct,
        peak_memory_bytes=outcome.peak_memory_bytes,
        duration_s=outcome.duration_s,
        alone_rate=outcome.alone_rate,
        whole=outcome.whole,
        # Foreign load makes a run longer, as a partner does.
        shared=outcome.shared or outcome.disturbed,
        attempt=outcome.attempt,
        power_w=outcome.power_w,
        first_step_s=outcome.first_step_s,
        utilization_at_most=outcome.utilization_at_most,
    )


def _show_both(runs: list[MeasuredRun]) -> bool:
    """Whether these runs, taken together, show both peaks."""
    utilization = any(run.peak_utilization_pct is not None for run in runs)
    return utilization and any(run.peak_memory_bytes is not None for run in runs)


def _agree(one: str | float | None, other: str | float | None) -> bool:
    return one is None or other is None or one == other


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []


def _values(stored: object) -> tuple[tuple[str, Value], ...] | None:
    if not isinstance(stored, Mapping):
        return None
    return tuple(
        (intern(name), intern(value) if isinstance(value, str) else float(value))
        for name, value in sorted(stored.items())
        if isinstance(name, str) and isinstance(value, int | float | str) and not isinstance(value, bool)
    )


def _script(features: Mapping[str, Any]) -> Script | None:
    who = _text(features.get("project")) or _text(features.get("owner"))
    script, devices = _text(features.get("script")), features.get("gpus")
    return (who, script, devices if isinstance(devices, int) else 1) if who and script else None
