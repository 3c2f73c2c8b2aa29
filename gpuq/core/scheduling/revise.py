"""Attempts that were started alone because too little was known of them: others may join them once it is known.

What makes it known is a run of the same work that has ended since, or the attempt itself, once its memory has levelled off. Such
evidence can fail, since memory may grow again. Then the attempt has its devices to itself again, unless a job has joined it.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.scheduling.admit import may_share, needed_memory
from gpuq.core.scheduling.cache import question_alone
from gpuq.core.scheduling.forecast_table import Answer
from gpuq.core.state.actions import Revise
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import Job, Sharing
from gpuq.core.state.state import State


def revisions(state: State, answer: Answer) -> Iterator[Revise]:
    """What is to be revised of the attempts that run, by what `answer` forecasts of their jobs now."""
    found = [(attempt, state.jobs[attempt.id.job]) for attempt in state.attempts.values()]
    found = [(attempt, job) for attempt, job in found if _may_be_revised(state, attempt, job)]
    asked = [question_alone(job, state.devices[attempt.devices[0]]) for attempt, job in found]
    forecasts = answer(asked)
    for (attempt, job), question in zip(found, asked, strict=True):
        if (revision := _revision(state, attempt, job, forecasts[question])) is not None:
            yield revision


def _may_be_revised(state: State, attempt: Attempt, job: Job) -> bool:
    """Whether it runs, on devices of one type, and was launched without evidence though its submitter lets it share."""
    launched_unknown = attempt.revised or attempt.opened or not attempt.shares
    runs = attempt.started_at is not None and attempt.stopping is None and attempt.gang is None
    types = {state.devices[device].type for device in attempt.devices}
    return launched_unknown and runs and job.sharing is Sharing.AUTO and not job.alone and len(types) == 1


def _revision(state: State, attempt: Attempt, job: Job, forecast: Forecast) -> Revise | None:
    totals = [state.devices[device].total_memory for device in attempt.devices]
    others = [state.promised_on(device, but=attempt.id) for device in attempt.devices]
    needed = needed_memory(job, forecast)
    if needed is None or not may_share(job, forecast):
        # One that was opened since because it is idle is open for that, not for what was known.
        fails = attempt.revised and attempt.shares and not attempt.opened and not any(others)
        return Revise(attempt.id, forecast, shares=False, promised=tuple(totals)) if fails else None
    needed = max(needed, attempt.live_memory or 0)
    promised = tuple(min(needed, total - there) for total, there in zip(totals, others, strict=True))
    before = attempt.forecast.peak_utilization_pct
    rose = before is None or (forecast.peak_utilization_pct or 0.0) > before
    # A promise that could be smaller stays: what is known of an attempt that goes on may rise again.
    if attempt.shares and not rose and all(new <= old for new, old in zip(promised, attempt.promised, strict=True)):
        return None
    return Revise(attempt.id, forecast, shares=True, promised=promised)
