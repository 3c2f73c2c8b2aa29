"""What a policy's module offers: how it is made, and what it claims, so that the conformance kit can hold it to that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuq.core.scheduling.policy import Policy
from gpuq.settings import Scheduling


@dataclass(frozen=True)
class PolicySpec:
    """One policy by its name in the entry points.

    `make` builds it from the settings and may raise `BadInput` with a fix, as where a library is missing. `work_conserving`: it
    leaves no device idle while a job waits that could have it. `starvation_free`: every job that fits starts some day, whatever
    else comes. `extra` names the optional dependencies that it needs.
    """

    summary: str
    make: Callable[[Scheduling], Policy]
    work_conserving: bool = False
    starvation_free: bool = True
    extra: str | None = None
