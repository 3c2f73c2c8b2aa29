"""How likely a pair exceeds its slowdown budget, found on pairs that were left out: the calibration of admission itself.

Bounds of single slowdowns promise nothing about the pairs that admission picks, since it picks those that look best. So the
decision is calibrated: of the left-out pairs that are expected to be slowed at most as much as this one, how many exceeded the
budget? With w of n, the risk is the upper end of the 90% Clopper and Pearson interval of w / n; the lowest over all such sets
that contain the pair, as a q-value is (Storey 2002). Admitting what has a risk of at most r is then a threshold on the expected
slowdown that is chosen by its own error among those admitted (Angelopoulos et al. 2021, "Learn then test"; there is one
threshold per budget, type of device, way of sharing, and tier of evidence). Both directions of a pair count as one, by the worse.

What was left out of a new model are models, and pairs of one model err alike: so the number of pairs is their effective one, and
pairs of fewer than five models, however many, show nothing of another.

The law has thresholds of its own, from all measured pairs, since it was fitted to none of them. At each budget a pair passes by
what was learned, by the law if it keeps its budget by what was learned, or, as two ways in admit more wrongly than one, by either
at half of the risk: by whichever of the three admits most of the left-out pairs at a risk of 10%. Where forecasts of new kinds
are poor that is the law, or such a kind would never be measured.

Where too few left-out pairs, or of too few models, were expected to keep a budget, something is assumed of it: of what was
learned, that the widest distance (of logs) between threshold and budget that other budgets need is enough there; of the law, that
a pair has a risk of 10% if it uses up half of its budget, which is the load rule at a sum of 100%, and half or double of that for
half or double the use; without utilisations nothing, once pairs were measured. What is assumed counts as as many pairs that kept
their budget as show that risk: what the few pairs say is added to them, and where it refutes the assumption, the assumption ends.
A pair may pass by either, by the law only if it is within its budget by what was learned.

`Adaptation` follows what became of admitted pairs, as adaptive conformal inference does (Gibbs and Candes 2021), and counts how
many more were shown to exceed their budget than `risk` allows. So its promise rests on nothing that was assumed of pairs: of
those that one calibration admits for the first time at most a share of `risk` and seven more are shown to exceed it. Then none is
admitted until known pairs, trials or a new calibration lead out of that.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence, Set
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from gpuq.core.state.forecast import BUDGETS
from gpuq.learn.interference.law import Floats
from gpuq.learn.statistics import student_quantile

LEVELS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)
"""The risks that are distinguished. A risk is rounded up to one of them."""
# With fewer, not even 0 of them show a risk of 10% with this confidence.
ENOUGH = 22
# Models, or kinds, that are left out. Of fewer, which err alike, no number of pairs shows what the next one does.
_LEAST_UNITS = 5
_CONFIDENCE = 0.9
# The risk of a pair that uses up its whole budget, where nothing was calibrated.
_WHOLE_BUDGET = 0.1
# A pair that exceeds a budget makes risks 1.6 times as large; it takes nine that do not to undo that at a risk of 10%.
_STEP = 0.5
# At the least factor a pair may use up all of its budget by the law; at the most, an eighth of the half.
_LEAST, _MOST = 0.5, 8.0
# Once so many more pairs than the risk allows were shown to exceed a budget, not even the surest are admitted: the factor passes
# its most. A pair near its budget that was measured beyond it by less than the measurement's error is no reason to admit none.
_MOST_EXCESS = 6.0
# So much of that one owner's pairs may use up for all others: at least three owners' pairs have to go wrong.
_OWNER_EXCESS = 1.5
# The part of the risk of pairs that share again, and are known by their measurements, that pairs never measured may use up.
_RESERVED = 0.05
_ASSUMED = LEVELS.index(_WHOLE_BUDGET)
_LOGS = np.log(BUDGETS)
# Of log slowdowns in thresholds, and of all that is compared with them: pairs that differ by less are one group.
_DECIMALS = 6
_LEVELS = np.array(LEVELS)
# Below every expected log slowdown: that of light pairs is 0 to `_DECIMALS`.
_NO_PAIR = -1.0
# How many pairs that keep a budget, and none that does not, show each of them.
_NEEDED = np.array(
    [1 if level >= 1 else math.ceil(math.log(1 - _CONFIDENCE) / math.log(1 - level)) for level in LEVELS]
)

Thresholds = tuple[tuple[float, ...], ...]
"""Per budget of `BUDGETS`: the highest expected log slowdown of a pair, per entry of `LEVELS`; `_NO_PAIR` where none has so low a
risk. Empty: not known."""


class LeftOutPairs(NamedTuple):
    """Pairs that were left out, or that nothing was fitted to, in the order of what was expected: logs of the worse slowdown of
    each. `members` says of which models or kinds each pair is, which err alike; None: pairs are independent."""

    expected: Floats
    measured: Floats
    members: Floats | None
    law: Floats
    """What the law expects; nan: it says nothing."""

    @classmethod
    def of(
        cls,
        expected: Sequence[float],
        measured: Sequence[float],
        units: Sequence[Set[Hashable]] | None = None,
        law: Sequence[float] | None = None,
    ) -> LeftOutPairs:
        """In any order. `units`: what was left out of each pair, one or two models or kinds."""
        rounded = np.array(expected, dtype=np.float64).round(_DECIMALS)
        order = np.argsort(rounded, kind="stable")
        members = None
        if units is not None and len(set(map(frozenset, units))) < len(units):
            index = list(dict.fromkeys(unit for of in units for unit in of))
            members = np.array([[unit in of for unit in index] for of in units], dtype=np.float64)[order]
        by_law = np.array([math.nan] * len(rounded) if law is None else law, dtype=np.float64).round(_DECIMALS)[order]
        return cls(rounded[order], np.array(measured, dtype=np.float64)[order], members, by_law)


class RiskCalibration(NamedTuple):
    """What left-out pairs show. `shown`: thresholds at the budgets that enough of them were expected to keep; `few`: at the
    others, of what is assumed there and what the few pairs say to it. `law`: thresholds of the law beside those that are
    shown."""

    shown: Thresholds = ()
    few: Thresholds = ()
    law: Thresholds = ()


def law_calibration(pairs: LeftOutPairs) -> RiskCalibration:
    """What measured pairs show of the law, which was fitted to none of them. Half of the budget is what is assumed of it."""
    if not len(pairs.expected):
        return RiskCalibration()
    limits = [(_enough(pairs, log), _threshold(pairs, log, _half(log))) for log in _LOGS]
    return RiskCalibration(
        tuple(found if enough else () for enough, found in limits),
        tuple(() if enough else found for enough, found in limits),
    )


def calibration(pairs: LeftOutPairs) -> RiskCalibration:
    """What these left-out pairs show of what was learned."""
    shown = tuple(_threshold(pairs, log) if _enough(pairs, log) else () for log in _LOGS)
    known = [log - np.maximum(limits, 0.0) for log, limits in zip(_LOGS, shown, strict=True) if limits]
    margins = np.max(known, axis=0) if known else np.full(len(LEVELS), np.inf)
    few = (() if limits else _threshold(pairs, log, log - margins) for log, limits in zip(_LOGS, shown, strict=True))
    return RiskCalibration(shown, tuple(few))


def _half(budget: float) -> Floats:
    """Per level, what a pair may use up of the budget where nothing was measured: half of it at a risk of 10%."""
    return np.asarray(np.minimum(_LEVELS / _WHOLE_BUDGET / 2, 1.0) * budget)


def _enough(pairs: LeftOutPairs, budget: float) -> bool:
    """Whether these pairs can show a risk of 10% at a budget: so many are expected to keep it, of so many models or kinds."""
    within = int(np.searchsorted(pairs.expected, round(budget, _DECIMALS), side="right"))
    several = pairs.members is None or int(pairs.members[:within].any(axis=0).sum()) >= _LEAST_UNITS
    return within >= ENOUGH and several


def _threshold(pairs: LeftOutPairs, budget: float, granted: Floats | None = None) -> tuple[float, ...]:
    """The thresholds at one budget. A pair expected beyond it never counts.

    `granted`: per level, up to which expected slowdown that risk is assumed; it counts as as many pairs that kept the budget as
    show that risk.
    """
    from scipy.special import betainc, betaincinv  # only when training

    limit = round(budget, _DECIMALS)
    within = int(np.searchsorted(pairs.expected, limit, side="right"))
    expected, exceeded = pairs.expected[:within], pairs.measured[:within] > budget
    effect, units = _design_effect(None if pairs.members is None else pairs.members[:within], exceeded)
    # A threshold admits all pairs that are expected to be slowed equally, or none of them. Where all of them may be admitted, no
    # pair shows that one nearer to the budget may not.
    upto = np.full(len(LEVELS), -1.0) if granted is None else np.minimum(granted, limit).round(_DECIMALS)
    points = np.unique(np.concatenate([expected, np.maximum(upto, 0.0), [limit]]))
    count = np.searchsorted(expected, points, side="right")
    wrong = np.append(0, np.cumsum(exceeded))[count]
    # Of fewer models than these, or of none, no share says what another one does.
    kept = np.where(units[count] >= _LEAST_UNITS, (count - wrong) / effect[count], 0.0)
    alpha = wrong / effect[count] + 1
    # The upper ends of the intervals of Clopper and Pearson.
    upper = np.where(kept > 0, betaincinv(alpha, np.maximum(kept, 1e-9), _CONFIDENCE), 1.0)
    low = upper <= _LEVELS[:, None]
    if granted is not None:
        near = int(np.searchsorted(points, upto.max(), side="right"))
        wrong, count, levels = wrong[:near], count[:near], _LEVELS[:, None]
        claimed = points[:near] <= upto[:, None]
        # What is assumed ends where these pairs refute it, be it those of a few models: of lighter pairs too, where those of
        # which 10% was assumed are shown to have more than twice that, since less was assumed of the lighter ones because of it.
        refuted, twice = (
            betainc(np.maximum(wrong, 1e-9), count - wrong + 1, share) < 1 - _CONFIDENCE
            for share in (levels, 2 * _WHOLE_BUDGET)
        )
        ended = refuted | (twice & claimed[_ASSUMED]).any()
        assumed = betainc(alpha[:near], kept[:near] + _NEEDED[:, None], levels) >= _CONFIDENCE
        low[:, :near] |= assumed & claimed & ~ended
    return tuple(float(points[found][-1]) if found.any() else _NO_PAIR for found in low)


def _design_effect(members: Floats | None, exceeded: np.ndarray) -> tuple[Floats, Floats]:
    """Of the first none, one, two ... of these pairs: by how much less they say than as many independent ones, at least 1; and
    how many units they are of. `members` says of which units each pair is.

    Variance of a ratio between clusters (Cochran 1977, section 9A.4); a pair of two units is in both, and its own square, which
    is then counted twice, is taken off once (Cameron, Gelbach and Miller 2011). Few units say little of that variance either, so
    that Student's quantile takes the place of the normal one (Korn and Graubard 1998).
    """
    if members is None:
        return np.ones(len(exceeded) + 1), np.full(len(exceeded) + 1, np.inf)
    wrong, count = np.cumsum(members * exceeded[:, None], axis=0), np.cumsum(members, axis=0)
    twice = members.sum(axis=1) - 1
    all_wrong, pairs = np.cumsum(exceeded), np.arange(1, len(exceeded) + 1)
    share = all_wrong / pairs
    own = np.cumsum(twice * exceeded) * (1 - 2 * share) + np.cumsum(twice) * share**2
    products = ((wrong**2).sum(axis=1), (wrong * count).sum(axis=1), (count**2).sum(axis=1))
    between = products[0] - 2 * share * products[1] + share**2 * products[2] - own
    units = (count > 0).sum(axis=1)
    independent = pairs * share * (1 - share)
    found = between * units / np.maximum(units - 1, 1) / np.where(independent > 0, independent, 1.0)
    widening = np.array([_few_units(int(count)) for count in units])
    effect = np.where(independent > 0, np.maximum(found, 1.0), 1.0) * widening
    return np.append(1.0, effect), np.append(0, units)


@lru_cache
def _few_units(units: int) -> float:
    """The square of Student's quantile over the normal one."""
    normal = student_quantile(_CONFIDENCE, math.inf)
    return float((student_quantile(_CONFIDENCE, max(1, units - 1)) / normal) ** 2)


