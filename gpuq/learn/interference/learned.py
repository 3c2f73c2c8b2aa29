"""What training found about slowdowns on one type of device with one way of sharing, as plain numbers; and its forecasts.

The law (see `law`) gives what utilisations alone imply; a Gaussian process over (kind a, kind b) is added to its logarithm:

    log s_ab = max(0, corner(law(u_a, u_b) + f_ab) + leak * f_ab),  f_ab = c + alpha_a + beta_b + gamma_ab

`leak` is 0 unless light pairs, of which the device could serve both at full speed, were clearly slowed too (by switches between
the two, for caches, for cores of the host); then it is the slope that their logs have in `f`, as of a leaky rectifier.

`alpha` is a kind's sensitivity, `beta` its pressure, and `gamma` what this pair has beyond both. A kind's terms are shrunk
towards those of similar kinds (model, batch size, utilisation, step time, memory, power), those of a kind unlike all others
towards 0, so that the law remains. The prior covariance of two directed pairs ab and cd, with the similarity k of kinds:

    s_c^2 + s_a^2 k(a,c) + s_b^2 k(b,d) + r s_a s_b (k(a,d) + k(b,c)) + s_g^2 k(a,c) k(b,d)
    k(a,c) = (1 - w) [a is c] + w exp(-1/2 sum over inputs of (distance / reach)^2)

`r` ties a kind's sensitivity to its pressure, and the product predicts pairs from pairs of similar kinds. (Rasmussen and
Williams 2006, sections 2.2 and 3.4; products of kernels over pairs: Basilico and Hofmann, 2004.) Given the training pairs and
their weights (one per measured directed pair), a forecast is linear in the similarities to measured kinds, so serving is a
few products of small matrices.

An upper bound is exp(log expected + factor * doubt). `doubt` grows with the distance to the nearest measured kind; the factor
is conformal (see `fit`), one per tier: both kinds measured beside others, one, neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from gpuq.learn.interference import risk
from gpuq.learn.interference.law import SHARPNESS, Floats, corner, slack
from gpuq.learn.interference.law import logs as law_logs
from gpuq.learn.interference.profile import Profile, SimilarityInput, distances, same_kind, utilizations
from gpuq.learn.interference.risk import RiskCalibration, Thresholds

Positive = Annotated[float, Meta(gt=0)]
# Standard deviation of the common level of slowdowns from the law: log 1.65.
COMMON = 0.5
# Bounds from measurements that contradict each other may be beyond what a float holds.
_MOST_LOG = 700.0
# How far beyond the load of measured pairs learned slowdowns are used, in percent of the device. Chosen by judgement, not fitted.
STEP_PCT = 10.0
# Inputs that are comparable between models. What a batch or a step is depends on the script: with those alone, a kind whose
# model was never measured counts as the average kind, and the forecast follows the other side of the pair.
CARRIES = ("utilization_pct", "memory_utilization_pct")


class Shape(msgspec.Struct, frozen=True):
    """The parameters of the covariance. Standard deviations are of log slowdown."""

    noise: Positive = 0.08
    sharpness: Positive = SHARPNESS
    sensitivity: Positive = 0.4
    pressure: Positive = 0.4
    tie: Annotated[float, Meta(ge=-1, le=1)] = 0.0
    alike: Annotated[float, Meta(ge=0, le=1)] = 0.9
    pair: Positive = 0.2
    inputs: tuple[SimilarityInput, ...] = msgspec.field(name="traits", default=())
    """What kinds are compared by. Stored as `traits`."""
    reaches: tuple[Positive, ...] = ()
    """One per input, in spreads: at this distance the similarity has fallen to 0.61."""
    leak: Annotated[float, Meta(ge=0)] = 0.0
    """How much of what was learned on top of the law counts where the device could serve both at full speed."""


class Factors(msgspec.Struct, frozen=True):
    """How many `doubt`s the upper bound is above the expected log, by how many of the two kinds were measured beside others.

    The defaults are used where there was too little to calibrate with.
    """

    both: Annotated[float, Meta(ge=0)] = 2.5
    one: Annotated[float, Meta(ge=0)] = 3.0
    neither: Annotated[float, Meta(ge=0)] = 3.0
    misfits: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Neither, one, both: the standard deviation, in logs, of what the form itself gets wrong, whatever is known of the kinds."""


