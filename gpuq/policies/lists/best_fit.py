"""Best fit: first come, first served, each job on the devices with the least capacity left over.

Busy devices fill up, so that whole devices stay free for gangs.
"""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import order, placement
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with `ageing_s`."""
    return list_scheduler(order.priority_first(order.ARRIVAL, scheduling.ageing_s), placement=placement.best_fit)


SPEC = PolicySpec("each job on the devices with the least left over", make, work_conserving=True)
