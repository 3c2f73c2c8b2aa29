"""So that nobody decides alone: which attempts count, when one kind or one owner has far more of them than the others.

Arrives: outcomes in any order. Leaves: as many of them, in the same order, as give no kind and no owner more than its
share. Of what is too much, evenly spaced ones stay: early and late alike. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from gpuq.learn.history.outcome import Outcome

# The largest part of all counted attempts that one kind, and one owner, may be.
KIND_SHARE = 0.1
OWNER_SHARE = 0.25
# So few say nothing about the rest and are always counted.
ALWAYS = 16

T = TypeVar("T")


def fair(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes that count: within each owner's and each kind's share."""
    by_kind = within_share(outcomes, lambda outcome: outcome.kind, KIND_SHARE)
    return within_share(by_kind, lambda outcome: outcome.owner, OWNER_SHARE)


def within_share(items: Sequence[T], group_of: Callable[[T], Hashable], share: float) -> list[T]:
    """At most `share` of what stays belongs to one group, unless there are too few groups for that: then the largest has no
    more than the second largest. A group of up to `ALWAYS` stays whole."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        groups[group_of(item)].append(place)
    limit = max(ALWAYS, _limit([len(places) for places in groups.values()], share))
    kept = sorted(place for places in groups.values() for place in _evenly(places, limit))
    return [items[place] for place in kept]


def _limit(counts: Iterable[int], share: float) -> int:
    """The most that one group may have.

    Water-filling: the level that is its share of what remains of all groups when those above it are cut to it.
    """
    ordered = sorted(counts)
    if len(ordered) * share <= 1:
        return ordered[-2] if len(ordered) > 1 else sum(ordered)
    below, level = 0, 0.0
    for place, count in enumerate(ordered):
        cut = len(ordered) - place
        # Solved for a level that is its share of itself, `cut` times, and of all below.
        level = share * below / (1 - share * cut) if share * cut < 1 else level
        if share * cut < 1 and level <= count:
            return int(level)
        below += count
    return ordered[-1]


def _evenly(places: Sequence[int], limit: int) -> list[int]:
    """`limit` of them, evenly spaced, the last one included."""
    if len(places) <= limit:
        return list(places)
    return [places[(i + 1) * len(places) // limit - 1] for i in range(limit)]
