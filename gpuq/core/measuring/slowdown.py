"""Compute the slowdown that sharing caused: rate alone / rate while sharing, with a 95% interval.

The rates come from the segments of a `Measurement` and, where the job never ran alone, from earlier runs of its kind alone on
the same type of device. Besides slowdowns there are rates and packing savings. A figure with too little evidence is None.

The interval. Each window of a few seconds gives one rate. With the mean m, the sample variance s2 and n windows on each
side, the ratio R = m_alone / m_shared has, by the delta method on its logarithm,

    var(ln R) = s2_alone / (n_alone * m_alone^2) + s2_shared / (n_shared * m_shared^2)

and the interval is R * exp(-/+ t * sqrt(var)), where t is Student's 97.5% quantile with the degrees of freedom of Welch
and Satterthwaite. The logarithm keeps the lower end above zero. (Casella and Berger, "Statistical Inference", 5.5.4;
Welch, Biometrika 34, 1947.) Windows that follow each other are taken as independent, so a job whose speed drifts gets
an interval that is somewhat too narrow.

Blinks. A window in which the partner was paused is short, and holds few steps of a slow job, so its own rate is coarse and
their mean would count a window with one long step as much as one with many. So the alone rate of blinks is all their steps
over all their seconds (a ratio estimator; Cochran, "Sampling Techniques", chapter 6), with the windows' spread about it. The
moments are random, so the difference is caused by the partner and not by a phase of the training: therefore blinks come
before time that the job happened to have alone.

Foreign load. Windows in which other processes may have taken more than a little of the job's time are left out of all rates.
Where no others are left, the ratio of all windows is still given, with a basis of its own: it is what the job lost on that
host at that time, not what the pair costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuq.core.measuring.measurement import Measurement, Segment
from gpuq.core.state.attempt import AttemptId

# A step in thirty years. Below that, squares of rates come to nothing.
_SLOWEST = 1e-9
# Of drawn trainings with pauses the time alone within the attempt was worse than the kind's rate where its interval was wider.
_VAGUE = 4.0
# An interval that is wider than a factor of exp(20) on either side says nothing.
_WIDEST = 20.0


class Basis(StrEnum):
    """What the alone rate of a slowdown rests on."""

    BLINK = "measured by blinks"
    WITHIN_ATTEMPT = "within attempt"
    KIND = "kind's alone rate"
    FOREIGN = "beside foreign load"


@dataclass(frozen=True, slots=True)
class Rate:
    """A mean progress in steps/s over `count` windows (or attempts), with their sample variance if there are two."""

    mean: float
    count: int
    variance: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Rate | None:
        """The rate over these values, one per window or attempt; None for no values, or when the mean is not above zero."""
        return _rate(len(values), math.fsum(values), math.fsum(value * value for value in values))

    @property
    def relative_variance(self) -> float | None:
        """The variance of the mean as a share of the mean's square; None from a single value."""
        return None if self.variance is None else self.variance / (self.count * self.mean * self.mean)


