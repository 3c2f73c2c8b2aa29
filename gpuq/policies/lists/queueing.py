"""Admission control for the queue: jobs whose expected wait exceeds a limit are deferred, so that admitted jobs start in time.

A job is admitted if the 90th percentile of its wait, given only the jobs admitted before it, is within the limit. Admitted jobs
stay admitted, and start by priority, then by the time of admission. Deferred jobs are judged again in order of submission, and
start whenever a device would stay idle otherwise.

The core's reservations for jobs that waited too long apply to deferred jobs as well and are not considered here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isfinite

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.verdict import Rule, Verdict
from gpuq.policies.estimates.estimator import StartTimeEstimator
from gpuq.policies.lists.placement import try_each
from gpuq.policies.spec import PolicySpec

# A deferred job is admitted when its wait would be within this share of the limit. Less than 1, because jobs that it would
# delay may have been submitted meanwhile.
_READMISSION = 0.5


class Queueing:
    """The policy. Keeps the admitted and deferred jobs; after a restart of the dispatcher all jobs are judged again."""

    def __init__(self, wait_limit_s: float) -> None:
        self._limit_s = wait_limit_s
        self._estimator = StartTimeEstimator()
        self._admitted_at: dict[JobId, float] = {}
        self._deferred: dict[JobId, Verdict] = {}

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal]:
        """Starts of admitted jobs, then of the others on the devices that are left."""
        self._estimator.observe(context)
        self._admitted_at = {job: at for job, at in self._admitted_at.items() if job in context.state.jobs}
        self._deferred = {job: verdict for job, verdict in self._deferred.items() if job in context.state.jobs}
        waiting = sorted(context.waiting, key=lambda job: (-job.priority, job.waits_since, job.id))
        # By admission and not by submission: a job was admitted on the expectation of those admitted before it.
        admitted = [job for job in waiting if job.id in self._admitted_at]
        yield from _start(context, sorted(admitted, key=lambda job: (-job.priority, self._admitted_at[job.id])))
        others = [job for job in waiting if job.id not in self._admitted_at]
        yield from _start(context, others)
        if any(context.placed(job) for job in waiting):
            # The state does not show the starts of this pass yet, so waits cannot be estimated from it. A pass that starts
            # a job is followed by another one.
            self._admit(context, *(job for job in others if context.placed(job)))
        else:
            # Deferred jobs are judged by a share of the limit, until the first that stays deferred. Those behind it stay deferred
            # too: otherwise short jobs could pass it for ever.
            readmitting = True
            for job in others:
                if job.id not in self._deferred:
                    self._judge(context, job, self._limit_s)
                elif readmitting:
                    readmitting = self._judge(context, job, self._limit_s * _READMISSION)
        for job in others:
            if job.id in self._deferred:
                context.defer(job, self._deferred[job.id])

    def _judge(self, context: SchedulingContext, job: Job, limit_s: float) -> bool:
        """Admit or defer the job; returns whether it is admitted."""
        ahead = [
            replace(other, submitted_at=self._admitted_at[other.id])
            for other in context.waiting
            if other.id in self._admitted_at
        ]
        estimates = self._estimator.estimate(context, [*ahead, replace(job, submitted_at=context.now)])
        wait_s = estimates[job.id].p90_s
        if wait_s <= limit_s:
            self._estimator.remember([job], estimates, context.now)
            self._admit(context, job)
        else:
            numbers = (("expected_wait_s", wait_s if isfinite(wait_s) else None), ("wait_limit_s", limit_s))
            self._deferred[job.id] = Verdict(False, Rule.WAIT_LIMIT, None, numbers)
        return job.id in self._admitted_at

    def _admit(self, context: SchedulingContext, *jobs: Job) -> None:
        for job in jobs:
            self._admitted_at[job.id] = context.now
            self._deferred.pop(job.id, None)


def _start(context: SchedulingContext, jobs: list[Job]) -> Iterator[Proposal]:
    for job in jobs:
        if not context.refused(job):
            yield from try_each(context, job, context.choices(job))


SPEC = PolicySpec(
    "defers jobs that would wait too long, so that the others start in time",
    lambda scheduling: Queueing(scheduling.wait_limit_s),
    work_conserving=True,
    starvation_free=False,
)
