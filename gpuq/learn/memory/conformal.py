"""How far above a forecast its upper bound must be, so that 95% means 95% for work of a kind never seen.

The input are residuals: measured values beside forecasts made *without* that row's group (kind or model), as `held_out`
splits them. The result is a `Margin` per tier of evidence; `margin.over(point)` is the bound. How the forecasts were made
does not matter. The same residuals in any order give the same margin.

The rule is conformal prediction for rows in groups (pooled distribution functions: Dunn, Wasserman and Ramdas,
arXiv:1809.07441; Lee, Barber and Willett, arXiv:2306.06342). Rows of one group are correlated, so each group has one vote,
shared by its rows; the new group has one as well, at infinity. The margin is the smallest residual with at least `quantile`
of the votes at or under it. For exchangeable groups it holds with that probability, whatever the distribution and the number
of rows per group.

- Two scales: "added" (truth - point, for percentages of a device) and "times" (log of truth / point, for bytes and seconds,
  where a forecast is off in proportion). Either may be divided by a `spread` known beforehand, larger where the forecast is
  less certain.
- Fewer than quantile / (1 - quantile) votes (19 for 95%) give no finite margin. The bound is then that of Student's t with a
  prior on the scale, as in `statistics`, and no smaller than the quantile of what was seen: few votes widen it.
- One owner with very many kinds does not decide all bounds: no owner has more than a quarter of the votes (an equal
  share where there are fewer than four; five votes are always allowed). Votes taken away are lost, so a flood widens a bound.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from gpuq.learn.statistics import Prior, student_quantile

Scale = Literal["added", "times"]
MOST_OF_ONE_OWNER = 0.25
LEAST_OF_ONE_OWNER = 5.0
# The log of a ratio needs both above zero: one byte, one hundredth of a percent.
_SMALLEST = 0.01
# A limit before the exponential, which might overflow: e^20 is a factor of 500 million.
_LARGEST = 20.0


@dataclass(frozen=True, slots=True)
class Residual:
    """A measured value, and the forecast of it that was made without its group.

    `spread` is the forecast's uncertainty in any unit that is the same for all rows. `owner` is None where it is unknown or
    does not matter.
    """

    group: str
    truth: float
    point: float
    spread: float = 1.0
    owner: str | None = None


class Margin(msgspec.Struct, frozen=True, kw_only=True):
    """What is put on top of a forecast. Made by `margin`."""

    scale: Scale
    amount: float
    """Added, or the log of the factor, per unit of spread; never below 0, so a bound is never below its point."""
    quantile: float
    votes: float
    """Groups that it rests on, after the owners' caps."""
    rows: int

    def over(self, point: float, spread: float = 1.0, most: float = math.inf) -> float:
        """The upper bound of this forecast, in its own unit; at most `most` (100 for a percentage)."""
        reach = self.amount * spread
        bound = point + reach if self.scale == "added" else max(point, _SMALLEST) * math.exp(min(reach, _LARGEST))
        return min(bound, max(most, point))


def margin(residuals: Iterable[Residual], quantile: float, scale: Scale, prior: Prior) -> Margin:
    """The margin that bounds the next group's rows with probability `quantile`.

    `prior` is the expected scale of a residual (points for "added", logs for "times") and the number of groups that this
    counts for. Without residuals it decides alone. Residuals that are not finite are left out.
    """
    known = [(residual, value) for residual in residuals if math.isfinite(value := _size(residual, scale))]
    votes = _votes([residual for residual, _ in known])
    weighed = sorted(zip((value for _, value in known), votes, strict=True))
    total = math.fsum(votes)
    needed = quantile * (total + 1.0)
    if needed <= total:
        amount = _weighted_quantile(weighed, needed)
    else:
        # Student's t bound of the next value. The prior of the mean is one vote for no bias, that of the scale is `prior`.
        mean = math.fsum(value * vote for value, vote in weighed) / (total + 1.0)
        squares = mean**2 + math.fsum(vote * (value - mean) ** 2 for value, vote in weighed)
        freedom = prior.weight + total
        deviation = math.sqrt((prior.weight * prior.scale**2 + squares) / freedom)
        amount = mean + student_quantile(quantile, freedom) * deviation * math.sqrt(1.0 + 1.0 / (total + 1.0))
        if weighed:
            amount = max(amount, _weighted_quantile(weighed, quantile * total))
    return Margin(
        scale=scale, amount=round(max(0.0, amount), 6), quantile=quantile, votes=round(total, 6), rows=len(known)
    )


def margins(
    tiers: Mapping[str, Sequence[Residual]], quantile: float, scale: Scale, priors: Mapping[str, Prior]
) -> dict[str, Margin]:
    """A margin for each tier that has a prior, from that tier's residuals alone.

    A tier without residuals gets the margin of its prior: an untested bound must be wide, and not that of a surer tier.
    """
    return {tier: margin(tiers.get(tier, ()), quantile, scale, prior) for tier, prior in priors.items()}


def held_out(groups: Sequence[str]) -> Iterator[tuple[list[int], list[int]]]:
    """(indices to fit on, indices to predict), once per group, groups sorted by name. Nothing for a single group."""
    names = sorted(set(groups))
    for name in names if len(names) > 1 else ():
        yield (
            [place for place, group in enumerate(groups) if group != name],
            [place for place, group in enumerate(groups) if group == name],
        )


def _size(residual: Residual, scale: Scale) -> float:
    """The residual in units of its spread; nan where a part of it is not finite."""
    truth, point, spread = residual.truth, residual.point, residual.spread
    if not (math.isfinite(truth) and math.isfinite(point) and 0 < spread < math.inf):
        return math.nan
    if scale == "added":
        return (truth - point) / spread
    return (math.log(max(truth, _SMALLEST)) - math.log(max(point, _SMALLEST))) / spread


def _votes(residuals: Sequence[Residual]) -> list[float]:
    """The weight of each residual: one vote per group, split among its rows, scaled down by its owner's cap."""
    rows = Counter(residual.group for residual in residuals)
    votes = [1.0 / rows[residual.group] for residual in residuals]
    owned: dict[str, float] = defaultdict(float)
    for residual, vote in zip(residuals, votes, strict=True):
        if residual.owner is not None:
            owned[residual.owner] += vote
    free = math.fsum(vote for residual, vote in zip(residuals, votes, strict=True) if residual.owner is None)
    share = max(MOST_OF_ONE_OWNER, 0.0 if free or not owned else 1.0 / len(owned))
    # The cap L solves L = share * (free + sum of min(owned, L)): try it with none, one, two ... of the largest owners at the cap.
    most = LEAST_OF_ONE_OWNER
    ordered = sorted(owned.values(), reverse=True)
    for capped, largest_left in enumerate(ordered):
        limit = share * (free + math.fsum(ordered[capped:])) / (1.0 - share * capped) * (1.0 + 1e-9)
        if largest_left <= limit:
            most = max(limit, LEAST_OF_ONE_OWNER)
            break
    kept = {owner: min(1.0, most / amount) for owner, amount in owned.items()}
    return [vote * kept.get(residual.owner or "", 1.0) for residual, vote in zip(residuals, votes, strict=True)]


def _weighted_quantile(weighed: Sequence[tuple[float, float]], needed: float) -> float:
    """The smallest value with at least `needed` votes at or under it; the largest where rounding leaves none."""
    cast = 0.0
    for value, vote in weighed:
        cast += vote
        # Votes are fractions, whose binary sums are off by rounding.
        if cast >= needed - 1e-9:
            return value
    return weighed[-1][0]
