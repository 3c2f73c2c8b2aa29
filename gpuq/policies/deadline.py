"""The earliest deadline first; a job without one counts as due `ageing_s` after its submission."""

from __future__ import annotations

from gpuq.core.policy import Policy
from gpuq.policies import order
from gpuq.policies.listed import listed
from gpuq.policies.recipe import Recipe
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with the settings' ageing."""
    return listed(order.deadline(scheduling.ageing_s))


RECIPE = Recipe("the earliest deadline first", make, work_conserving=True)
