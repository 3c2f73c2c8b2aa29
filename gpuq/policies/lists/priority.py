"""The highest priority first, raised by waiting; first come, first served among equals; EASY backfilling.

With `preemption`, preemptible jobs of a lower priority are stopped where that lets a job start.
"""

from __future__ import annotations

from gpuq.policies.lists import backfill, order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.preemption import for_priority
from gpuq.policies.spec import PolicySpec

SPEC = PolicySpec(
    "the highest priority first, raised by waiting; can stop preemptible jobs",
    lambda scheduling: list_scheduler(
        order.priority_first(order.ARRIVAL, scheduling.ageing_s),
        backfill.easy,
        preemption=for_priority(scheduling),
    ),
)
