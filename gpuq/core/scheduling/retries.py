"""Whether a job that ended badly starts again, when, and with how much memory."""

from __future__ import annotations

from gpuq.core.scheduling.admit import fits_ever
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import Requeue
from gpuq.core.state.job import Job
from gpuq.core.state.retry import RetryCause, RetryRule, backoff_s
from gpuq.core.state.state import State

# Enough to get from a forecast that was too small to what the job needs in one or two steps, without taking twice the device.
_RAISE = 1.5
_AFTER = {
    RetryCause.OOM: "running out of memory",
    RetryCause.NODE: "the loss of its host or device",
    RetryCause.TIMEOUT: "its time limit",
    RetryCause.ANY: "its failure",
}


def retry_of(state: State, job: Job, rule: RetryRule, limits: Limits, now: float) -> Requeue | None:
    """The retry that `rule` grants after the last end of this job; None if all of them are used up.

    A retry after a time limit comes at once: nothing is wrong that could pass. The others wait, each twice as long as the one
    before.
    """
    used = job.times_retried(rule)
    if used >= rule.times:
        return None
    after = _AFTER.get(rule.cause) or f"exit code {rule.exit_code}"
    reason = f"retry {used + 1} of {rule.times} after {after}"
    not_before = None
    if rule.cause is not RetryCause.TIMEOUT:
        pauses = sum(job.times_retried(one) for one in job.retry if one.cause is not RetryCause.TIMEOUT)
        not_before = now + backoff_s(pauses + 1)
        reason += f", in {backoff_s(pauses + 1):g} s"
    memory, alone = _raised(state, job, limits) if job.ran_out_of is not None else (None, False)
    if memory is not None:
        reason += f"; {memory / 2**30:.1f} GiB are promised to it" + (", and it runs alone" if alone else "")
    return Requeue(job.id, alone, reason, rule, not_before, memory)


def _raised(state: State, job: Job, limits: Limits) -> tuple[int | None, bool]:
    """(the memory on each device that a job which ran out of it is to have, whether it is to be alone there). Where no device has
    half as much again, it gets the largest for itself."""
    had = max(job.ran_out_of or 0, job.declared_memory or 0)
    devices = list(state.devices.values())
    sizes = sorted({device.total_memory for device in devices}, reverse=True)
    wanted = (job.device_count, devices, job.host_count, job.constraints)
    largest = next((size for size in sizes if fits_ever(size, *wanted) is None), None)
    if largest is None:
        return None, False
    # What the driver and other processes hold of a device is within the headroom.
    room = int(largest * (1 - limits.memory_headroom))
    return (int(had * _RAISE), False) if had * _RAISE <= room else (room, True)
