"""How long jobs last: a quantile of what a job has left, given its forecast and how long it has run.

Durations are log-logistic. That distribution is as skewed as the log-normal, has a closed form for the time left of a job that
has run for a while, and has a heavy tail: a job that has outlived its forecast by far is expected to go on for a time in
proportion to its age, instead of to end at once. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

# A forecast is itself uncertain, whatever spread it states: the 90th percentile of its error is this factor.
_FORECAST_ERROR = math.log(2.8)
# Ended jobs before any has been seen, as if there had been five: from three minutes to nineteen hours.
_PRIOR_S = (190.0, 1080.0, 3600.0, 12000.0, 68000.0)
# The log-logistic has its 90th percentile where the odds of having ended are nine to one.
_ODDS_90 = math.log(9.0)
_LONGEST_S = 30 * 86_400.0


class Duration(NamedTuple):
    """The median and the 90th percentile, in seconds, at least one; the second is greater than the first."""

    p50_s: float
    p90_s: float

    def left_s(self, age_s: float, share: float) -> float:
        """The quantile `share` of the seconds that a job of this age has left; `age_s` is 0 for one that has not started."""
        shape = _ODDS_90 / math.log(self.p90_s / self.p50_s)
        # Odds of having ended by t are (t / median) ** shape; the job has survived its age, so 1 + odds grows by 1 / (1 - share).
        # For a job far beyond its median the power would overflow, and that growth is all that counts.
        past = shape * math.log(max(age_s, 1e-9) / self.p50_s)
        total_s: float
        if past > 50:
            total_s = age_s * (1 - share) ** (-1 / shape)
        else:
            total_s = self.p50_s * ((1 + math.exp(past)) / (1 - share) - 1) ** (1 / shape)
        return max(0.0, min(total_s, max(_LONGEST_S, 2 * age_s)) - age_s)


def forecast_duration(p50_s: float | None, p90_s: float | None) -> Duration | None:
    """A forecast as a duration, wider by the error of forecasts; None without a median."""
    if p50_s is None:
        return None
    p50_s = max(1.0, p50_s)
    spread = math.log(max(p50_s, p90_s or 0.0) / p50_s)
    return Duration(p50_s, p50_s * math.exp(math.hypot(spread, _FORECAST_ERROR)))


def typical_duration(ended_s: Iterable[float], ages_s: Iterable[float]) -> Duration:
    """The duration of a job without a forecast: percentiles of durations of ended jobs and ages of running ones.

    Running jobs are censored observations. Short jobs end first, so ended jobs alone would be too short; the estimator of Kaplan
    and Meier (1958) takes a running job as one that lasts longer than its age.
    """
    seen = sorted([*((s, True) for s in (*_PRIOR_S, *ended_s)), *((s, False) for s in ages_s)])
    surviving, p50_s, p90_s = 1.0, seen[-1][0], seen[-1][0]
    for number, (seconds, has_ended) in enumerate(seen):
        before = surviving
        surviving *= 1 - has_ended / (len(seen) - number)
        if surviving <= 0.5 < before:
            p50_s = seconds
        if surviving <= 0.1 < before:
            p90_s = seconds
    p50_s = max(1.0, p50_s)
    return Duration(p50_s, max(p90_s, 1.5 * p50_s))