@dataclass(frozen=True, slots=True)
class Rates:
    """Progress of one attempt with no partner and with one, in steps/s; None where there was no whole window.

    `blinked`: progress while its partner was paused.
    """

    alone: Rate | None
    shared: Rate | None
    blinked: Rate | None = None

    @property
    def alone_rate(self) -> float | None:
        """Steps per second with no partner; of a job that never was without one, those with its partner paused."""
        alone = self.alone or self.blinked
        return None if alone is None else alone.mean

    @property
    def shared_rate(self) -> float | None:
        """Steps per second with a partner."""
        return None if self.shared is None else self.shared.mean


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Time together / time alone. `low` and `high` are the 95% interval, None when a side has a single window."""

    value: float
    low: float | None
    high: float | None
    basis: Basis

    @property
    def is_vague(self) -> bool:
        """Whether its interval spans so much that it hardly says anything, as after a few windows of which one had a pause."""
        return self.low is not None and self.high is not None and self.high > _VAGUE * self.low


def rates(measurement: Measurement, beside: Iterable[AttemptId] | None = None, *, foreign_load: bool = False) -> Rates:
    """The rates of an attempt; `beside` limits those beside partners, paused or not, to exactly this set of them.

    Windows beside considerable foreign load count only with `foreign_load`.
    """
    wanted = None if beside is None else frozenset(beside)
    segments = [segment for segment in measurement.segments if foreign_load or segment.is_own_rate]
    alone = [segment for segment in segments if not segment.partners]
    beside_them = [s for s in segments if s.partners and (wanted is None or frozenset(s.partners) == wanted)]
    shared = [segment for segment in beside_them if not segment.blink]
    blinked = [segment for segment in beside_them if segment.blink]
    return Rates(_pooled(alone), _pooled(shared), _ratio_of_sums(blinked))


def slowdown(
    measurement: Measurement, kind_alone: Rate | None = None, beside: Iterable[AttemptId] | None = None
) -> Slowdown | None:
    """What the partners cost this attempt; `kind_alone` is its kind's alone rate on the same type of device.

    By the best that there is, as `slowdowns` orders it. None without a shared window or without any alone rate.
    """
    return next(slowdowns(measurement, kind_alone, beside), None)


def slowdowns(
    measurement: Measurement, kind_alone: Rate | None = None, beside: Iterable[AttemptId] | None = None
) -> Iterator[Slowdown]:
    """The slowdown by each alone rate that there is, the best first.

    Blinks, then time alone within the attempt, each if it has two windows that agree; then the kind; then the others of these;
    last, the ratio with the windows beside foreign load, if there are such. No interval when either side has a single value.
    """
    partners = None if beside is None else tuple(beside)
    seen = rates(measurement, partners)
    yield from slowdowns_of(seen, kind_alone)
    every = rates(measurement, partners, foreign_load=True)
    alone = every.alone or every.blinked or kind_alone
    if every != seen and every.shared is not None and alone is not None:
        yield _slowdown(alone, every.shared, Basis.FOREIGN)


def slowdowns_of(seen: Rates, kind_alone: Rate | None = None) -> Iterator[Slowdown]:
    """As `slowdowns`, from rates that are known already and without the ratio beside foreign load."""
    if seen.shared is None:
        return
    sound: list[Slowdown] = []
    weak: list[Slowdown] = []
    for basis, alone in ((Basis.BLINK, seen.blinked), (Basis.WITHIN_ATTEMPT, seen.alone)):
        if alone is not None:
            found = _slowdown(alone, seen.shared, basis)
            (sound if alone.count >= 2 and not found.is_vague else weak).append(found)
    yield from sound
    if kind_alone is not None:
        yield _slowdown(kind_alone, seen.shared, Basis.KIND)
    yield from weak


def packing_saving(time_together: float, times_alone: Sequence[float]) -> float | None:
    """The share of time saved by running jobs together rather than one after the other; None when nothing ran alone.

    1 - time together / (sum of the times alone): 0.5 for two equal jobs that do not disturb each other, below 0 when
    packing cost more than it saved. All times in seconds.
    """
    total = math.fsum(times_alone)
    return 1 - time_together / total if total > 0 else None


def _pooled(segments: Sequence[Segment]) -> Rate | None:
    if not segments:
        return None
    return _rate(
        sum(segment.windows for segment in segments),
        math.fsum(segment.rate_sum for segment in segments),
        math.fsum(segment.rate_square_sum for segment in segments),
    )


def _ratio_of_sums(segments: Sequence[Segment]) -> Rate | None:
    windows = _pooled(segments)
    seconds = math.fsum(segment.seconds for segment in segments)
    if windows is None or seconds <= 0:
        return None
    return Rate(sum(segment.steps for segment in segments) / seconds, windows.count, windows.variance)


def _rate(count: int, total: float, square_total: float) -> Rate | None:
    if count < 1 or total < count * _SLOWEST:
        return None
    mean = total / count
    # The difference of two large sums may come out a hair below zero.
    variance = max(0.0, (square_total - total * mean) / (count - 1)) if count >= 2 else None
    return Rate(mean, count, variance)


def _slowdown(alone: Rate, shared: Rate, basis: Basis) -> Slowdown:
    value = alone.mean / shared.mean
    sides = (alone.relative_variance, alone.count), (shared.relative_variance, shared.count)
    known = [(variance, count) for variance, count in sides if variance is not None and count > 1]
    if len(known) < 2:
        return Slowdown(value, None, None, basis)
    spread = math.fsum(variance for variance, _ in known)
    if spread == 0:
        return Slowdown(value, value, value, basis)
    freedom = spread**2 / math.fsum(variance**2 / (count - 1) for variance, count in known)
    width = student_quantile(freedom) * math.sqrt(spread)
    if width > _WIDEST:
        return Slowdown(value, None, None, basis)
    return Slowdown(value, value / math.exp(width), value * math.exp(width), basis)


_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_NORMAL = 1.959964


def student_quantile(freedom: float) -> float:
    """Student's two-sided 95% quantile; the tabled value of the next lower whole number of degrees up to ten.

    Beyond ten by the expansion in 1/freedom (Abramowitz and Stegun, 26.7.5), right to three decimals.
    """
    if freedom <= len(_QUANTILES):
        return _QUANTILES[max(1, int(freedom)) - 1]
    z = _NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
