"""The owner first who has used the devices least of late (half of it forgotten in a week); within an owner, first come."""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with the settings' ageing of priorities."""
    return list_scheduler(order.priority_first(order.FAIR_SHARE, scheduling.ageing_s))


SPEC = PolicySpec("who used the devices least of late goes first", make, work_conserving=True)
