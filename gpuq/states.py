"""The states of a job, and the groups of them.

They are below the core because the command knows them too, and must start without loading the core. `gpuq.core.state.job` gives
them to everything else.
"""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """The state of a job. The names are Slurm's, so that scripts can be ported."""

    PENDING = "PENDING"
    HELD = "HELD"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    NODE_FAIL = "NODE_FAIL"


WAITING = frozenset({JobState.PENDING, JobState.HELD})
ACTIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.COMPLETING})
ENDED = frozenset(JobState) - WAITING - ACTIVE
# Jobs that ended in these may wait again at once: after a lack of memory beside a partner, a preemption, the loss of a host.
# Where `--retry` starts a job again after FAILED or TIMEOUT, this is recorded together with its end.
MAY_REQUEUE = frozenset({JobState.OUT_OF_MEMORY, JobState.PREEMPTED, JobState.NODE_FAIL})
