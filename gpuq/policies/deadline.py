"""The earliest deadline first; a job without one counts as due a week after its submission."""

from __future__ import annotations

from gpuq.core.policy import Policy
from gpuq.policies import order
from gpuq.policies.listed import listed
from gpuq.policies.recipe import Recipe
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:  # noqa: ARG001 - every policy is made like this
    """The policy."""
    return listed(order.DEADLINE)


RECIPE = Recipe("the earliest deadline first", make, work_conserving=True)