def strictest(found: Sequence[RiskCalibration]) -> RiskCalibration:
    """Of several calibrations the lower threshold of each level. What one of them cannot show is not shown."""
    shown, few = [], []
    for place in range(len(BUDGETS)):
        lowest = tuple(map(min, zip(*(one.shown[place] or one.few[place] for one in found), strict=True)))
        enough = all(one.shown[place] for one in found)
        shown.append(lowest if enough else ())
        few.append(() if enough else lowest)
    return RiskCalibration(tuple(shown), tuple(few))


def with_law(learned: RiskCalibration, of_law: RiskCalibration, left_out: LeftOutPairs) -> RiskCalibration:
    """What was learned and the law together, at the budgets where left-out pairs show how good forecasts are: the one, the other,
    or either at half of its risk, whichever admits most of these pairs at a risk of 10%."""
    shown, law = [], []
    for place, budget in enumerate(_LOGS):
        own, other = (each[place] if each else () for each in (learned.shown, _known(of_law)))
        if own and other:
            ways = [(own, ()), ((_NO_PAIR,) * len(LEVELS), other), (_half_risk(own), _half_risk(other))]
            own, other = max(ways, key=lambda way: _admitted(left_out, way, budget))
        shown.append(own)
        law.append(other if own else ())
    return RiskCalibration(tuple(shown), learned.few, tuple(law))


