"""The least predicted device-time first, bounded by age. Priorities are ignored."""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with the bound on overtaking."""
    return list_scheduler(order.shortest(scheduling.overtaking))


SPEC = PolicySpec("the least predicted device-time first", make, work_conserving=True)
