"""What was measured of each kind on each type of device, and what each pair of kinds cost each other.

The history is filled from the record at start, and then attempt by attempt. It answers with the latest runs of a kind, the
latest slowdowns of a pair, and the pairs that ran out of memory together. Its size is bounded: old runs are dropped for new
ones, and kinds not seen for long for others. Types of device never mix, since neither memory nor time carries over from one
to another.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from gpuq.core.state.attempt import MemoryCause
from gpuq.learn.history.job_features import JobFeatures, Script
from gpuq.learn.history.outcome import OngoingAttempt, Outcome, outcome_from_rows
from gpuq.learn.statistics import REPEATED_RUN, Prior, order_statistic

RUNS_KEPT = 64
PARTIAL_KEPT = 16
PAIRS_KEPT = 16
# Admission adds up the peak utilisations of two jobs, so each must rarely be too low: of up to nine runs, the highest.
UTILIZATION_QUANTILE = 0.9
KINDS_KEPT = 20_000
# The peaks of attempts that run are rounded up to a power of this.
_STEP = 1.01
SCRIPT_KINDS_KEPT = 24

__all__ = ["History", "MeasuredRun", "MeasuredSlowdown", "Outcome", "outcome_from_rows", "place_of"]


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """Peaks, duration and power of one finished attempt. Percent of a device, bytes, seconds, steps per second, watts."""

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
    level: bool = False
    """The attempt goes on, and its memory has levelled off. Its peaks are lower bounds, as those of all unfinished attempts."""
    owner: str | None = None

    @property
    def complete(self) -> bool:
        """Whether both peaks of the whole job were measured."""
        return self.whole and self.peak_utilization_pct is not None and self.peak_memory_bytes is not None


def place_of(device_type: str, sharing: str | None) -> str:
    """The key under which slowdowns may be compared: type of device and way of sharing ("mps", "time-slicing", None: unknown)."""
    return device_type if sharing is None else f"{device_type} / {sharing}"


@dataclass(frozen=True, slots=True)
class MeasuredSlowdown:
    """A kind's slowdown beside another: time together / time alone, with the upper end of its 95% interval where known."""

    value: float
    high: float | None


