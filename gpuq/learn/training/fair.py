"""Limits how much one kind or one owner counts, when it has far more attempts than the others.

Otherwise the user with the most jobs would decide what all forecasts are calibrated on. Of a group that is too large, evenly
spaced attempts stay, early and late alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from gpuq.learn.history.outcome import Outcome

# The largest part of all counted attempts that one kind, and one owner, may be.
KIND_SHARE = 0.1
OWNER_SHARE = 0.25
# A group of up to this many is always counted whole.
ALWAYS = 16

T = TypeVar("T")


def fair(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes that count: within each owner's and each kind's share, in their order."""
    by_kind = within_share(outcomes, lambda outcome: outcome.kind, KIND_SHARE)
    return within_share(by_kind, lambda outcome: outcome.owner, OWNER_SHARE)


def within_share(items: Sequence[T], group_of: Callable[[T], Hashable], share: float) -> list[T]:
    """The items without what one group has beyond `share` of all that stay, in their order.

    With too few groups for that, the largest keeps no more than the second largest has. A group of up to `ALWAYS` items stays
    whole.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        groups[group_of(item)].append(place)
    limit = max(ALWAYS, _limit([len(places) for places in groups.values()], share))
    kept = sorted(place for places in groups.values() for place in _evenly(places, limit))
    return [items[place] for place in kept]


def _limit(counts: Iterable[int], share: float) -> int:
    """The most items that one group may keep, by water-filling.

    That is the level that equals `share` of all items once every group above it is cut to it.
    """
    ordered = sorted(counts)
    if len(ordered) * share <= 1:
        return ordered[-2] if len(ordered) > 1 else sum(ordered)
    below, level = 0, 0.0
    for place, count in enumerate(ordered):
        cut = len(ordered) - place
        # level = share * (below + cut * level), solved for level.
        level = share * below / (1 - share * cut) if share * cut < 1 else level
        if share * cut < 1 and level <= count:
            return int(level)
        below += count
    return ordered[-1]


def _evenly(places: Sequence[int], limit: int) -> list[int]:
    """`limit` of these indices, evenly spaced, the last one included."""
    if len(places) <= limit:
        return list(places)
    return [places[(i + 1) * len(places) // limit - 1] for i in range(limit)]
