"""Queue orders of a list scheduler. An order gives every waiting job a rank at each pass; the lowest rank is tried first.

How the orders avoid starvation: a rank that mixes size and time is a point in time, so that a job of rank r is overtaken only by
jobs that were submitted before r. Priorities and fair shares rise with waiting.
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
    """`ranking` makes the ranking of one pass.

    `first_come`: jobs of one scheduling class, priority and owner rank by their time of submission. Then only the first job of
    each such group needs a rank, and a pass over a queue of thousands stays cheap.
    """

    ranking: Callable[[SchedulingContext], Ranking]
    first_come: bool = True


def _by_arrival(context: SchedulingContext) -> Ranking:  # noqa: ARG001 - the signature of `ranking`
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
"""The owner with the least decayed use of devices first; first come, first served among the jobs of an owner."""


def deadline(default_s: float) -> QueueOrder:
    """The earliest deadline first. A job without a deadline counts as due `default_s` after its submission, so it cannot
    starve."""

    def ranking(context: SchedulingContext) -> Ranking:  # noqa: ARG001 - the signature of `ranking`
        return lambda job: (job.submitted_at + default_s if job.deadline_at is None else job.deadline_at,)

    return QueueOrder(ranking, first_come=False)


def shortest(overtaking: float) -> QueueOrder:
    """The least predicted device-time first, bounded by age: rank = submission + overtaking * device-time, in seconds.

    A job is overtaken only by jobs submitted within `overtaking` times its own device-time. Device-time (duration times devices)
    and not duration, because the devices of a gang could serve others meanwhile; QSSF of Helios ranks likewise (Hu et al.,
    SC'21). Jobs without a forecast count as the median job. Without any forecast this is first come, first served.
    """

    def ranking(context: SchedulingContext) -> Ranking:
        sizes = Sizes(context)
        return lambda job: (job.submitted_at + overtaking * sizes.remaining_or_median(job),)

    return QueueOrder(ranking)


def priority_first(then: QueueOrder, ageing_s: float) -> QueueOrder:
    """The highest priority first, then the order `then`.

    A job gains one step of priority per `ageing_s` seconds of waiting, up to the highest priority in the queue. The cap keeps
    old jobs from overtaking each other by age alone: among jobs at the top, `then` decides.
    """

    def ranking(context: SchedulingContext) -> Ranking:
        within = then.ranking(context)
        highest = max((group.priority for group in context.groups), default=0)
        return lambda job: (-min(highest, job.priority + (context.now - job.submitted_at) // ageing_s), *within(job))

    return QueueOrder(ranking, then.first_come)


def named(scheduling: Scheduling) -> QueueOrder:
    """The order that `[scheduling] order` names."""
    match scheduling.order:
        case "shortest":
            return shortest(scheduling.overtaking)
        case "deadline":
            return deadline(scheduling.ageing_s)
        case "fair-share":
            return FAIR_SHARE
        case "arrival":
            return ARRIVAL
