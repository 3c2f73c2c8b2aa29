"""Contenders by name: every policy that is installed, each of them without sharing, the rivals, the bounds, the ablations.

packed                   the policy, held to the settings
packed-exclusive         the same order and backfill, one job on a device
packed-exclusive-strict  the same order alone: who cannot start yet holds up all others
exclusive-fifo, ...      `gpuq.lab.rivals`
"""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.scheduling.policy import Policy
from gpuq.errors import BadInput
from gpuq.lab.rivals import ABLATIONS, BOUNDS, RIVALS
from gpuq.policies import registry
from gpuq.settings import Settings
from gpuq.sim.candidate import Contender
from gpuq.sim.world import World

AS_WAS = "exclusive-fifo"
"""What most people run: a queue that shares nothing."""
_ALONE, _STRICT = "-exclusive", "-exclusive-strict"
_OTHERS = {**RIVALS, **BOUNDS, **ABLATIONS}


def contender_named(name: str, settings: Settings, world: World) -> Contender:
    """The contender, held to these settings. Raises BadInput for a name that nobody offers."""
    policies = registry.names()
    if name in policies:
        return Contender(name, _policy(settings, policy=name), settings.admission)
    alone = replace(settings.admission, residents_per_device=1)
    if name.removesuffix(_STRICT) in policies:
        policy = _policy(settings, policy=name.removesuffix(_STRICT), backfill="strict")
        return Contender(name, policy, alone)
    if name.removesuffix(_ALONE) in policies:
        return Contender(name, _policy(settings, policy=name.removesuffix(_ALONE)), alone)
    if name in _OTHERS:
        return _OTHERS[name](world, settings.admission)
    known = ", ".join(dict.fromkeys([*policies, *_OTHERS]))
    raise BadInput(f"there is no policy or rival `{name}`.", fix=f"There are {known}; POLICY-exclusive shares nothing.")


def usual(policy: str) -> dict[str, str]:
    """What a policy is compared with unless somebody asks for more: from a queue that shares nothing step by step to it. Names,
    and what each adds to the one before."""
    if policy == registry.DEFAULT:
        order = {policy + _STRICT: "order", policy + _ALONE: "backfill"}
    else:
        order = {policy + _ALONE: "order and backfill"}
    return {AS_WAS: "", **order, policy: "sharing"}


def rivals() -> tuple[str, ...]:
    """All rivals, and the bounds."""
    return (*RIVALS, *BOUNDS)


def _policy(settings: Settings, **changes: str) -> Policy:
    return registry.make(replace(settings.scheduling, **changes))  # type: ignore[arg-type]
