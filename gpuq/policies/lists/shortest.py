"""The least predicted device-time first, bounded by age. Priorities are ignored."""

from __future__ import annotations

from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec

SPEC = PolicySpec(
    "the least predicted device-time first",
    lambda scheduling: list_scheduler(order.shortest(scheduling.overtaking)),
    work_conserving=True,
)
