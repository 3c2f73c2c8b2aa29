"""A candidate: what is simulated and compared, that is a policy, its limits, and what it makes of the forecasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Policy
from gpuq.core.state.job import Job
from gpuq.sim.forecaster import Forecaster

T = TypeVar("T")


def _unchanged(value: T) -> T:
    return value


@dataclass(frozen=True)
class Candidate:
    """A policy with its limits, under the name that reports show.

    `wrap_forecaster` may replace the forecaster, for example by one that uses fewer features, so that a rival needs no branch in
    the core. `submit` may change each job as it is submitted, for a queue whose users must say more than the trace does (for
    example that every job may be stopped).
    """

    name: str
    policy: Policy
    limits: Limits = field(default_factory=Limits)
    wrap_forecaster: Callable[[Forecaster], Forecaster] = _unchanged
    submit: Callable[[Job], Job] = _unchanged
