"""First come, first served, and nobody goes ahead of a job that cannot start yet: what task queues without forecasts do."""

from __future__ import annotations

from gpuq.core.policy import Policy
from gpuq.policies import backfill, order
from gpuq.policies.listed import listed
from gpuq.policies.recipe import Recipe
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:  # noqa: ARG001 - every policy is made like this
    """The policy."""
    return listed(order.ARRIVAL, backfill.strict)


RECIPE = Recipe("first come, first served, strictly", make)
