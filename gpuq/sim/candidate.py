"""What is simulated and compared: a policy, the limits that admission is held to, and what it makes of the forecasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Policy
from gpuq.core.state.job import Job
from gpuq.sim.forecaster import Forecaster


def _as_they_are(forecaster: Forecaster) -> Forecaster:
    return forecaster


def _as_it_is(job: Job) -> Job:
    return job


@dataclass(frozen=True)
class Candidate:
    """`wrap_forecaster` stands between the forecasts and the core: a rival that looks at less, or trusts more, is made there.

    `submit` is what its users have to say of a job beyond what the trace does, as that it may be stopped.
    """

    name: str
    policy: Policy
    limits: Limits = field(default_factory=Limits)
    wrap_forecaster: Callable[[Forecaster], Forecaster] = _as_they_are
    submit: Callable[[Job], Job] = _as_it_is
