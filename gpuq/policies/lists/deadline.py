"""Earliest deadline first. A job without a deadline counts as due `ageing_s` after its submission."""

from __future__ import annotations

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling


def make(scheduling: Scheduling) -> Policy:
    """The policy, with `ageing_s`."""
    return list_scheduler(order.deadline(scheduling.ageing_s))


SPEC = PolicySpec("the earliest deadline first", make, work_conserving=True)
