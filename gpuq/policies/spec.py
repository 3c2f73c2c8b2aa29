"""The object that a policy's entry point names: how to make the policy, and what it claims.

The conformance kit (`gpuq.lab.sim.conformance`) tests a policy against its claims.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuq.core.scheduling.policy import Policy
from gpuq.settings import Scheduling


@dataclass(frozen=True)
class PolicySpec:
    """A policy that an entry point offers.

    `make` builds the policy from the settings. It returns a new object at each call, because a policy may keep state between
    passes, and may raise `BadInput` with a fix, for example where an optional library is missing. `work_conserving`: no device
    stays idle while a waiting job could use it. `starvation_free`: every job that fits starts some day, whatever is submitted
    after it. `extra` names the optional dependencies (`gpuq-daemon[extra]`) that the policy needs.
    """

    summary: str
    make: Callable[[Scheduling], Policy]
    work_conserving: bool = False
    starvation_free: bool = True
    extra: str | None = None
