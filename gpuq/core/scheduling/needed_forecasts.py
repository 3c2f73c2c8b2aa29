"""Which questions are worth predicting now? Finite, and none twice: the shell answers them and asks again until none is left.

First what each waiting signature needs alone on each sort of device; then, for what fits by that, what the pairs cost. Who was
refused everywhere, with nothing new since, is not asked about.
"""

from __future__ import annotations

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.cache import question, question_alone
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.forecast import Answers, Question
from gpuq.core.state.index import scheduling_class
from gpuq.core.state.job import Job
from gpuq.core.state.state import State


def needed_forecasts(state: State, answers: Answers, limits: Limits, now: float) -> list[Question]:
    """Questions without an answer yet, in a stable order; empty when `decide` has all it needs."""
    context = SchedulingContext(state, answers, limits, now)
    heads = (next(iter(groups.values())).head for groups in state.index.alike.values())
    hopeful = [job for job in heads if not context.refused(job)]
    alone = context.cache.alone
    device_classes = context.cache.device_index.device_classes.items()
    missing = [
        question_alone(job, device)
        for job in hopeful
        for sort, device in device_classes
        if (job.signature, sort) not in alone
    ]
    missing = [q for q in dict.fromkeys(missing) if q not in context.cache]
    if missing or not context.shares:
        return missing
    beside = (question(job, snapshot) for job in hopeful for snapshot in _not_asked_about(context, job))
    return [q for q in dict.fromkeys(beside) if q not in context.cache]


def _not_asked_about(context: SchedulingContext, job: Job) -> list[DeviceSnapshot]:
    """Once for what there is now: the shell answers whatever it is asked."""
    memo, turn = context.cache.memo(scheduling_class(job)), context.cache.device_index.turn
    if memo.asked_at == turn:
        return []
    memo.asked_at = turn
    return context.shared_options(job)
