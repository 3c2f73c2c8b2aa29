"""What jobs wait for besides a device: other jobs, a moment. Whose wait ends now, and why the others wait."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from gpuq.core.state.actions import Abandon, EndWait, SetPendingReason
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule, Verdict


def ended_waits(state: State, now: float) -> Iterator[Abandon | EndWait]:
    """The ends of waits that are due: in vain where a dependency can never hold, else so that passes look at the job."""
    for job in state.index.never_satisfied:
        kept = " ".join(str(dependency) for dependency in state.jobs[job].after)
        yield Abandon(job, f"it waited for {kept}, which can never hold any more")
    due = tuple(job for _, job in takewhile(lambda delay: delay[0] <= now, state.index.delays))
    if due:
        yield EndWait(due)


def new_reasons(state: State, now: float) -> Iterator[SetPendingReason]:
    """Why jobs that are not eligible wait, where that was not said yet."""
    index = state.index
    fresh: dict[Verdict, list[JobId]] = {}
    # Whoever waits for a job that is archived in this pass waits for something else after it, or for nothing.
    changing = {job for dependency in index.dependencies_on_any(index.ended) for job in index.dependents[dependency]}
    for job in sorted(index.needs_verdict.keys() - index.waiting.keys() - index.never_satisfied.keys() - changing):
        verdict = _reason(state, state.jobs[job], now)
        if verdict is not None:
            fresh.setdefault(verdict, []).append(job)
    for verdict, jobs in fresh.items():
        yield SetPendingReason(tuple(jobs), verdict)


def _reason(state: State, job: Job, now: float) -> Verdict | None:
    """None for one whose wait ends in this pass."""
    if job.after:
        after = " ".join(str(dependency) for dependency in job.after)
        return Verdict(False, Rule.DEPENDENCY, None, (("after", after),))
    if job.singleton and not state.index.is_first_of_name(job):
        return Verdict(False, Rule.SINGLETON)
    if job.not_before is not None and job.not_before > now:
        rule = Rule.BACKOFF if job.attempt else Rule.BEGIN_TIME
        return Verdict(False, rule, None, (("begin_at", job.not_before),))
    return None