class History:
    """Runs, slowdowns and unsafe pairs in memory. Not for use by several threads."""

    def __init__(self) -> None:
        # (kind, type of device) -> its latest runs, in one bounded queue per combination of what they showed. Many runs of one
        # sort must not push out another: shared runs must not displace runs alone, which show a kind's own peaks, nor runs with
        # missing values those that are complete.
        self._runs: OrderedDict[tuple[str, str], dict[tuple[bool, ...], deque[MeasuredRun]]] = OrderedDict()
        # (script, type of device) -> kinds of that script with a run, the longest unseen first.
        self._kinds_of: dict[tuple[Script, str], OrderedDict[str, None]] = {}
        self._slowdowns: OrderedDict[tuple[str, str, str], deque[MeasuredSlowdown]] = OrderedDict()
        self._places: set[str] = set()
        # Place -> (half of the squared differences, in logs, between one meeting of a pair and its next, summed; their number).
        self._repeats: dict[str, tuple[float, int]] = {}
        self._unsafe: set[tuple[str, str, str]] = set()
        # (kind, type of device) -> attempts that run, as far as they count.
        self._running: dict[tuple[str, str], dict[tuple[int, int], MeasuredRun]] = {}

    @classmethod
    def from_outcomes(cls, outcomes: Iterable[Outcome]) -> History:
        """A history filled with these outcomes, in their order."""
        history = cls()
        for outcome in outcomes:
            history.learn(outcome)
        return history

    def learn(self, outcome: Outcome) -> bool:
        """Add a finished attempt. Returns False, and adds nothing, if it is already known: messages may be delivered twice."""
        key = (outcome.kind, outcome.device_type)
        queues = self._runs.setdefault(key, {})
        self._runs.move_to_end(key)
        if self._has_ended(key, outcome.attempt):
            return False
        if outcome.attempt is not None:
            self._running.get(key, {}).pop(outcome.attempt, None)
        known = outcome.known
        run = MeasuredRun(
            known=known,
            peak_utilization_pct=outcome.peak_utilization_pct,
            peak_memory_bytes=outcome.peak_memory_bytes,
            duration_s=None if known.resumed else outcome.duration_s,
            alone_rate=outcome.alone_rate,
            whole=outcome.whole,
            # Foreign load makes a run longer, as a partner does.
            shared=outcome.shared or outcome.disturbed,
            attempt=outcome.attempt,
            power_w=outcome.power_w,
            first_step_s=outcome.first_step_s,
            utilization_at_most=outcome.utilization_at_most,
            owner=outcome.owner,
        )
        has_utilization, has_memory = run.peak_utilization_pct is not None, run.peak_memory_bytes is not None
        shown = (run.whole, has_utilization, has_memory, run.complete and run.shared)
        queues.setdefault(shown, deque(maxlen=RUNS_KEPT if run.complete else PARTIAL_KEPT)).append(run)
        if known.script is not None:
            kinds = self._kinds_of.setdefault((known.script, outcome.device_type), OrderedDict())
            kinds[outcome.kind] = None
            kinds.move_to_end(outcome.kind)
            if len(kinds) > SCRIPT_KINDS_KEPT:
                kinds.popitem(last=False)
        self._learn_pairs(outcome)
        if len(self._runs) > KINDS_KEPT:
            (kind, device_type), dropped = self._runs.popitem(last=False)
            for old in chain.from_iterable(dropped.values()):
                if old.known.script is not None:
                    self._kinds_of.get((old.known.script, device_type), OrderedDict()).pop(kind, None)
        return True

    def watch(self, running: Iterable[OngoingAttempt]) -> set[tuple[str, str]]:
        """Replace the attempts that run. Returns (kind, type of device) wherever that changes what is known.

        One counts from the first time on that its memory is level. Its peaks are rounded up, to about a hundredth, and never
        fall, so that what follows from them does not change with every reading.
        """
        before, self._running = self._running, {}
        for one in running:
            key = (one.kind, one.device_type)
            old = before.get(key, {}).get(one.attempt)
            if one.peak_memory_bytes is None or self._has_ended(key, one.attempt) or not (one.level or old):
                continue
            most = round(_STEP ** math.ceil(math.log(one.peak_memory_bytes, _STEP)))
            self._running.setdefault(key, {})[one.attempt] = MeasuredRun(
                known=one.known,
                peak_utilization_pct=_risen(one.peak_utilization_pct, old.peak_utilization_pct if old else None),
                peak_memory_bytes=max(most, (old and old.peak_memory_bytes) or 0),
                duration_s=None,
                alone_rate=None,
                whole=False,
                shared=one.shared,
                attempt=one.attempt,
                utilization_at_most=_risen(one.utilization_at_most, old.utilization_at_most if old else None),
                level=one.level,
            )
        return {key for key in {*before, *self._running} if before.get(key, {}) != self._running.get(key, {})}

    def _has_ended(self, key: tuple[str, str], attempt: tuple[int, int] | None) -> bool:
        ended = chain.from_iterable(self._runs.get(key, {}).values())
        return attempt is not None and any(run.attempt == attempt for run in ended)

    def _learn_pairs(self, outcome: Outcome) -> None:
        for partner, value, _, high in outcome.slowdowns:
            where = place_of(outcome.device_type, outcome.sharing)
            self._places.add(where)
            key = (outcome.kind, partner, where)
            before = self._slowdowns.setdefault(key, deque(maxlen=PAIRS_KEPT))
            if before:
                squares, count = self._repeats.get(where, (0.0, 0))
                self._repeats[where] = squares + math.log(value / before[-1].value) ** 2 / 2, count + 1
            before.append(MeasuredSlowdown(value, high))
            self._slowdowns.move_to_end(key)
        if len(self._slowdowns) > KINDS_KEPT:
            self._slowdowns.popitem(last=False)
        # Memory that a foreign process took is no evidence against the pair.
        if outcome.outgrew_device and outcome.shared and outcome.memory_cause != MemoryCause.FOREIGN:
            for partner in outcome.partner_kinds:
                self._unsafe |= {
                    (outcome.kind, partner, outcome.device_type),
                    (partner, outcome.kind, outcome.device_type),
                }

    def runs(self, kind: str, device_type: str) -> list[MeasuredRun]:
        """The kind's latest runs on this type of device, grouped by what they showed, each group oldest first; then the attempts
        that run, as far as they count."""
        key = (kind, device_type)
        ended = chain.from_iterable(self._runs.get(key, {}).values())
        return [*ended, *self._running.get(key, {}).values()]

    def owner(self, kind: str, device_type: str) -> str | None:
        """Whose kind it is: the owner of a run of it that ended; None where none is known."""
        ended = chain.from_iterable(self._runs.get((kind, device_type), {}).values())
        return next((run.owner for run in ended if run.owner is not None), None)

    def level(self, kind: str, device_type: str, known: JobFeatures) -> list[MeasuredRun]:
        """Attempts of the same work that run, and whose memory has levelled off."""
        running = self._running.get((kind, device_type), {}).values()
        return [run for run in running if run.level and known.same_work(run.known)]

    def siblings(self, kind: str, device_type: str, known: JobFeatures) -> list[MeasuredRun]:
        """Finished runs of the same script on this type of device, whatever their kind and settings; those of `kind` last."""
        kinds = () if known.script is None else self._kinds_of.get((known.script, device_type), ())
        found = [run for other in kinds if other != kind for run in self.runs(other, device_type) if run.whole]
        return [*found, *(run for run in self.runs(kind, device_type) if run.whole)]

    def comparable(self, kind: str, device_type: str, known: JobFeatures) -> tuple[list[MeasuredRun], bool]:
        """The runs to predict a job from, and whether they are of the same work (equal script and settings).

        Where no run is of the same work, all finished runs of the kind are returned with False. Runs with both peaks are
        preferred.
        """
        whole = [run for run in self.runs(kind, device_type) if run.whole]
        usable = [run for run in whole if run.complete] or whole
        same = [run for run in usable if known.same_work(run.known)]
        return (same, True) if same and (_show_both(same) or not _show_both(usable)) else (usable, False)

    def slowdowns(self, kind: str, beside: str, place: str) -> list[MeasuredSlowdown]:
        """The measured slowdowns of `kind` beside the other kind in this place (see `place_of`), oldest first."""
        return list(self._slowdowns.get((kind, beside, place), ()))

    def repeated_meetings(self, place: str) -> Prior:
        """How much the meetings of one pair differ in this place, over all its pairs; as repeated runs do where few met again."""
        squares, count = self._repeats.get(place, (0.0, 0))
        weight, scale = REPEATED_RUN.weight, REPEATED_RUN.scale
        return Prior(math.sqrt((weight * scale**2 + squares) / (weight + count)))

    def measured_pairs(self, place: str) -> bool:
        """Whether any slowdown was measured in this place."""
        return place in self._places

    def all_slowdowns(self) -> dict[str, dict[tuple[str, str], list[float]]]:
        """Place -> (kind, kind beside it) -> measured slowdowns; the pair longest unseen first."""
        found: dict[str, dict[tuple[str, str], list[float]]] = {}
        for (kind, beside, where), measured in self._slowdowns.items():
            found.setdefault(where, {})[kind, beside] = [slowdown.value for slowdown in measured]
        return found

    def unsafe(self, kind: str, other: str, device_type: str) -> bool:
        """Whether one of the two ran out of memory beside the other, on a device without foreign processes."""
        return (kind, other, device_type) in self._unsafe

    def kinds(self) -> Iterator[tuple[str, str]]:
        """All (kind, device type) with a run, the longest unseen first."""
        return iter(list(self._runs))


