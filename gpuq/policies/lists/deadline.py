"""Earliest deadline first. A job without a deadline counts as due `ageing_s` after it began to wait."""

from __future__ import annotations

from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec

SPEC = PolicySpec(
    "the earliest deadline first",
    lambda scheduling: list_scheduler(order.deadline(scheduling.ageing_s)),
    work_conserving=True,
)
