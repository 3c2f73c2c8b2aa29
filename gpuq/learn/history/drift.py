"""Watches, attempt by attempt, whether forecasts still hold: error and coverage, per kind and over all.

Each finished attempt is scored against the forecast that was stored at its launch. The figures decay, so that they describe
the recent past. Where a memory bound fails significantly more often than promised, the kind is in alarm: its bound is widened
until a new model serves. The state depends on the attempts and their order only, so a restart rebuilds it from the record.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from gpuq.learn.history.outcome import Outcome
from gpuq.learn.statistics import binomial_tail, conformal_rank

# The weight of an attempt halves with this many further ones.
KIND_HALF_LIFE = 16.0
TOTAL_HALF_LIFE = 256.0
# The alarm tests the latest attempts of a kind, and is set where chance explains their failures with less than this probability.
_WINDOW = 32
_ALARM = 0.01
KINDS_KEPT = 5_000
MOST_SHOWN = 10
# A bound widened further than this excludes sharing anyway.
_WIDEST = 100.0


@dataclass
class _Mean:
    """An exponentially decayed mean; None before the first value."""

    half_life: float
    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float) -> None:
        keep = 0.5 ** (1 / self.half_life)
        self.total = self.total * keep + value
        self.weight = self.weight * keep + 1.0

    @property
    def value(self) -> float | None:
        return self.total / self.weight if self.weight else None


@dataclass
class KindDeviation:
    """The figures of one kind on one type of device, or of all. Ratios are measured memory / bound before any widening."""

    half_life: float
    window: int
    attempts: int = 0
    covered: _Mean = field(init=False)
    memory_error: _Mean = field(init=False)
    utilization_error: _Mean = field(init=False)
    slowdown_error: _Mean = field(init=False)
    slowdown_covered: _Mean = field(init=False)
    _ratios: deque[tuple[str | None, float]] = field(init=False)

    def __post_init__(self) -> None:
        means = (_Mean(self.half_life) for _ in range(5))
        self.covered, self.memory_error, self.utilization_error, self.slowdown_error, self.slowdown_covered = means
        self._ratios = deque(maxlen=self.window)

    def add_ratio(self, version: str | None, ratio: float) -> None:
        """Add measured / bound of a forecast made by this model version."""
        self._ratios.append((version, ratio))

    def ratios(self, version: str | None) -> list[float]:
        """The latest ratios under this model version; errors of another version are no evidence against this one."""
        return [ratio for of, ratio in self._ratios if of == version]


class Drift:
    """Drift of all kinds and of each. Not for use by several threads."""

    def __init__(self, quantile: float) -> None:
        self._quantile = quantile
        self._newest = (0, 0)
        self._version: str | None = None
        self._kinds: OrderedDict[tuple[str, str], KindDeviation] = OrderedDict()
        self._all = KindDeviation(TOTAL_HALF_LIFE, 4 * _WINDOW)
        self._report: dict[str, Any] | None = None

    def learn(self, outcome: Outcome) -> None:
        """Score a finished attempt against its forecast. Attempts without a forecast, or that did not finish, are ignored."""
        forecast = outcome.forecast
        if forecast is None or not forecast.known or not outcome.whole:
            return
        # Job numbers rise with time, so the forecast of the newest job seen names the serving model.
        if outcome.attempt is None or outcome.attempt >= self._newest:
            self._newest, self._version = outcome.attempt or self._newest, forecast.model_version
        key = (outcome.kind, outcome.device_type)
        watched = self._kinds.setdefault(key, KindDeviation(KIND_HALF_LIFE, _WINDOW))
        self._kinds.move_to_end(key)
        if len(self._kinds) > KINDS_KEPT:
            self._kinds.popitem(last=False)
        for figures in (watched, self._all):
            _score(figures, outcome)
        self._report = None

    def widening(self, kind: str, device_type: str) -> float:
        """The factor for this kind's memory bound; 1.0 where the bound holds as often as promised.

        In an alarm it is the conformal quantile of measured / bound over the kind's recent runs, or their maximum where they
        are few.
        """
        watched = self._kinds.get((kind, device_type))
        if watched is None or not self._alarm(watched):
            return 1.0
        ordered = sorted(watched.ratios(self._version))
        rank = conformal_rank(len(ordered), self._quantile) or len(ordered)
        return min(_WIDEST, max(1.0, ordered[rank - 1]))

    def report(self) -> dict[str, Any]:
        """Figures over all, the number of kinds in alarm, and the `MOST_SHOWN` kinds that deviate most, as plain JSON values."""
        if self._report is None:
            self._report = self._reported()
        return self._report

    def _reported(self) -> dict[str, Any]:
        chances = {key: self._chance(watched) for key, watched in self._kinds.items()}
        ranked = sorted(self._kinds, key=lambda key: (chances[key], -self._kinds[key].attempts, key))
        return {
            "promised": self._quantile,
            "overall": {**self._figures(self._all), "alarm": self._alarm(self._all)},
            "kinds_watched": len(self._kinds),
            "kinds_in_alarm": sum(chance < _ALARM for chance in chances.values()),
            "kinds": [
                {
                    "kind": key[0],
                    "device_type": key[1],
                    **self._figures(self._kinds[key]),
                    "alarm": chances[key] < _ALARM,
                    "widened": self.widening(*key),
                }
                for key in ranked[:MOST_SHOWN]
            ],
        }

    def _chance(self, watched: KindDeviation) -> float:
        """The probability of as many failures, or more, if the bound held as often as promised."""
        ratios = watched.ratios(self._version)
        return binomial_tail(sum(ratio > 1 for ratio in ratios), len(ratios), 1 - self._quantile)

    def _alarm(self, watched: KindDeviation) -> bool:
        """Whether the memory bound fails more often than promised by more than chance explains."""
        return self._chance(watched) < _ALARM

    @staticmethod
    def _figures(watched: KindDeviation) -> dict[str, Any]:
        return {
            "attempts": watched.attempts,
            "memory_coverage": watched.covered.value,
            "memory_error": watched.memory_error.value,
            "utilization_error_pct": watched.utilization_error.value,
            "slowdown_error": watched.slowdown_error.value,
            "slowdown_coverage": watched.slowdown_covered.value,
        }


def _score(watched: KindDeviation, outcome: Outcome) -> None:
    forecast = outcome.forecast
    assert forecast is not None
    watched.attempts += 1
    if outcome.peak_memory_bytes and forecast.upper_memory_bytes:
        covered = outcome.peak_memory_bytes <= forecast.upper_memory_bytes
        watched.covered.add(float(covered))
        ratio = outcome.peak_memory_bytes * forecast.widened / forecast.upper_memory_bytes
        watched.add_ratio(forecast.model_version, ratio)
        point = forecast.peak_memory_bytes or forecast.upper_memory_bytes
        watched.memory_error.add(abs(point - outcome.peak_memory_bytes) / outcome.peak_memory_bytes)
    utilization = forecast.likeliest_utilization_pct
    if outcome.peak_utilization_pct is not None and utilization is not None:
        watched.utilization_error.add(abs(utilization - outcome.peak_utilization_pct))
    _score_slowdown(watched, outcome)


def _score_slowdown(watched: KindDeviation, outcome: Outcome) -> None:
    """Counts a slowdown only where the job met exactly the partner that its forecast was made for."""
    forecast = outcome.forecast
    assert forecast is not None
    for partner, value, _, _ in outcome.slowdowns:
        if [cost.beside for cost in forecast.pairs] != [partner]:
            continue
        if forecast.expected_slowdown is not None and math.isfinite(value):
            watched.slowdown_error.add(abs(forecast.expected_slowdown - value) / value)
        if forecast.upper_slowdown is not None:
            watched.slowdown_covered.add(float(value <= forecast.upper_slowdown))
