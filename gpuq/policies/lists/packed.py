"""The default policy.

Users who flood the queue come last, then the highest priority first, then the least predicted device-time, bounded by age. A job
gets an idle device if there is one, else the busy device with the highest rate of work. A job that cannot start yet is skipped;
the core reserves devices for one that has waited too long. Admission decides whether two jobs may share a device, by the
objective in the limits.

Without any forecast this is first come, first served.
"""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import backfill, order, placement
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.preemption import for_priority
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with `order`, `backfill`, `ageing_s` and `preemption`."""
    return list_scheduler(
        order.configured(scheduling),
        backfill.NAMED[scheduling.backfill],
        placement.packed,
        for_priority(scheduling),
    )


packed = make(Scheduling())

SPEC = PolicySpec("priority, then the shortest predicted; packs by what pairs cost; the default", make)
