"""Candidates by name.

packed                   the policy of that name, held to the settings
packed-exclusive         the same order and backfill, one job on a device
packed-exclusive-strict  the same order alone: a job that cannot start yet holds up all others
exclusive-fifo           a queue that shares nothing, as the baseline
others                   what packages add through `gpuq.sim.extensions`, as the laboratory its rivals and bounds
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Policy
from gpuq.errors import BadInput, GpuqError
from gpuq.policies import registry
from gpuq.policies.lists import backfill, order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.settings import Settings
from gpuq.sim import extensions
from gpuq.sim.candidate import Candidate
from gpuq.sim.world import World

BASELINE = "exclusive-fifo"
"""The usual queue, which shares nothing."""
_ALONE, _STRICT = "-exclusive", "-exclusive-strict"
# Parts of the default policy taken out one by one: for reports about gpuq itself, and of no use beside other queues.
_NOT_RIVALS = "ablations"


def candidate_named(name: str, settings: Settings, world: World) -> Candidate:
    """The candidate, held to these settings. Raises BadInput for an unknown name."""
    policies = registry.names()
    if name in policies:
        return Candidate(name, _policy(settings, policy=name), settings.admission)
    alone = replace(settings.admission, residents_per_device=1)
    if name.removesuffix(_STRICT) in policies:
        policy = _policy(settings, policy=name.removesuffix(_STRICT), backfill="strict")
        return Candidate(name, policy, alone)
    if name.removesuffix(_ALONE) in policies:
        return Candidate(name, _policy(settings, policy=name.removesuffix(_ALONE)), alone)
    others = _others()
    if name in others:
        return others[name](world, settings.admission)
    known = ", ".join(dict.fromkeys([*policies, *others]))
    raise BadInput(f"there is no policy or rival `{name}`.", fix=f"There are {known}; POLICY-exclusive shares nothing.")


def usual(policy: str) -> dict[str, str]:
    """The candidates that a policy is compared with by default, from the baseline step by step to the policy itself.

    Each name with what it adds to the one before.
    """
    if policy == registry.DEFAULT:
        steps = {policy + _STRICT: "order", policy + _ALONE: "backfill"}
    else:
        steps = {policy + _ALONE: "order and backfill"}
    return {BASELINE: "", **steps, policy: "sharing"}


def rivals() -> tuple[str, ...]:
    """The names of all rivals and bounds. Raises BadInput where no package adds any."""
    families = extensions.candidates()
    # The laboratory's rivals come first in tables and reports, its bounds after them.
    played = sorted(families.keys() - {_NOT_RIVALS}, key=lambda family: (family != "rivals", family))
    found = dict.fromkeys(name for family in played for name in families[family])
    if not found:
        raise BadInput("No rivals are installed.", fix=f"They come with the laboratory: {extensions.INSTALL}")
    return tuple(found)


def exclusive_fifo(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every candidate is made like this
    """task-spooler and pueue with one job per GPU: first come, first served; a job that cannot start yet holds up all
    others.
    """
    return Candidate(BASELINE, list_scheduler(order.ARRIVAL, backfill.strict), exclusive(limits))


def exclusive(limits: Limits) -> Limits:
    """One job on a device, and no device kept free for jobs that waited long: queues that share nothing do neither."""
    return replace(limits, residents_per_device=1, patience_s=inf)


def _others() -> Mapping[str, extensions.MakeCandidate]:
    added = extensions.candidates().values()
    return {BASELINE: exclusive_fifo, **{name: make for family in added for name, make in family.items()}}


def _policy(settings: Settings, **changes: str) -> Policy:
    scheduling = replace(settings.scheduling, **changes)  # type: ignore[arg-type]
    try:
        return registry.make(scheduling)
    except GpuqError:
        raise
    except Exception as error:
        raise BadInput(
            f"the policy `{scheduling.policy}` cannot be made: {type(error).__name__}: {error}.",
            fix="Correct its `make`, or choose another: `gpuq policy list`.",
        ) from error
