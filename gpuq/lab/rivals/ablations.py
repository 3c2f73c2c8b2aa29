"""The default policy with one part removed or replaced, so that a report can show what each part contributes."""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.scheduling.limits import Limits
from gpuq.lab.rivals.views import NeedsKnown, any_two, by_rule, memory_of
from gpuq.policies.lists.packed import make
from gpuq.settings import Scheduling
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Oracle
from gpuq.sim.world import World


def whole(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every candidate is made like this
    """The default policy itself."""
    return Candidate("packed", make(Scheduling()), limits)


def without_sharing(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every candidate is made like this
    """The same order and backfill, one job on a device."""
    return Candidate("packed-exclusive", make(Scheduling()), replace(limits, residents_per_device=1))


def needs_known(world: World, limits: Limits) -> Candidate:
    """All needs and pair costs known, durations learned: the most that sharing could add to this order.

    `oracle-packing` knows durations as well, so it has a better order too.
    """
    return Candidate("packed-needs-known", make(Scheduling()), limits, lambda under: NeedsKnown(under, Oracle(world)))


def for_saving(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every candidate is made like this
    """The objective `saving`: two share where that saves enough device time, however much it slows them."""
    return Candidate("packed-saving", make(Scheduling()), replace(limits, objective="saving"))


def blind(world: World, limits: Limits) -> Candidate:
    """The same order and backfill; two share wherever their true memory fits, whatever the slowdown."""
    own = replace(limits, memory_headroom=0.0, candidates_per_job=len(world.devices))
    wrap_forecaster = by_rule(any_two, memory_of(world))
    return Candidate("packed-blind", make(Scheduling()), own, wrap_forecaster)


def first_come(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every candidate is made like this
    """The same backfill and sharing, first come first served."""
    return Candidate("packed-arrival-order", make(Scheduling(order="arrival")), limits)


def strictly(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every candidate is made like this
    """The same order and sharing; a job that cannot start yet holds up all others."""
    return Candidate("packed-strict", make(Scheduling(backfill="strict")), limits)


def reserving(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every candidate is made like this
    """The same order and sharing; the first job that cannot start gets a reservation, gang or not."""
    return Candidate("packed-easy", make(Scheduling(backfill="easy")), limits)
