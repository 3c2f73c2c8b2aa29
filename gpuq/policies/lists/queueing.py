"""Admission to the queue: who comes while the expected wait is beyond a limit is kept back, so that those let in start in time.

Arrives: the board; start times foretold by `teller.py`. Leaves: proposals, those let in first, each lot by priority and
arrival. A job is let in if its wait will most likely (nine times in ten) be within the limit, given only those who are in;
once in, it stays in. Who is kept back is looked at again, first come first, when half the limit would do; and it starts
whenever a device would be left idle. Ignores what the core does for one who waited too long: that counts for these too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Policy, Proposal
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.verdict import Rule, Verdict
from gpuq.policies.estimates.estimator import Teller
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

# Who was kept back is let in when its wait would be within this share of the limit: others may have come meanwhile.
_AGAIN = 0.5
# A look at each pass must be quick: fewer draws, and fewer comers in each, than where users are told.
_DRAWS, _COMERS = 10, 20


class Queueing:
    """Remembers whom it let in; after a restart of the dispatcher all are looked at afresh."""

    def __init__(self, wait_limit_s: float) -> None:
        self._limit_s = wait_limit_s
        self._teller = Teller(draws=_DRAWS, comers=_COMERS)
        self._in: dict[JobId, float] = {}
        self._out: dict[JobId, Verdict] = {}

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal]:
        """Those let in, then, on what they leave, those kept back."""
        self._teller.watch(context)
        self._in = {job: moment for job, moment in self._in.items() if job in context.state.jobs}
        self._out = {job: verdict for job, verdict in self._out.items() if job in context.state.jobs}
        waiting = sorted(context.waiting, key=_order)
        yield from _start(context, sorted((job for job in waiting if job.id in self._in), key=self._turn))
        others = [job for job in waiting if job.id not in self._in]
        yield from _start(context, others)
        if any(context.placed(job) for job in waiting):
            self._let_in(context, *(job for job in others if context.placed(job)))
        else:  # only then does the state say who runs where; a pass that places somebody is followed by another
            self._judge_all(context, others)
        for job in others:
            if job.id in self._out:
                context.defer(job, self._out[job.id])

    def _judge_all(self, context: SchedulingContext, jobs: Sequence[Job]) -> None:
        again = True
        for job in jobs:
            if job.id not in self._out:
                self._judge(context, job, self._limit_s)
            elif again:
                again = self._judge(context, job, self._limit_s * _AGAIN)

    def _judge(self, context: SchedulingContext, job: Job, limit_s: float) -> bool:
        """Let it in, or keep it back."""
        ahead = [replace(other, submitted_at=self._in[other.id]) for other in context.waiting if other.id in self._in]
        wait_s = self._teller.among(context, [*ahead, replace(job, submitted_at=context.now)])[job.id].p90_s
        if wait_s <= limit_s:
            self._teller.remember(context, job)
            self._let_in(context, job)
        else:
            numbers = (("expected_wait_s", wait_s if isfinite(wait_s) else None), ("wait_limit_s", limit_s))
            self._out[job.id] = Verdict(False, Rule.WAIT_LIMIT, None, numbers)
        return job.id in self._in

    def _let_in(self, context: SchedulingContext, *jobs: Job) -> None:
        for job in jobs:
            self._in[job.id] = context.now
            self._out.pop(job.id, None)

    def _turn(self, job: Job) -> tuple[int, float, float, int]:
        """Who was let in earlier goes first: it was let in by what was ahead of it then."""
        return (-job.priority, self._in[job.id], job.submitted_at, job.id)


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


SPEC = PolicySpec(
    "keeps back who would wait too long, so that the others start in time",
    _make,
    work_conserving=True,
    starvation_free=False,
)