def _risen(value: float | None, before: float | None) -> float | None:
    """The higher of the two, in whole percent."""
    known = [float(math.ceil(one)) for one in (value, before) if one is not None]
    return max(known, default=None)


def measured(runs: Iterable[MeasuredRun], name: str) -> list[float]:
    """The known values of a field of these runs: of those without a partner if there are any, else of all.

    A partner lowers utilisation and lengthens runs, so runs alone are better evidence.
    """
    known = [(run.shared, float(value)) for run in runs if (value := getattr(run, name)) is not None]
    return [value for shared, value in known if not shared] or [value for _, value in known]


def peak_utilization(used: Sequence[MeasuredRun], runs: Sequence[MeasuredRun]) -> float | None:
    """The upper quantile of the runs alone, in percent; None without any. Unfinished runs only raise it."""
    values = measured(used, "peak_utilization_pct") or measured(used, "utilization_at_most")
    if not values:
        return None
    partly = [run.peak_utilization_pct for run in runs if not run.whole and run.peak_utilization_pct is not None]
    together = [run.peak_utilization_pct for run in used if run.shared and run.peak_utilization_pct is not None]
    floor = order_statistic([*together, *partly], UTILIZATION_QUANTILE) if together or partly else 0.0
    return max(order_statistic(values, UTILIZATION_QUANTILE), floor)


def _show_both(runs: list[MeasuredRun]) -> bool:
    """Whether these runs, taken together, show both peaks."""
    utilization = any(run.peak_utilization_pct is not None for run in runs)
    return utilization and any(run.peak_memory_bytes is not None for run in runs)