class Tiers(msgspec.Struct, frozen=True):
    """Thresholds by how many of the two kinds were measured beside others. Of kinds that were not, models that were not show less
    than other sizes of models that were: `one_resized` and `neither_resized` are for pairs that have only the latter."""

    both: Thresholds = ()
    one: Thresholds = ()
    neither: Thresholds = ()
    law: Thresholds = ()
    """Of the law alone."""
    one_resized: Thresholds = ()
    neither_resized: Thresholds = ()


# By which `Interference` numbers what is known of a pair; `_RESIZED` more where all models were measured.
_TIERS = ("neither", "one", "both", "neither_resized", "one_resized")
_RESIZED = 3


class Admission(Tiers, frozen=True):
    """What admission was found to get wrong (see `risk`). Empty: not calibrated."""

    few: Tiers = Tiers()
    """At the budgets that too few pairs were left out for."""
    law_beside: Tiers = Tiers()
    """Of the law, at the budgets where there are thresholds of what was learned. Empty: the law does not count there."""

    @classmethod
    def of(cls, **found: RiskCalibration) -> Admission:
        """From a calibration for each field of `Tiers`, or some of them."""
        shown, few, beside = ({name: one[place] for name, one in found.items()} for place in range(3))
        return cls(**shown, few=Tiers(**few), law_beside=Tiers(**beside))

    @property
    def calibrated(self) -> bool:
        """Whether there were pairs enough to calibrate with, at any budget."""
        return any(limits for name in Tiers.__struct_fields__ for limits in getattr(self, name))

    @property
    def tiers(self) -> tuple[RiskCalibration, ...]:
        """In the order of `_TIERS`."""
        return tuple(map(self._calibration, _TIERS))

    @property
    def by_law(self) -> RiskCalibration:
        """Of the law alone."""
        return self._calibration("law")

    def _calibration(self, name: str) -> RiskCalibration:
        found = RiskCalibration(*(getattr(of, name) for of in (self, self.few, self.law_beside)))
        # A model of before 28 November was calibrated without these two.
        known = name.removesuffix("_resized")
        return found if any(found) or known == name else self._calibration(known)


