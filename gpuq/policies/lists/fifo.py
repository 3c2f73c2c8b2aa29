"""First come, first served, and nobody goes ahead of a job that cannot start yet: what task queues without forecasts do."""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import backfill, order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:  # noqa: ARG001 - every policy is made like this
    """The policy."""
    return list_scheduler(order.ARRIVAL, backfill.strict)


SPEC = PolicySpec("first come, first served, strictly", make)
