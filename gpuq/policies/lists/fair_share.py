"""Fair share: the owner with the least recent use of devices first; first come, first served among the jobs of an owner.

Use decays with a half-life of a week.
"""

from __future__ import annotations

from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec

SPEC = PolicySpec(
    "the owner with the least recent use of devices first",
    lambda scheduling: list_scheduler(order.priority_first(order.FAIR_SHARE, scheduling.ageing_s)),
    work_conserving=True,
)
