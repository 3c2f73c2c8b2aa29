"""The least device-time foretold first, with age counted in; priorities say nothing."""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import listed
from gpuq.policies.spec import Recipe
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with the settings' bound on overtaking."""
    return listed(order.shortest(scheduling.overtaking))


RECIPE = Recipe("the least device-time foretold first", make, work_conserving=True)
