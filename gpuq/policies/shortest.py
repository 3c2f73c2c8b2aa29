"""The least device-time foretold first, with age counted in; priorities say nothing."""

from __future__ import annotations

from gpuq.core.policy import Policy
from gpuq.policies import order
from gpuq.policies.listed import listed
from gpuq.policies.recipe import Recipe
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with the settings' bound on overtaking."""
    return listed(order.shortest(scheduling.overtaking))


RECIPE = Recipe("the least device-time foretold first", make, work_conserving=True)