class Interference(msgspec.Struct, frozen=True, dict=True):
    """The fitted part of a model. `pairs` holds (index of a, index of b, weight) for every measured directed pair."""

    kinds: tuple[Profile, ...]
    pairs: tuple[tuple[int, int, float], ...]
    shape: Shape = Shape()
    factors: Factors = Factors()
    admission: Admission = Admission()

    def expect_many(self, ones: Sequence[Profile], besides: Sequence[Profile]) -> tuple[Floats, Floats]:
        """(expected, upper) slowdown of each of `ones` beside the entry of `besides` at the same index."""
        logs, doubt = self.logs(ones, besides)
        of_tiers = np.array([self.factors.neither, self.factors.one, self.factors.both])
        levels = self._levels(ones, besides) % _RESIZED if self.kinds else np.zeros(len(ones), dtype=np.intp)
        width = of_tiers[levels] * np.hypot(doubt, np.array(self.factors.misfits)[levels])
        return np.exp(np.minimum(logs, _MOST_LOG)), np.exp(np.minimum(logs + width, _MOST_LOG))

    def risks(self, ones: Sequence[Profile], besides: Sequence[Profile], expected: Floats) -> list[tuple[float, ...]]:
        """For each of `ones` beside the entry of `besides` at the same index, the risk at each of `BUDGETS`; `expected` are the
        slowdowns that `expect_many` gave for them."""
        logs = np.log(expected)
        by_law = law_logs(utilizations(ones), utilizations(besides))
        if not self.kinds:
            return risk.risks(self.admission.tiers[0], self.admission.by_law, logs, by_law)
        levels = self._levels(ones, besides)
        found: list[tuple[float, ...]] = [()] * len(logs)
        for level, calibrated in enumerate(self.admission.tiers):
            places = np.flatnonzero(levels == level)
            if not len(places):
                continue
            for place, of_pair in zip(
                places.tolist(),
                risk.risks(calibrated, self.admission.by_law, logs[places], by_law[places]),
                strict=True,
            ):
                found[place] = of_pair
        return found

    def _levels(self, ones: Sequence[Profile], besides: Sequence[Profile]) -> np.ndarray:
        """The index in `_TIERS` of each of `ones` beside the entry of `besides` at the same index."""
        levels = []
        for pair in zip(ones, besides, strict=True):
            new = [kind.model for kind in pair if kind.kind not in self._measured_kinds]
            levels.append(2 - len(new) + (_RESIZED if new and self._models.issuperset(new) else 0))
        return np.array(levels, dtype=np.intp)

    def known(self, one: Profile, beside: Profile) -> int:
        """How many of the two kinds were measured beside others: 0, 1 or 2."""
        return (one.kind in self._measured_kinds) + (beside.kind in self._measured_kinds)

    def reaches(self, one: Profile, beside: Profile) -> bool:
        """Whether the measured pairs of these kinds were about as loaded as this one.

        A queue measures only the pairs that it admits, and those are the light ones: a kind that slowed no partner at a load
        of 80% is no evidence for 150%. So each step beyond what was measured is a small one. Where no utilisation is known,
        load is not limited.
        """
        if one.utilization_pct is None or beside.utilization_pct is None:
            return not any(self._heaviest.values())
        load = one.utilization_pct + beside.utilization_pct
        return all(self._heaviest.get(kind, load) >= load - STEP_PCT for kind in (one.kind, beside.kind))

    def logs(self, ones: Sequence[Profile], besides: Sequence[Profile]) -> tuple[Floats, Floats]:
        """(expected log slowdown, doubt) of each pair."""
        utilization_a, utilization_b = utilizations(ones), utilizations(besides)
        if not self.kinds:  # nothing was learned on top of the law, and most of the work would be about nothing
            shape = self.shape
            logs, slope = corner(slack(utilization_a, utilization_b), shape.sharpness)
            variance = shape.sensitivity**2 + shape.pressure**2 + shape.pair**2
            return logs, np.sqrt(shape.noise**2 + slope**2 * variance)
        kinds = list(dict.fromkeys((*ones, *besides)))
        index = {profile: i for i, profile in enumerate(kinds)}
        a = np.array([index[profile] for profile in ones], dtype=np.intp)
        b = np.array([index[profile] for profile in besides], dtype=np.intp)
        shape, weights, near = self.shape, self._weights, self.similarity(kinds)

        # What was learned on top of the law is linear in the weights of the measured pairs.
        rows, columns = weights.sum(axis=1), weights.sum(axis=0)
        tied = shape.tie * shape.sensitivity * shape.pressure
        sensitivity = near @ (shape.sensitivity**2 * rows + tied * columns)
        pressure = near @ (shape.pressure**2 * columns + tied * rows)
        # The sum over measured pairs i of k(a, a_i) w_i k(b, b_i).
        pair = np.einsum("ij,ij->i", (near @ weights)[a], near[b])
        added = COMMON**2 * weights.sum() + sensitivity[a] + pressure[b] + shape.pair**2 * pair
        logs, slope = response(slack(utilization_a, utilization_b), added, shape)

        # An approximation of the posterior variance that needs no matrix of pairs by pairs: as if the most similar measured kind
        # alone were known, and exactly, which leaves 1 - k^2 of the prior variance.
        nearest = near.max(axis=1, initial=0.0) ** 2
        left = (
            shape.sensitivity**2 * (1 - nearest[a])
            + shape.pressure**2 * (1 - nearest[b])
            + shape.pair**2 * (1 - nearest[a] * nearest[b])
        )
        # No pair is expected to be faster together than alone.
        return np.maximum(logs, 0.0), np.sqrt(shape.noise**2 + slope**2 * np.maximum(left, 0.0))

    def similarity(self, profiles: Sequence[Profile]) -> Floats:
        """k between each of these kinds and each measured one: [profile, measured kind].

        Where no input carries over to models that were never measured, such a kind counts as the average measured kind.
        """
        table = similarity(profiles, self.kinds, self.shape)
        if not self.kinds or any(each.name in CARRIES for each in self.shape.inputs):
            return table
        for place, one in enumerate(profiles):
            if one.kind not in self._measured_kinds and one.model not in self._models:
                table[place] = self._average
        return table

    @cached_property
    def _heaviest(self) -> dict[str, float]:
        """Kind -> the highest load (sum of utilisations, percent) of the pairs in which it was measured. A partner of unknown
        utilisation counts as 0."""
        found: dict[str, float] = {}
        for a, b, _ in self.pairs:
            one, beside = self.kinds[a], self.kinds[b]
            load = (one.utilization_pct or 0.0) + (beside.utilization_pct or 0.0)
            for kind in (one.kind, beside.kind):
                found[kind] = max(found.get(kind, 0.0), load)
        return found

    @cached_property
    def _measured_kinds(self) -> dict[str, int]:
        return {profile.kind: place for place, profile in enumerate(self.kinds)}

    @cached_property
    def _models(self) -> frozenset[str]:
        return frozenset(profile.model for profile in self.kinds if profile.model is not None)

    @cached_property
    def _average(self) -> Floats:
        """The similarities of the average measured kind."""
        return np.asarray(similarity(self.kinds, self.kinds, self.shape).mean(axis=0))

    @cached_property
    def _weights(self) -> Floats:
        table = np.zeros((len(self.kinds), len(self.kinds)))
        for a, b, weight in self.pairs:
            table[a, b] += weight
        return table


