"""Rivals that give each job its devices exclusively."""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.job import Job
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.preemption import ByAttained, ByLeft, Preempting
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Oracle
from gpuq.sim.named import exclusive
from gpuq.sim.world import World

# An hour and ten hours of one device. Tiresias chose its thresholds by each trace's distribution of service (NSDI'19, 3.3);
# ours are fixed: about where Philly's jobs fall into three parts of like weight.
THRESHOLDS_S = (3_600.0, 36_000.0)


def preemptible(job: Job) -> Job:
    """The job as preemptible: rivals that stop jobs at will assume that every job saves its work."""
    return replace(job, preemptible=True)


def shortest_backfill(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every rival is made like this
    """Helios' QSSF (SC'21): the least predicted device-time first, others go ahead of what does not fit.

    It uses the same forecasts as gpuq here; theirs are a model of users and job names. Waiting time does not count.
    """
    return Candidate("exclusive-shortest-backfill", list_scheduler(order.least_left()), exclusive(limits))


def least_attained(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every rival is made like this
    """Tiresias (NSDI'19): the least served goes first and stops those of a lower queue; three queues, no forecast at all.

    Theirs chooses thresholds by trace and promotes starved jobs; here thresholds are `THRESHOLDS_S` and no job is promoted. A
    stopped job loses the world's `restart_s`.
    """
    stops = Preempting(lambda context: ByAttained(context, THRESHOLDS_S))
    policy = list_scheduler(order.least_attained(THRESHOLDS_S), preemption=stops)
    return Candidate("least-attained-preemptive", policy, exclusive(limits), submit=preemptible)


def shortest_remaining(world: World, limits: Limits) -> Candidate:
    """A bound, not a rival: the least device-time left first, by the true durations, and any job is stopped for a shorter
    one.
    """
    policy = list_scheduler(order.least_left(), preemption=Preempting(ByLeft))
    name = "oracle-shortest-remaining-first"
    return Candidate(name, policy, exclusive(limits), lambda _: Oracle(world), submit=preemptible)
