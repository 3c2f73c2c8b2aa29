"""First come, first served, each where it leaves the least over: full devices fill up, whole ones stay free for gangs."""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import order, placement
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with the settings' ageing of priorities."""
    return list_scheduler(order.priority_first(order.ARRIVAL, scheduling.ageing_s), placement=placement.best_fit)


SPEC = PolicySpec("greedy: each job where it leaves the least over", make, work_conserving=True)
