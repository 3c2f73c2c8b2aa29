"""The cost of a pair as the core asks for it: measured on these two, else learned from other pairs, else by the law.

Each `PairCost` says what it rests on. A kind's slowdown beside another does not depend on which of the two came first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import mul
from statistics import fmean

import msgspec

from gpuq.core.state.forecast import LEARNED, MEASURED, PARTLY, RULE, PairCost
from gpuq.core.state.job import KindId
from gpuq.learn.history.history import History, MeasuredSlowdown
from gpuq.learn.interference.learned import LAW, Admission, Interference
from gpuq.learn.interference.profile import Profile
from gpuq.learn.interference.risk import Adaptation, Meeting, measured_risks, scaled
from gpuq.learn.statistics import REPEATED_RUN, Prior, predictive_bound

# Half the width of a 95% interval in standard deviations.
_HALF_WIDTH = 1.96
# A measured slowdown weighs half as much once so many newer ones of its pair were measured.
_HALF_LIFE = 4.0
_KEPT = 200_000
_EVIDENCE = (RULE, PARTLY, LEARNED)

Estimate = tuple[float | None, float | None, tuple[float, ...] | None]
"""(expected slowdown, its upper bound, the risk at each of `BUDGETS`)."""
AskedPair = tuple[Profile, Profile, str]
"""(newcomer, resident, place)."""
_UNKNOWN: Estimate = (None, None, None)


class PairCosts:
    """Costs of pairs, cached until something new is learned. Not for use by several threads."""

    def __init__(self, history: History, quantile: float) -> None:
        self._history = history
        self._quantile = quantile
        self._adaptation = Adaptation()
        self._version: str | None = None
        self._laws: dict[str, Interference] = {}
        self._parts: Mapping[str, Interference] = {}
        self._kept: dict[tuple[Profile, Profile, str], PairCost] = {}
        self._predicted: dict[tuple[Profile, Profile, str], Estimate] = {}

    def use(self, parts: Mapping[str, Interference], version: str | None = None) -> None:
        """Answer with these parts (place -> part) of this version of a model from now on."""
        self._parts, self._version = parts, version
        # The law, with what was found there of how often it is wrong.
        self._laws = {
            place: msgspec.structs.replace(LAW, admission=Admission.of(law=part.admission.by_law))
            for place, part in parts.items()
        }
        self._kept.clear()
        self._predicted.clear()

    def judge(self, place: str, version: str | None, meeting: Meeting) -> None:
        """Two kinds shared under this version, and this is what became of one of them."""
        self._adaptation.add(place, version, meeting)

    def forget(self) -> None:
        """Drop cached costs, after a pair was measured. Predictions of the model stay."""
        self._kept.clear()

    def knows(self, place: str) -> bool:
        """Whether slowdowns were measured in this place (type of device and way of sharing), or learned for it."""
        return place in self._parts or self._history.measured_pairs(place)

    def prepare(self, asked: Iterable[AskedPair]) -> None:
        """Predict all these (newcomer, resident, place) at once, both directions: far cheaper than one by one."""
        wanted: dict[str, dict[tuple[Profile, Profile], None]] = {}
        for newcomer, resident, place in asked:
            if (newcomer, resident, place) not in self._predicted:
                pairs = wanted.setdefault(place, {})
                pairs[newcomer, resident] = pairs[resident, newcomer] = None
        for place, pairs in wanted.items():
            # By what was learned where it reaches, else by the law, which needs both utilisations.
            learned, law = self._parts.get(place, LAW), self._laws.get(place, LAW)
            reached = [learned is not law and learned.reaches(*pair) for pair in pairs]
            self._predict(learned, [pair for pair, reaches in zip(pairs, reached, strict=True) if reaches], place)
            self._predict(law, [pair for pair, reaches in zip(pairs, reached, strict=True) if not reaches], place)

    def _predict(self, part: Interference, pairs: list[tuple[Profile, Profile]], place: str) -> None:
        if not pairs:
            return
        sides = [one for one, _ in pairs], [beside for _, beside in pairs]
        expected, upper = part.expect_many(*sides)
        answers = zip(expected.tolist(), upper.tolist(), part.risks(*sides, expected), strict=True)
        for (one, beside), answer in zip(pairs, answers, strict=True):
            loads = one.utilization_pct is not None and beside.utilization_pct is not None
            self._predicted[one, beside, place] = answer if loads or part.known(one, beside) else _UNKNOWN

    def cost(self, newcomer: Profile, resident: Profile, place: str, device_type: str) -> PairCost:
        """The slowdowns of one kind as newcomer beside another, and of the other as its resident.

        Measured values replace predicted ones, where there are any. Where only one direction was measured, the other keeps its
        prediction if both kinds were measured beside others, and is unknown otherwise: the measured direction contradicts a
        prediction that rests on less.
        """
        key = (newcomer, resident, place)
        if key in self._kept:
            return self._kept[key]
        if len(self._kept) >= _KEPT:
            self._kept.clear()
            self._predicted.clear()
        if key not in self._predicted:
            self.prepare([key])
        part = self._parts.get(place, LAW)
        # How many of the two were measured beside others, in pairs about as loaded as this one.
        known = part.known(newcomer, resident) if part.reaches(newcomer, resident) else 0
        evidence, predicted = _EVIDENCE[known], (self._predicted[key], self._predicted[resident, newcomer, place])
        both = ((newcomer.kind, resident.kind), (resident.kind, newcomer.kind))
        measured = [self._history.slowdowns(*pair, place) for pair in both]
        if not any(measured):
            kinds = (newcomer.kind, resident.kind)
            owners = {owner for kind in kinds if (owner := self._history.owner(kind, device_type)) is not None}
            factor = self._adaptation.factor(place, self._version, calibrated=part.admission.calibrated, owners=owners)
            found = [(expected, upper, risks and scaled(risks, factor)) for expected, upper, risks in predicted]
        else:
            repeated = self._history.repeated_meetings(place)
            found = [estimate(values, self._quantile, repeated) for values in measured]
            if evidence == LEARNED:
                found = [guess if seen == _UNKNOWN else seen for seen, guess in zip(found, predicted, strict=True)]
            evidence = MEASURED
        unsafe = self._history.unsafe(newcomer.kind, resident.kind, device_type)
        (mine, my_upper, my_risks), (theirs, their_upper, their_risks) = found
        self._kept[key] = PairCost(
            KindId(resident.kind), mine, my_upper, theirs, their_upper, unsafe=unsafe, evidence=evidence,
            risks=None if my_risks is None or their_risks is None else (my_risks, their_risks),
        )  # fmt: skip
        return self._kept[key]


def estimate(measured: Sequence[MeasuredSlowdown], quantile: float, repeated: Prior = REPEATED_RUN) -> Estimate:
    """From the measured slowdowns of a pair, oldest first: their median, the predictive bound with the intervals' own mean spread
    as prior, and how likely their mean is beyond each budget.

    For that, meetings differ as those of other pairs do (`repeated`) and as these did, but by no less than the error of one
    measurement, which for one without an interval is the spread of a repeated run. Newer ones weigh more: what an upgrade of the
    driver changed shows within two or three meetings.
    """
    if not measured:
        return _UNKNOWN
    values = [slowdown.value for slowdown in measured]
    errors = [
        math.log(each.high / each.value) / _HALF_WIDTH if each.high and each.high > each.value else REPEATED_RUN.scale
        for each in measured
    ]
    weights = [0.5 ** (age / _HALF_LIFE) for age in reversed(range(len(values)))]
    total = math.fsum(weights)
    mean = math.fsum(map(mul, weights, map(math.log, values))) / total
    # So many measurements of equal weight would say as much.
    count = total**2 / math.fsum(weight**2 for weight in weights)
    off = math.fsum(weight * (math.log(value) - mean) ** 2 for weight, value in zip(weights, values, strict=True))
    freedom = repeated.weight + count - 1
    between = math.sqrt((repeated.weight * repeated.scale**2 + off * count / total) / freedom)
    point = _median(values, weights)
    upper = max(point, predictive_bound(values, quantile, Prior(fmean(errors))))
    return point, upper, measured_risks(math.exp(mean), max(between, fmean(errors)) / math.sqrt(count), freedom)


def _median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The weighted median; the mean of the two in the middle where as much weight lies below as above."""
    ordered = sorted(zip(values, weights, strict=True))
    sums = list(accumulate(weight for _, weight in ordered))
    half = sums[-1] / 2
    place = next(place for place, reached in enumerate(sums) if reached >= half * (1 - 1e-9))
    both = place + 1 < len(ordered) and math.isclose(sums[place], half)
    return fmean((ordered[place][0], ordered[place + both][0]))


def shown_beyond(budget: float, value: float, low: float | None) -> bool:
    """Whether a measured slowdown exceeds the budget by more than its error: by its whole interval, and without one by as much
    as repeated runs differ."""
    return (low or value / math.exp(_HALF_WIDTH * REPEATED_RUN.scale)) > budget


def combined(costs: Sequence[PairCost]) -> tuple[float | None, float | None]:
    """The newcomer's (expected, upper) slowdown beside all of them, as a product. None if one is unknown, or for none."""
    points = [cost.newcomer for cost in costs if cost.newcomer is not None]
    uppers = [cost.newcomer_upper for cost in costs if cost.newcomer_upper is not None]
    return (
        math.prod(points) if costs and len(points) == len(costs) else None,
        math.prod(uppers) if costs and len(uppers) == len(costs) else None,
    )