# The law alone. Its factor was set on the 216 directed pairs of `alnair_mps_pairs`: there the bound holds for 95% and is 1.9
# times the truth on average. It was not checked on other data.
LAW = Interference((), (), Shape(sensitivity=0.25, pressure=0.25, pair=0.1), Factors(neither=2.0))


def similarity(one: Sequence[Profile], other: Sequence[Profile], shape: Shape) -> Floats:
    """k between each of `one` and each of `other`; 1 for the same kind."""
    return blend(same_kind(one, other), distances(one, other, shape.inputs), shape)


def response(law: Floats, added: Floats, shape: Shape) -> tuple[Floats, Floats]:
    """(log slowdown, its slope in what was added) of pairs with this slack by the law. With a leak the log may be below 0."""
    logs, slope = corner(law + added, shape.sharpness)
    return logs + shape.leak * added, slope + shape.leak


def blend(same: Floats, far: Floats, shape: Shape) -> Floats:
    """k from whether two kinds are the same, and their squared distances in each input."""
    if not shape.inputs:
        return same
    near = np.exp(-0.5 * np.tensordot(1 / np.array(shape.reaches) ** 2, far, 1))
    return np.asarray(np.where(same > 0, 1.0, shape.alike * near))


def covariance(shape: Shape, kinds: Floats, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> Floats:
    """The prior covariance of pairs (a, b) with pairs (c, d); `kinds` is the similarity of all kinds to each other."""
    ac, bd = kinds[np.ix_(a, c)], kinds[np.ix_(b, d)]
    tied = shape.tie * shape.sensitivity * shape.pressure
    return np.asarray(
        COMMON**2
        + shape.sensitivity**2 * ac
        + shape.pressure**2 * bd
        + tied * (kinds[np.ix_(a, d)] + kinds[np.ix_(b, c)])
        + shape.pair**2 * ac * bd
    )