def _half_risk(limits: tuple[float, ...]) -> tuple[float, ...]:
    """Each level's threshold the one of half of its risk."""
    places = (np.searchsorted(_LEVELS, _LEVELS / 2 + 1e-9, side="right") - 1).tolist()
    return tuple(limits[place] if place >= 0 else _NO_PAIR for place in places)


def _admitted(pairs: LeftOutPairs, limits: tuple[tuple[float, ...], tuple[float, ...]], budget: float) -> int:
    """How many of these pairs have a risk of at most 10% by these thresholds, of what was learned and of the law."""
    shown, law = limits
    yes = pairs.expected <= shown[_ASSUMED]
    if law:
        yes |= (pairs.law <= law[_ASSUMED]) & (pairs.expected <= round(budget, _DECIMALS))
    return int(yes.sum())


def risks(
    calibrated: RiskCalibration, of_law: RiskCalibration, expected: Floats, law: Floats
) -> list[tuple[float, ...]]:
    """For each direction its risk at each of `BUDGETS`, from the expected log slowdown, and the law's (nan: unknown)."""
    levels = _assumed(expected, law)
    expected, law, budgets = (np.round(logs, _DECIMALS) for logs in (expected, law, _LOGS))
    highest = np.full(len(law), len(LEVELS) - 1)
    for place, budget in enumerate(budgets):
        shown, few, beside, alone = (each[place] if each else () for each in (*calibrated, _known(of_law)))
        if shown:
            found = _by_law(beside, expected, law, float(budget), highest)
        else:
            # Of a pair without utilisations nothing is assumed once pairs could be left out.
            otherwise = np.where(np.isnan(law) & bool(few), highest, levels[:, place])
            found = _by_law(alone, expected, law, float(budget), otherwise)
        if learned := shown or few:
            found = np.minimum(found, np.searchsorted(np.array(learned), expected))
        levels[:, place] = found
    return [_shared(row) for row in map(tuple, np.minimum(levels, len(LEVELS) - 1).tolist())]


