"""Rivals that give each job its devices exclusively."""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Attempt, served_s
from gpuq.core.state.job import Job
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.order import QueueOrder, Rank, Ranking
from gpuq.policies.lists.preemption import preempting
from gpuq.policies.lists.size import Sizes
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


def least_left() -> QueueOrder:
    """The least remaining device-time first, without regard to age.

    An upper bound for what an order can achieve; long jobs may starve.
    """

    def ranking(context: SchedulingContext) -> Ranking:
        sizes = Sizes(context)
        return lambda job: (sizes.remaining_or_median(job), job.submitted_at)

    return QueueOrder(ranking, first_come=False)


def least_attained_order(thresholds_s: tuple[float, ...]) -> QueueOrder:
    """Discretised least attained service of Tiresias (Gu et al., NSDI'19): a job's level is the number of thresholds, in
    device-seconds, that its service has passed; the lowest level first, then first come, first served. Needs no forecast."""

    def ranking(context: SchedulingContext) -> Ranking:  # noqa: ARG001 - the signature of `ranking`
        return lambda job: (_level(job.served_s, thresholds_s), job.submitted_at)

    return QueueOrder(ranking, first_come=False)


def _level(served_s: float, thresholds_s: tuple[float, ...]) -> int:
    return sum(served_s >= threshold for threshold in thresholds_s)


class ByAttained:
    """Rank by the level of attained service, as in `least_attained_order`."""

    def __init__(self, context: SchedulingContext, thresholds_s: tuple[float, ...]) -> None:
        self._context, self._thresholds = context, thresholds_s

    def waiting(self, job: Job) -> Rank:
        """The number of thresholds passed by earlier attempts."""
        return (_level(job.served_s, self._thresholds),)

    def running(self, attempt: Attempt) -> Rank:
        """The number of thresholds passed by now, with the time of this attempt."""
        job = self._context.state.jobs[attempt.id.job]
        return (_level(job.served_s + served_s(attempt, self._context.now), self._thresholds),)


class ByLeft:
    """Rank by predicted remaining device-time. A job without a forecast stops no other, and no other stops it."""

    def __init__(self, context: SchedulingContext) -> None:
        self._sizes = Sizes(context)

    def waiting(self, job: Job) -> Rank:
        """Device-seconds left, infinite without a forecast."""
        remaining = self._sizes.remaining(job)
        return (float("inf") if remaining is None else remaining,)

    def running(self, attempt: Attempt) -> Rank:
        """Device-seconds left by now, 0 without a forecast."""
        remaining = self._sizes.remaining_of_attempt(attempt)
        return (0.0 if remaining is None else remaining,)


def shortest_backfill(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every rival is made like this
    """Helios' QSSF (SC'21): the least predicted device-time first, others go ahead of what does not fit.

    It uses the same forecasts as gpuq here; theirs are a model of users and job names. Waiting time does not count.
    """
    return Candidate("exclusive-shortest-backfill", list_scheduler(least_left()), exclusive(limits))


def least_attained(world: World, limits: Limits) -> Candidate:  # noqa: ARG001 - every rival is made like this
    """Tiresias (NSDI'19): the least served goes first and stops those of a lower queue; three queues, no forecast at all.

    Theirs chooses thresholds by trace and promotes starved jobs; here thresholds are `THRESHOLDS_S` and no job is promoted. A
    stopped job loses the world's `restart_s`.
    """
    stops = preempting(lambda context: ByAttained(context, THRESHOLDS_S))
    policy = list_scheduler(least_attained_order(THRESHOLDS_S), preemption=stops)
    return Candidate("least-attained-preemptive", policy, exclusive(limits), submit=preemptible)


def shortest_remaining(world: World, limits: Limits) -> Candidate:
    """A bound, not a rival: the least device-time left first, by the true durations, and any job is stopped for a shorter
    one.
    """
    policy = list_scheduler(least_left(), preemption=preempting(ByLeft))
    name = "oracle-shortest-remaining-first"
    return Candidate(name, policy, exclusive(limits), lambda _: Oracle(world), submit=preemptible)
