"""The earliest deadline first; a job without one counts as due `ageing_s` after its submission."""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import listed
from gpuq.policies.spec import Recipe
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with the settings' ageing."""
    return listed(order.deadline(scheduling.ageing_s))


RECIPE = Recipe("the earliest deadline first", make, work_conserving=True)
