"""First come, first served without backfilling: no job starts ahead of one that cannot start yet.

This is what task queues without forecasts do, and the baseline of the comparisons in docs/measurements/scheduling.md.
"""

from __future__ import annotations

from gpuq.policies.lists import backfill, order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec

SPEC = PolicySpec("first come, first served, strictly", lambda _: list_scheduler(order.ARRIVAL, backfill.strict))
