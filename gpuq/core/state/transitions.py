"""Every legal step of a job, as one table.

A step is what happened to the job; the table says which state it leads to. What is not in the table is illegal and
leaves the state untouched. The diagram in docs/terms.md is generated from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from gpuq.core.state.job import JobState

_S = JobState


class Step(StrEnum):
    """What can happen to a job."""

    HOLD = "hold"
    RELEASE = "release"
    CANCEL = "cancel"
    LAUNCH = "launch"
    START = "start"
    STOP = "stop"
    COMPLETE = "complete"
    FAIL = "fail"
    TIME_OUT = "time out"
    RUN_OUT_OF_MEMORY = "run out of memory"
    PREEMPT = "preempt"
    LOSE = "lose"
    REQUEUE = "requeue"


# An attempt may end in any of these ways from any active state: the worker's word overtakes our own bookkeeping
# (a job can finish before its Started event is read, or while a Stop is under way).
_ENDINGS: Mapping[Step, JobState] = {
    Step.COMPLETE: _S.COMPLETED,
    Step.FAIL: _S.FAILED,
    Step.CANCEL: _S.CANCELLED,
    Step.TIME_OUT: _S.TIMEOUT,
    Step.RUN_OUT_OF_MEMORY: _S.OUT_OF_MEMORY,
    Step.PREEMPT: _S.PREEMPTED,
    Step.LOSE: _S.NODE_FAIL,
    Step.REQUEUE: _S.PENDING,
}

TRANSITIONS: Mapping[tuple[JobState, Step], JobState] = {
    (_S.PENDING, Step.HOLD): _S.HELD,
    (_S.PENDING, Step.CANCEL): _S.CANCELLED,
    (_S.PENDING, Step.LAUNCH): _S.STARTING,
    (_S.HELD, Step.RELEASE): _S.PENDING,
    (_S.HELD, Step.CANCEL): _S.CANCELLED,
    (_S.STARTING, Step.START): _S.RUNNING,
    (_S.STARTING, Step.STOP): _S.COMPLETING,
    (_S.RUNNING, Step.STOP): _S.COMPLETING,
    **{(_S.STARTING, step): end for step, end in _ENDINGS.items()},
    **{(_S.RUNNING, step): end for step, end in _ENDINGS.items()},
    **{(_S.COMPLETING, step): end for step, end in _ENDINGS.items()},
    (_S.OUT_OF_MEMORY, Step.REQUEUE): _S.PENDING,
    (_S.PREEMPTED, Step.REQUEUE): _S.PENDING,
    (_S.NODE_FAIL, Step.REQUEUE): _S.PENDING,
    (_S.FAILED, Step.REQUEUE): _S.PENDING,
    (_S.TIMEOUT, Step.REQUEUE): _S.PENDING,
}


# What explains most stands last: where one attempt of a gang was lost, the others fail because of it.
_BY_GRAVITY = (
    Step.COMPLETE,
    Step.FAIL,
    Step.REQUEUE,
    Step.PREEMPT,
    Step.CANCEL,
    Step.TIME_OUT,
    Step.RUN_OUT_OF_MEMORY,
    Step.LOSE,
)


def gravest(*ends: Step) -> Step:
    """What the ends of a gang's attempts mean for its job together, whichever came first."""
    return max(ends, key=_BY_GRAVITY.index)


def next_state(state: JobState, step: Step) -> JobState | None:
    """The state that `step` leads to from `state`; None where the step is illegal."""
    return TRANSITIONS.get((state, step))
