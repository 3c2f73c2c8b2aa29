"""The default policy: the highest priority first, then the least device-time foretold, with age counted in; an idle device
if there is one, else the shared one where most work gets done. What does not fit now is skipped, so that a job that cannot start
does not hold up one that can; the core keeps devices for who has waited too long. Whether two may share is admission's to say, by
the objective in the limits.

While nothing is foretold this is first come, first served.
"""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import backfill, order, placement
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.preemption import for_priority
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with the order and the backfill that the settings name."""
    return list_scheduler(
        order.priority_first(order.named(scheduling), scheduling.ageing_s),
        backfill.NAMED[scheduling.backfill],
        placement.packed,
        for_priority(scheduling.preemption),
    )


packed = make(Scheduling())

SPEC = PolicySpec("priority, then the shortest foretold; packs by what pairs cost; the default", make)
