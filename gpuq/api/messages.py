"""Job states, amounts and times as text, for `explanation` and the page. Verdicts have theirs in `gpuq.messages.verdicts`."""

from __future__ import annotations

from gpuq.core.state.job import JobState

STATES: dict[JobState, str] = {
    JobState.PENDING: "It waits for the dispatcher to look at it.",
    JobState.HELD: "It is held; `gpuq release` lets it go on.",
    JobState.STARTING: "It is being started.",
    JobState.RUNNING: "It runs.",
    JobState.COMPLETING: "It is being stopped.",
    JobState.COMPLETED: "It completed.",
    JobState.FAILED: "It failed.",
    JobState.CANCELLED: "It was cancelled.",
    JobState.TIMEOUT: "It reached its time limit.",
    JobState.OUT_OF_MEMORY: "It ran out of memory.",
    JobState.PREEMPTED: "It was stopped for a job that goes before it.",
    JobState.NODE_FAIL: "Its host or its device went away.",
}
