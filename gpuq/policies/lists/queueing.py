"""Admission control for the queue: jobs whose expected wait is beyond a limit are kept back, so that admitted jobs start in time.

A job is admitted if the 90th percentile of its wait, behind the jobs admitted so far, is within the limit; it then stays
admitted. Admitted jobs go first, by priority and the time of their admission. A job that is kept back is admitted when half the
limit would do, and starts whenever a device would be left idle. The core's reservations for jobs that have waited too long hold
for admitted jobs and for those kept back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Policy, Proposal
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.verdict import Rule, Verdict
from gpuq.policies.estimates.estimator import StartTimeEstimator
from gpuq.policies.spec import Recipe
from gpuq.settings import Scheduling

# A job that was kept back is admitted when its wait would be within this share of the limit: the rest is left to new jobs, which
# still can start in time.
_AGAIN = 0.5


class Queueing:
    """The policy. It remembers which jobs it admitted; after a restart of the dispatcher all are judged again."""

    def __init__(self, wait_limit_s: float) -> None:
        self._limit_s = wait_limit_s
        self._estimator = StartTimeEstimator()
        # When each job was admitted, and why each of the others is kept back.
        self._admitted: dict[JobId, float] = {}
        self._kept_back: dict[JobId, Verdict] = {}

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal]:
        """Admitted jobs; then, on the devices that they leave, those kept back."""
        self._estimator.observe(context)
        jobs = context.state.jobs
        self._admitted = {job: at for job, at in self._admitted.items() if job in jobs}
        self._kept_back = {job: verdict for job, verdict in self._kept_back.items() if job in jobs}
        waiting = sorted(context.waiting, key=_order)
        yield from _start(context, sorted((job for job in waiting if job.id in self._admitted), key=self._rank))
        others = [job for job in waiting if job.id not in self._admitted]
        yield from _start(context, others)
        started = [job for job in waiting if context.placed(job)]
        self._admit(context, *(job for job in started if job.id not in self._admitted))
        if not started:
            # Only then does the state say what runs where. A pass that starts a job is followed by another pass.
            self._judge_all(context, others)
        for job in others:
            if job.id in self._kept_back:
                context.defer(job, self._kept_back[job.id])

    def _judge_all(self, context: SchedulingContext, jobs: Sequence[Job]) -> None:
        """Judge new jobs, and those kept back until one of them would still wait too long."""
        again = True
        for job in jobs:
            if job.id not in self._kept_back:
                self._judge(context, job, self._limit_s)
            elif again:
                again = self._judge(context, job, self._limit_s * _AGAIN)

    def _judge(self, context: SchedulingContext, job: Job, limit_s: float) -> bool:
        """Admit the job, or keep it back."""
        ahead = [
            replace(other, submitted_at=self._admitted[other.id])
            for other in context.waiting
            if other.id in self._admitted
        ]
        estimates = self._estimator.estimate(context, [*ahead, replace(job, submitted_at=context.now)])
        wait_s = estimates[job.id].p90_s
        if wait_s <= limit_s:
            self._estimator.remember([job], estimates, context.now)
            self._admit(context, job)
        else:
            numbers = (("expected_wait_s", wait_s if isfinite(wait_s) else None), ("wait_limit_s", limit_s))
            self._kept_back[job.id] = Verdict(False, Rule.WAIT_LIMIT, None, numbers)
        return job.id in self._admitted

    def _admit(self, context: SchedulingContext, *jobs: Job) -> None:
        for job in jobs:
            self._admitted[job.id] = context.now
            self._kept_back.pop(job.id, None)

    def _rank(self, job: Job) -> tuple[int, float, float, int]:
        """Jobs that were admitted earlier go first: they were admitted by what was ahead of them then."""
        return (-job.priority, self._admitted[job.id], job.submitted_at, job.id)


def _start(context: SchedulingContext, jobs: list[Job]) -> Iterator[Proposal]:
    for job in jobs:
        if context.refused(job):
            continue
        for snapshots in context.choices(job):
            yield Proposal(job, tuple(snapshot.device for snapshot in snapshots))
            if context.placed(job):
                break


def _order(job: Job) -> tuple[int, float, int]:
    return (-job.priority, job.submitted_at, job.id)


def _make(scheduling: Scheduling) -> Policy:
    return Queueing(scheduling.wait_limit_s)


RECIPE = Recipe(
    "keeps back jobs that would wait too long, so that the others start in time",
    _make,
    work_conserving=True,
    starvation_free=False,
)
