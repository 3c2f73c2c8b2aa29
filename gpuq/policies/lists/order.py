"""Queue orders of a list scheduler. An order gives every waiting job a rank at each pass; the lowest rank is tried first.

A job waits from when it could first have started: not while it waits for other jobs or for a moment.

How the orders avoid starvation: a rank that mixes size and time is a point in time, so that a job of rank r is overtaken only by
jobs that began to wait before r. Priorities and fair shares rise with waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.job import Job
from gpuq.policies.lists.size import Sizes
from gpuq.settings import Scheduling

# The device-time that a job counts for while no duration at all is known.
_UNKNOWN_S = 3600.0
# An owner's jobs are a flood if they need so many times the device-time of the others' together.
_FLOOD = 2.0
Rank = tuple[float, ...]
Ranking = Callable[[Job], Rank]


@dataclass(frozen=True)
class QueueOrder:
    """`ranking` makes the ranking of one pass.

    `first_come`: jobs of one scheduling class, priority and owner rank by when they began to wait. Then only the first job of
    each such group needs a rank, and a pass over a queue of thousands stays cheap.
    """

    ranking: Callable[[SchedulingContext], Ranking]
    first_come: bool = True


def _by_arrival(context: SchedulingContext) -> Ranking:  # noqa: ARG001 - the signature of `ranking`
    return lambda job: (job.waits_since,)


def _by_share(context: SchedulingContext) -> Ranking:
    usage: dict[str, float] = {}

    def rank(job: Job) -> Rank:
        if job.owner not in usage:
            usage[job.owner] = context.usage(job.owner)
        return (usage[job.owner], job.waits_since)

    return rank


ARRIVAL = QueueOrder(_by_arrival)
"""First come, first served."""

FAIR_SHARE = QueueOrder(_by_share)
"""The owner with the least decayed use of devices first; first come, first served among the jobs of an owner."""


def deadline(default_s: float) -> QueueOrder:
    """The earliest deadline first. A job without a deadline counts as due `default_s` after it began to wait, so it cannot
    starve."""

    def ranking(context: SchedulingContext) -> Ranking:  # noqa: ARG001 - the signature of `ranking`
        return lambda job: (job.waits_since + default_s if job.deadline_at is None else job.deadline_at,)

    return QueueOrder(ranking, first_come=False)


def shortest(overtaking: float) -> QueueOrder:
    """The least predicted device-time first, bounded by age: rank = begin of waiting + overtaking * device-time, in seconds.

    A job is overtaken only by jobs that come within `overtaking` times its own device-time. Device-time (duration times devices)
    and not duration, because the devices of a gang could serve others meanwhile; QSSF of Helios ranks likewise (Hu et al.,
    SC'21). Jobs without a forecast count as the median job. Without any forecast this is first come, first served.
    """

    def ranking(context: SchedulingContext) -> Ranking:
        sizes = Sizes(context)
        return lambda job: (job.waits_since + overtaking * sizes.remaining_or_median(job),)

    return QueueOrder(ranking)


def longest(overtaking: float) -> QueueOrder:
    """The most predicted device-time first, bounded by age as in `shortest`.

    Of jobs that run alone, the last one ends at most a third later than it could (Graham 1969), so fewer devices are kept for
    long jobs that were begun last. The mean job ends later.
    """
    return shortest(-overtaking)


def aged_priority(job: Job, at: float, ageing_s: float) -> float:
    """The priority of a job that has waited until then."""
    return job.priority + max(0.0, at - job.waits_since) // ageing_s


def priority_first(then: QueueOrder, ageing_s: float) -> QueueOrder:
    """The highest priority first, then the order `then`.

    A job gains one step of priority per `ageing_s` seconds of waiting, up to the highest priority in the queue. The cap keeps
    old jobs from overtaking each other by age alone: among jobs at the top, `then` decides.
    """

    def ranking(context: SchedulingContext) -> Ranking:
        within = then.ranking(context)
        highest = max((group.priority for group in context.groups), default=0)
        return lambda job: (-min(highest, aged_priority(job, context.now, ageing_s)), *within(job))

    return QueueOrder(ranking, then.first_come)


def floods_last(then: QueueOrder) -> QueueOrder:
    """Owners whose jobs need more than twice the device-time of those of all others come last; else the order `then`.

    So a user who submits thousands of jobs delays the others little, whatever the priorities. The jobs of one owner keep their
    order. Of thousands of jobs there is always one that has waited too long; so while one who comes before waits, devices are
    reserved for a job of a flood only once it has waited half as long again as all jobs of its owner would take on all devices.
    """

    def ranking(context: SchedulingContext) -> Ranking:
        within = then.ranking(context)
        tiers, work = tiers_of_owners(context)
        # What comes before a flood is less than one _FLOOD-th of its work, and delays it by that share.
        each_s = (1 + 1 / _FLOOD) / max(1, len(context.state.devices))
        context.reserve_later({owner: each_s * work[owner] for owner, tier in tiers.items() if tier > 0})
        return lambda job: (tiers.get(job.owner, 0), *within(job))

    return QueueOrder(ranking, then.first_come)


def tiers_of_owners(context: SchedulingContext) -> tuple[dict[str, int], dict[str, float]]:
    """0 for the owners of waiting jobs who come first, 1 for those after them, and so on; and the work of each owner.

    A tier begins with the owner whose work, the device-seconds of running and waiting jobs, is _FLOOD times that of all before.
    An owner with a single job is in the first tier: a large job is no flood.
    """
    groups, sizes = context.groups, Sizes(context)
    work = {group.owner: 0.0 for group in groups}
    if len(work) < 2:
        return {}, {}
    jobs: Counter[str] = Counter()
    for group in groups:
        jobs[group.owner] += len(group.jobs)
        work[group.owner] += len(group.jobs) * (sizes.remaining_or_median(group.head) or _UNKNOWN_S)
    for attempt in context.state.attempts.values():
        owner = context.state.jobs[attempt.id.job].owner
        if owner in work:
            jobs[owner] += 1
            work[owner] += sizes.remaining_of_attempt_or_median(attempt) or _UNKNOWN_S
    tiers = dict.fromkeys(work, 0)
    tier, before = 0, 0.0
    for owner in sorted(work, key=lambda owner: (jobs[owner] > 1, work[owner])):
        tier += before > 0 and jobs[owner] > 1 and work[owner] > _FLOOD * before
        tiers[owner] = tier
        before += work[owner]
    return tiers, work


def named(scheduling: Scheduling) -> QueueOrder:
    """The order that `[scheduling] order` names."""
    match scheduling.order:
        case "shortest":
            return shortest(scheduling.overtaking)
        case "longest":
            return longest(scheduling.overtaking)
        case "deadline":
            return deadline(scheduling.ageing_s)
        case "fair-share":
            return FAIR_SHARE
        case "arrival":
            return ARRIVAL


def configured(scheduling: Scheduling) -> QueueOrder:
    """The order of `packed` under these settings."""
    by_priority = priority_first(named(scheduling), scheduling.ageing_s)
    return floods_last(by_priority) if scheduling.order == "shortest" else by_priority
