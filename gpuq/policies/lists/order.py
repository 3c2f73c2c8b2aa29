"""Who goes first: the first part of a policy out of parts. An order ranks the waiting jobs of one pass; the lowest rank is first.

Arrives: the board of a pass. Leaves: a rank for each job. Each order says whether jobs that differ in nothing but their time
of submission stand in the order of that time, so that only the first of them needs a rank. Ignores who fits where.

How none is starved. Ranks that mix size and time are a moment: a job of rank r is only overtaken by what was submitted before
r. Priorities and shares are lifted by waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.job import Job
from gpuq.policies.lists.size import Sizes
from gpuq.settings import Scheduling

Rank = tuple[float, ...]
Ranking = Callable[[Job], Rank]


@dataclass(frozen=True)
class QueueOrder:
    """`ranking` is made anew for each pass. `first_come` as the module says."""

    ranking: Callable[[SchedulingContext], Ranking]
    first_come: bool = True


def _by_arrival(context: SchedulingContext) -> Ranking:  # noqa: ARG001 - every order is made like this
    return lambda job: (job.submitted_at,)


def _by_share(context: SchedulingContext) -> Ranking:
    usage: dict[str, float] = {}

    def rank(job: Job) -> Rank:
        if job.owner not in usage:
            usage[job.owner] = context.usage(job.owner)
        return (usage[job.owner], job.submitted_at)

    return rank


ARRIVAL = QueueOrder(_by_arrival)
"""First come, first served."""

FAIR_SHARE = QueueOrder(_by_share)
"""The owner first whose decayed use of devices is least; within an owner, first come."""


def deadline(unhurried_s: float) -> QueueOrder:
    """The earliest deadline first; what has none counts as due `unhurried_s` after its submission, so that nobody starves it."""

    def ranking(context: SchedulingContext) -> Ranking:  # noqa: ARG001 - every order is made like this
        return lambda job: (job.submitted_at + unhurried_s if job.deadline_at is None else job.deadline_at,)

    return QueueOrder(ranking, first_come=False)


def shortest(overtaking: float) -> QueueOrder:
    """The least device-time foretold first: rank = submission + overtaking * device-time.

    So a job is only overtaken by what is submitted within `overtaking` times its own device-time. Device-time, since the
    devices of a gang could serve others meanwhile (Helios' QSSF ranks likewise; SC'21). While nothing is foretold this is
    first come, first served; a job that nobody knows among known ones counts like the middle one.
    """

    def ranking(context: SchedulingContext) -> Ranking:
        sizes = Sizes(context)
        return lambda job: (job.submitted_at + overtaking * sizes.left_or_middle(job),)

    return QueueOrder(ranking)


def least_left() -> QueueOrder:
    """The least device-time left first, whatever has waited: the bound of what an order can give, and it starves."""

    def ranking(context: SchedulingContext) -> Ranking:
        sizes = Sizes(context)
        return lambda job: (sizes.left_or_middle(job), job.submitted_at)

    return QueueOrder(ranking, first_come=False)


def least_attained(thresholds_s: tuple[float, ...]) -> QueueOrder:
    """The least served first, in queues: a job falls from one to the next as its device-seconds pass a threshold; within a
    queue, first come (Tiresias' discretised least attained service, NSDI'19). Needs no forecast."""

    def ranking(context: SchedulingContext) -> Ranking:  # noqa: ARG001 - every order is made like this
        return lambda job: (queue_of(job.served_s, thresholds_s), job.submitted_at)

    return QueueOrder(ranking, first_come=False)


def queue_of(served_s: float, thresholds_s: tuple[float, ...]) -> int:
    """How many thresholds a service has passed."""
    return sum(served_s >= threshold for threshold in thresholds_s)


def priority_first(then: QueueOrder, ageing_s: float) -> QueueOrder:
    """The highest priority first, `then` among equals. A job gains one step of priority for each `ageing_s` that it waited,
    up to the highest that waits and no further: among equals, age says nothing here."""

    def ranking(context: SchedulingContext) -> Ranking:
        within = then.ranking(context)
        highest = max((group.priority for group in context.groups), default=0)
        return lambda job: (-min(highest, job.priority + (context.now - job.submitted_at) // ageing_s), *within(job))

    return QueueOrder(ranking, then.first_come)


def named(scheduling: Scheduling) -> QueueOrder:
    """The order that the settings name."""
    match scheduling.order:
        case "shortest":
            return shortest(scheduling.overtaking)
        case "deadline":
            return deadline(scheduling.ageing_s)
        case "fair-share":
            return FAIR_SHARE
        case "arrival":
            return ARRIVAL
