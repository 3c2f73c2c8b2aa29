"""Best fit: first come, first served, each job on the devices with the least capacity left over.

Busy devices fill up, so that whole devices stay free for gangs.
"""

from __future__ import annotations

from gpuq.policies.lists import order, placement
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec

SPEC = PolicySpec(
    "each job on the devices with the least left over",
    lambda scheduling: list_scheduler(
        order.priority_first(order.ARRIVAL, scheduling.ageing_s), placement=placement.best_fit
    ),
    work_conserving=True,
)
