"""The least device-time foretold first, with age counted in; priorities say nothing."""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with the settings' bound on overtaking."""
    return list_scheduler(order.shortest(scheduling.overtaking))


SPEC = PolicySpec("the least device-time foretold first", make, work_conserving=True)
