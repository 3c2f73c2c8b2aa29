"""The highest priority first, which waiting raises; among equals first come, first served.

The first that cannot start gets a reservation, which others may use until it is due. With `preemption`, preemptible jobs of a
lower priority are stopped for it, where that lets it start.
"""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import backfill, order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.preemption import for_priority
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with the settings' ageing and preemption."""
    first = order.priority_first(order.ARRIVAL, scheduling.ageing_s)
    return list_scheduler(first, backfill.easy, preemption=for_priority(scheduling.preemption))


SPEC = PolicySpec("the highest priority first, raised by waiting; can stop preemptible jobs", make)
