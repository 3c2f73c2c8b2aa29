"""Limits how much one kind or one owner counts, when it has far more attempts than the others.

Otherwise the user with the most jobs would decide what all forecasts are calibrated on. Of a group that is too large, evenly
spaced attempts stay, early and late alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
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
    limit = max(ALWAYS, _water_level(sorted(map(len, groups.values())), share))
    kept: list[int] = []
    for places in groups.values():
        # Evenly spaced, the last one included.
        few = min(len(places), limit)
        kept += [places[(i + 1) * len(places) // few - 1] for i in range(few)]
    return [items[place] for place in sorted(kept)]


def _water_level(ordered: Sequence[int], share: float) -> int:
    """The size that equals `share` of all items once every larger group is cut to it; `ordered` are the sizes, ascending."""
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