def _known(found: RiskCalibration) -> Thresholds:
    # Models of before there were any have no thresholds for few pairs.
    return tuple(limits or few for limits, few in zip_longest(found.shown, found.few, fillvalue=()))


def _assumed(expected: Floats, law: Floats) -> np.ndarray:
    """The level of each direction at each budget where nothing was calibrated."""
    used = np.where(np.isnan(law), 2 * expected, np.maximum(expected, 2 * law))
    return np.searchsorted(_LEVELS, _WHOLE_BUDGET * (used[:, None] / _LOGS) - 1e-9)


def _by_law(
    limits: tuple[float, ...], expected: Floats, law: Floats, budget: float, otherwise: np.ndarray
) -> np.ndarray:
    """The level of each direction by the law, if what was learned is within the budget; `otherwise` where it says nothing."""
    if not limits:
        return otherwise
    found = np.where(expected > budget, len(LEVELS) - 1, np.searchsorted(np.array(limits), law))
    return np.where(np.isnan(law), otherwise, found)


@lru_cache(maxsize=8192)
def _shared(levels: tuple[int, ...]) -> tuple[float, ...]:
    """One tuple for all pairs of the same risks: there are many pairs."""
    return tuple(LEVELS[level] for level in levels)


def measured_risks(expected: float, spread: float, freedom: float) -> tuple[float, ...]:
    """The risks of a measured slowdown, whose logarithm has this standard error, known with so many degrees of freedom."""
    # The highest mean that has at most each risk lies so far below the budget.
    margins = [student_quantile(1 - level, freedom) * spread for level in LEVELS[:-1]]
    reached = math.log(expected) + np.array(margins)
    return tuple(LEVELS[int((reached > log).sum())] for log in _LOGS)


