"""How late were the starts that were foretold before? What is told next is multiplied by what that teaches.

Arrives: what was foretold of each job when it came, before any factor, and when it started. Leaves: factors for a median
and a 90th percentile. The latter aims at the quantile of past ratios that would have held nine times in ten, and moves its aim
by what it is seen to miss (adaptive conformal inference: Gibbs and Candès, NeurIPS 2021), since traffic changes. Jobs that
still wait beyond what they were told are misses already. Pure; the time is passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gpuq.core.job import JobId
from gpuq.policies.waiting import ExpectedStart, quantile

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


@dataclass(slots=True)
class _Told:
    at: float
    raw: ExpectedStart
    p90_s: float
    missed: bool = False


class Punctual:
    """One for each sort of jobs that start alike."""

    def __init__(self) -> None:
        self._waiting: dict[JobId, _Told] = {}
        self._late: deque[tuple[float, float]] = deque(
            ((ratio, ratio / _WITHIN) for ratio in _PRIOR), maxlen=_LOOK_BACK
        )
        self._aim = _HOLDS

    @property
    def waiting(self) -> Sequence[JobId]:
        """Who was told something and is still waited for."""
        return list(self._waiting)

    def tell(self, job: JobId, raw: ExpectedStart, now: float) -> ExpectedStart:
        """Remember this, and say it corrected."""
        said = self.corrected([raw], now)[0]
        self._waiting[job] = _Told(now, raw, said.p90_s)
        return said

    def started(self, job: JobId, now: float) -> None:
        """It waited until now."""
        told = self._waiting.pop(job)
        self._late.append(_ratios(told, now))
        if not told.missed:
            self._judge(now - told.at > told.p90_s)

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
        for told in self._waiting.values():
            if not told.missed and now - told.at > told.p90_s:
                told.missed = True
                self._judge(True)
        waited = [_ratios(told, now) for told in self._waiting.values()]
        factors = []
        for which, share in ((0, 0.5), (1, self._aim)):
            past = [ratios[which] for ratios in self._late]
            factor = median(past) if share == 0.5 else quantile(past, share)
            beyond = [ratios[which] for ratios in waited if ratios[which] > factor]
            factors.append(quantile([*past, *beyond], share))
        return factors[0], factors[1]

    def _judge(self, missed: bool) -> None:
        self._aim = min(_HIGHEST, max(_LOWEST, self._aim + _STEP * (missed - (1 - _HOLDS))))


def _ratios(told: _Told, now: float) -> tuple[float, float]:
    waited = now - told.at + _A_MINUTE
    return waited / (told.raw.p50_s + _A_MINUTE), waited / (told.raw.p90_s + _A_MINUTE)
