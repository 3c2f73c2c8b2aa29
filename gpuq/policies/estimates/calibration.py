"""How late were the starts that were foretold before? What is told next is multiplied by what that teaches.

Arrives: what was foretold of each job when it came, before any factor, and when it started. Leaves: factors for a median
and a 90th percentile. The latter aims at the quantile of past ratios that would have held nine times in ten, and moves its aim
by what it is seen to miss (adaptive conformal inference: Gibbs and Candès, NeurIPS 2021), since traffic changes. Jobs that
still wait beyond what they were told are misses already. Jobs that were told at one moment stood before the same queue and err
together: a hundred of them say little more than one, and count as one. Pure; the time is passed in.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite
from operator import attrgetter
from typing import NamedTuple

from gpuq.core.state.job import JobId
from gpuq.policies.estimates.waiting import ExpectedStart

# Starts that are looked back on.
_LOOK_BACK = 300
# Until there are starts of its own, as if so many had come before: as early and as late as factors of two and three around the
# median, so that nine of ten were within twice the median. Half of that is what they were of a 90th percentile that is right.
_PRIOR = (0.33, 0.5, 0.7, 0.85, 1.0, 1.0, 1.2, 1.5, 2.0, 3.0)
_WITHIN = 2.0
# How far one miss moves the aim, and between what it may move.
_STEP, _LOWEST, _HIGHEST = 0.1, 0.7, 0.995
_HOLDS = 0.9
# Waits are compared from a minute on: below, nobody minds the ratio.
_A_MINUTE = 60.0
# What a sum of thirds may be short of.
_ROUNDING = 1e-9


@dataclass(slots=True)
class Told:
    """What was foretold of one at that moment: `raw`, and the 90th percentile that it was told."""

    at: float
    raw: ExpectedStart
    p90_s: float
    missed: bool = False


class Late(NamedTuple):
    """What somebody waited, as a multiple of the raw median and of the raw 90th percentile; None was told at no moment."""

    told_at: float | None
    usual: float
    high: float


@dataclass(frozen=True, slots=True)
class Lateness:
    """All that a `Punctual` has learnt, to go on with after a restart."""

    waiting: dict[JobId, Told] = field(default_factory=dict)
    late: list[Late] = field(default_factory=lambda: [Late(None, ratio, ratio / _WITHIN) for ratio in _PRIOR])
    aim: float = _HOLDS


class Punctual:
    """One for each sort of jobs that start alike. `known` is what one before it has learnt."""

    def __init__(self, known: Lateness | None = None) -> None:
        known = known or Lateness()
        self._waiting = dict(known.waiting)
        self._late = deque(known.late, maxlen=_LOOK_BACK)
        self._aim = known.aim

    @property
    def learnt(self) -> Lateness:
        """All that was learnt; who was told nothing finite is left out."""
        told = {job: told for job, told in self._waiting.items() if isfinite(told.p90_s)}
        return Lateness(told, list(self._late), self._aim)

    @property
    def waiting(self) -> Sequence[JobId]:
        """Who was told something and is still waited for."""
        return list(self._waiting)

    def tell(self, job: JobId, raw: ExpectedStart, now: float) -> ExpectedStart:
        """Remember this, and say it corrected."""
        said = self.corrected([raw], now)[0]
        self._waiting[job] = Told(now, raw, said.p90_s)
        return said

    def started(self, job: JobId, now: float) -> None:
        """It waited until now."""
        told = self._waiting[job]
        if not told.missed:
            self._judge(now - told.at > told.p90_s, self._together()[told.at])
        del self._waiting[job]
        self._late.append(_late(told, now))

    def gone(self, job: JobId) -> None:
        """It will not start: nothing is learnt of it."""
        del self._waiting[job]

    def corrected(self, raw: Sequence[ExpectedStart], now: float) -> list[ExpectedStart]:
        """These, times the factors of now."""
        usual, high = self._factors(now)
        found = []
        for start in raw:
            p50 = max(0.0, usual * (start.p50_s + _A_MINUTE) - _A_MINUTE)
            found.append(ExpectedStart(p50, max(p50, high * (start.p90_s + _A_MINUTE) - _A_MINUTE)))
        return found

    def _factors(self, now: float) -> tuple[float, float]:
        """Those who wait count with what they have waited, where that alone is beyond the factor."""
        together = self._together()
        for told in self._waiting.values():
            if not told.missed and now - told.at > told.p90_s:
                told.missed = True
                self._judge(True, together[told.at])
        waited = [_late(told, now) for told in self._waiting.values()]

        def factor(ratio: Callable[[Late], float], share: float) -> float:
            past = [(ratio(late), together[late.told_at]) for late in self._late]
            least = _quantile(past, share)
            beyond = [(ratio(late), together[late.told_at]) for late in waited if ratio(late) > least]
            return _quantile([*past, *beyond], share)

        return factor(attrgetter("usual"), 0.5), factor(attrgetter("high"), self._aim)

    def _judge(self, missed: bool, together: int) -> None:
        """Move the aim: by one step for all that were told together."""
        self._aim = min(_HIGHEST, max(_LOWEST, self._aim + _STEP / together * (missed - (1 - _HOLDS))))

    def _together(self) -> Counter[float | None]:
        """How many were told at each moment; those of no moment are alone."""
        moments = [told.at for told in self._waiting.values()]
        together: Counter[float | None] = Counter([*moments, *(late.told_at for late in self._late)])
        together[None] = 1
        return together


def _late(told: Told, now: float) -> Late:
    waited = now - told.at + _A_MINUTE
    return Late(told.at, waited / (told.raw.p50_s + _A_MINUTE), waited / (told.raw.p90_s + _A_MINUTE))


def _quantile(values: Iterable[tuple[float, int]], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed, where so many together count as one."""
    ordered = sorted(values)
    left = share * fsum(1 / together for _, together in ordered) - _ROUNDING
    for value, together in ordered:
        left -= 1 / together
        if left <= 0:
            return value
    return ordered[-1][0]
