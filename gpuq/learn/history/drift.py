"""Watches, attempt by attempt, whether forecasts still hold: error and coverage, per kind and over all.

Each finished attempt is scored against the forecast that was stored at its launch. The figures decay, so that they describe
the recent past. Where a memory bound fails significantly more often than promised, the kind is in alarm: its bound is widened
until a new model serves. The state depends on the attempts and their order only, so a restart rebuilds it from the record.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

from gpuq.core.state.forecast import Forecast
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


class _Deviation:
    """The figures of one kind on one type of device, or of all."""

    def __init__(self, half_life: float, window: int) -> None:
        self.attempts = 0
        self.covered, self.memory_error = _Mean(half_life), _Mean(half_life)
        self.utilization_error = _Mean(half_life)
        self.slowdown_error, self.slowdown_covered = _Mean(half_life), _Mean(half_life)
        # (version of the model, measured memory / bound before any widening) of the latest attempts.
        self._ratios: deque[tuple[str | None, float]] = deque(maxlen=window)

    def score(self, outcome: Outcome, forecast: Forecast) -> None:
        self.attempts += 1
        peak, upper = outcome.peak_memory_bytes, forecast.upper_memory_bytes
        if peak and upper:
            self.covered.add(float(peak <= upper))
            self._ratios.append((forecast.model_version, peak * forecast.widened / upper))
            self.memory_error.add(abs((forecast.peak_memory_bytes or upper) - peak) / peak)
        utilization = forecast.likeliest_utilization_pct
        if outcome.peak_utilization_pct is not None and utilization is not None:
            self.utilization_error.add(abs(utilization - outcome.peak_utilization_pct))
        for partner, value, _, _ in outcome.slowdowns:
            # A slowdown counts only where the job met exactly the partner that its forecast was made for.
            if [cost.beside for cost in forecast.pairs] != [partner]:
                continue
            if forecast.expected_slowdown is not None and math.isfinite(value):
                self.slowdown_error.add(abs(forecast.expected_slowdown - value) / value)
            if forecast.upper_slowdown is not None:
                self.slowdown_covered.add(float(value <= forecast.upper_slowdown))

    def ratios(self, version: str | None) -> list[float]:
        """The latest ratios under this model version; errors of another version are no evidence against this one."""
        return [ratio for of, ratio in self._ratios if of == version]

    def figures(self) -> dict[str, Any]:
        return {
            "attempts": self.attempts,
            "memory_coverage": self.covered.value,
            "memory_error": self.memory_error.value,
            "utilization_error_pct": self.utilization_error.value,
            "slowdown_error": self.slowdown_error.value,
            "slowdown_coverage": self.slowdown_covered.value,
        }


class Drift:
    """Drift of all kinds and of each. Not for use by several threads."""

    def __init__(self, quantile: float) -> None:
        self._quantile = quantile
        self._newest = (0, 0)
        self._version: str | None = None
        self._kinds: OrderedDict[tuple[str, str], _Deviation] = OrderedDict()
        self._all = _Deviation(TOTAL_HALF_LIFE, 4 * _WINDOW)
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
        watched = self._kinds.setdefault(key, _Deviation(KIND_HALF_LIFE, _WINDOW))
        self._kinds.move_to_end(key)
        if len(self._kinds) > KINDS_KEPT:
            self._kinds.popitem(last=False)
        for figures in (watched, self._all):
            figures.score(outcome, forecast)
        self._report = None

    def widening(self, kind: str, device_type: str) -> float:
        """The factor for this kind's memory bound; 1.0 where the bound holds as often as promised.

        In an alarm it is the conformal quantile of measured / bound over the kind's recent runs, or their maximum where they
        are few.
        """
        watched = self._kinds.get((kind, device_type))
        if watched is None or self._chance(watched) >= _ALARM:
            return 1.0
        ordered = sorted(watched.ratios(self._version))
        rank = conformal_rank(len(ordered), self._quantile) or len(ordered)
        return min(_WIDEST, max(1.0, ordered[rank - 1]))

    def report(self) -> dict[str, Any]:
        """Figures over all, the number of kinds in alarm, and the `MOST_SHOWN` kinds that deviate most, as plain JSON values."""
        if self._report is not None:
            return self._report
        chances = {key: self._chance(watched) for key, watched in self._kinds.items()}
        ranked = sorted(self._kinds, key=lambda key: (chances[key], -self._kinds[key].attempts, key))
        self._report = {
            "promised": self._quantile,
            "overall": {**self._all.figures(), "alarm": self._chance(self._all) < _ALARM},
            "kinds_watched": len(self._kinds),
            "kinds_in_alarm": sum(chance < _ALARM for chance in chances.values()),
            "kinds": [
                {
                    "kind": key[0],
                    "device_type": key[1],
                    **self._kinds[key].figures(),
                    "alarm": chances[key] < _ALARM,
                    "widened": self.widening(*key),
                }
                for key in ranked[:MOST_SHOWN]
            ],
        }
        return self._report

    def _chance(self, watched: _Deviation) -> float:
        """The probability of as many failures, or more, if the bound held as often as promised."""
        ratios = watched.ratios(self._version)
        return binomial_tail(sum(ratio > 1 for ratio in ratios), len(ratios), 1 - self._quantile)