@lru_cache(maxsize=8192)
def scaled(risks: tuple[float, ...], factor: float) -> tuple[float, ...]:
    """The risks times this factor, at most 1."""
    return risks if factor == 1 else tuple(min(1.0, round(risk * factor, 4)) for risk in risks)


class Meeting(NamedTuple):
    """What became of one direction of a pair of kinds that shared. At most a share of `risk` of pairs should exceed a budget."""

    pair: frozenset[str]
    exceeded: bool
    risk: float
    first: bool = True
    """Whether it was never measured before; else its measurements were known."""
    shown: bool = True
    """Whether it exceeded by more than the error of the measurement."""
    owner: str | None = None
    """Whose attempt it was; None: not known."""


class Adaptation:
    """How much more often pairs exceeded a budget than their risk said, by place and version of the model. Not for use by
    several threads.

    It depends on the attempts and their order only, so a restart rebuilds it. A new model that was calibrated was so with those
    attempts, and begins at 1. Where it was not, the same assumptions go on, and so does the factor.

    Each owner has a factor too, for pairs of the owner's kinds. What exceeds beyond an owner's share of the excess raises that
    one only, where there are others: the kinds of one owner do not stop the sharing of all.
    """

    def __init__(self) -> None:
        # (place, owner or None for all, version) -> the log of the factor, and how many more pairs were shown to exceed a budget
        # than the risk allows; without a version: over all of them.
        self._states: dict[tuple[str | None, ...], tuple[float, float]] = {}
        # Place -> the owners of what shared there.
        self._owners: dict[str, set[str | None]] = {}
        # (key of a state, pair, whether it was shown beyond the error of its measurement) of the pairs that exceeded a budget.
        self._wrong: set[tuple[tuple[str | None, ...], frozenset[str], bool]] = set()

    def add(self, place: str, version: str | None, meeting: Meeting) -> None:
        """One direction of a pair. At most a share of its risk should exceed, in either direction or both: that counts once."""
        pair, exceeded, _, first, shown, owner = meeting
        owners = self._owners.setdefault(place, set())
        owners.add(owner)
        for of_version in ((version,), ()):
            used = self._states.get((place, owner, *of_version), (0.0, 0.0))[1]
            beyond_share = owner is not None and len(owners) > 1 and used > _OWNER_EXCESS
            for whose in {None, owner}:
                key = place, whose, *of_version
                found = {
                    (key, pair, by_more) for by_more in (False, True) if exceeded and first and (shown or not by_more)
                }
                new = found - self._wrong
                # Not yet counted for all, so that it is if the pair is beyond the budget of the other one's owner too.
                if not (whose is None and new and beyond_share):
                    self._wrong |= new
                    self._count(key, (key, pair, False) in new, (key, pair, True) in new, meeting)

    def _count(self, key: tuple[str | None, ...], wrong: bool, shown_wrong: bool, meeting: Meeting) -> None:
        log, excess = self._states.get(key, (0.0, 0.0))
        risk = meeting.risk
        if meeting.first:
            # Each of the two directions has half of the risk.
            log = min(math.log(_MOST), max(math.log(_LEAST), log + _STEP * (wrong - risk / 2)))
            excess = max(0.0, excess + shown_wrong - risk / 2)
        elif not meeting.exceeded:
            # What is left of the risk of known pairs is spent on new ones, or a state that admits none would stay for ever.
            excess = max(0.0, excess - _RESERVED * risk / 2)
        self._states[key] = log, excess

    def factor(self, place: str, version: str | None, *, calibrated: bool, owners: Collection[str] = ()) -> float:
        """What risks are multiplied by in this place under this version, which was calibrated there or was not, for a pair of
        these owners' kinds."""
        of_version = (version,) if calibrated else ()
        return max(self._factor((place, whose, *of_version)) for whose in (None, *owners))

    def _factor(self, key: tuple[str | None, ...]) -> float:
        log, excess = self._states.get(key, (0.0, 0.0))
        if excess > _MOST_EXCESS:
            log = math.log(_MOST) + _STEP * (1 + excess - _MOST_EXCESS)
        return round(math.exp(log), 3)
