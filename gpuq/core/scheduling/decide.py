"""What to do now. Reads the state and the answers, returns actions, changes nothing.

Ended jobs are requeued or archived, ended wishes are stopped, attempts that their host does not report are voided, and
then the policy proposes places for the waiting and `admit` disposes. Every job that waits has a verdict that says why.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.scheduling.admit import DeviceSnapshot, may_share, needed_memory
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.pending_reasons import holds
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.actions import Action, Archive, Launch, Requeue, Revoke, Stop
from gpuq.core.state.attempt import Attempt, AttemptId, StopReason
from gpuq.core.state.device import DeviceId
from gpuq.core.state.forecast import Answers, Forecast, combined
from gpuq.core.state.job import Job, JobState
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule, Verdict

# A host reports every second; an attempt missing from that many graces' worth of reports will not come by itself.
_GRACES_BEFORE_VOID = 2


def decide(state: State, answers: Answers, limits: Limits, policy: Policy, now: float) -> list[Action]:
    """The actions of one pass, in the order to apply and perform them."""
    return [
        *_close_ended(state),
        *_stop_cancelled(state),
        *_void_missing(state, limits, now),
        *_admissions(SchedulingContext(state, answers, limits, now), policy),
    ]


def _close_ended(state: State) -> Iterator[Action]:
    for job in [state.jobs[job] for job in state.index.ended]:
        reason = None if job.cancel_requested else _requeue_reason(job)
        if reason is None:
            yield Archive(job.id)
        else:
            yield Requeue(job.id, job.state is JobState.OUT_OF_MEMORY, reason)


def _requeue_reason(job: Job) -> str | None:
    if job.state is JobState.OUT_OF_MEMORY and job.had_partner and not job.alone:
        return "ran out of memory beside a partner; runs alone from now on"
    if job.state is JobState.PREEMPTED:
        return "preempted"
    if job.state is JobState.NODE_FAIL and job.requeue_on_node_fail:
        return "its host or device was lost"
    return None


def _stop_cancelled(state: State) -> Iterator[Action]:
    for job in [state.jobs[job] for job in state.index.cancelling]:
        attempt = AttemptId(job.id, job.attempt)
        if state.attempts[attempt].stopping is None:
            yield Stop(attempt, StopReason.CANCELLED)


def _void_missing(state: State, limits: Limits, now: float) -> Iterator[Action]:
    for attempt, last_sign in state.index.last_heartbeats.items():
        if now - last_sign <= _GRACES_BEFORE_VOID * limits.start_grace_s:
            break
        host = state.hosts.get(state.attempts[attempt].host)
        if host is not None and now - host.last_seen <= limits.stale_after_s:
            yield Revoke(attempt)


def _admissions(context: SchedulingContext, policy: Policy) -> list[Action]:
    actions: list[Action] = []
    for item in policy(context):
        if isinstance(item, Eviction):
            actions.extend(_evict(context, item))
        elif isinstance(item, Proposal):
            actions.extend(_consider(context, item))
    context.end()
    return [*actions, *holds(context)]


def _evict(context: SchedulingContext, eviction: Eviction) -> Iterator[Stop]:
    """The stop, where the attempt lives, its submitter allows it, nobody asked for its end yet, and the job still waits."""
    attempt = context.state.attempts.get(eviction.attempt)
    if attempt is None or attempt.stopping is not None or attempt.id in context.evicted:
        return
    job, waits = context.state.jobs[attempt.id.job], eviction.job.id in context.state.index.waiting
    if job.preemptible and job.state is JobState.RUNNING and waits and not context.placed(eviction.job):
        context.evicted.add(attempt.id)
        yield Stop(attempt.id, StopReason.PREEMPTED)


def _consider(context: SchedulingContext, proposal: Proposal) -> Iterator[Launch]:
    """The launch, where all of it is admitted. Who does not wait, or got a place in this pass, is no question any more."""
    job = context.state.index.waiting.get(proposal.job.id)
    if job is None or context.placed(job):
        return
    devices = tuple(device.id for device in proposal.devices)
    verdict = _refuse_form(context, job, devices) or _dispose(context, job, devices)
    if verdict.admitted:
        yield Launch(_attempt(context, job, devices), verdict)
        context.place_job(job, devices)
    else:
        context.refuse(job, verdict)


def _refuse_form(context: SchedulingContext, job: Job, devices: tuple[DeviceId, ...]) -> Verdict | None:
    """What no policy may propose, whatever the devices would say; each device is given once in a pass."""
    known = context.state.devices
    if len(devices) not in job.counts or len(set(devices)) < len(devices):
        return Verdict(False, Rule.RESOURCES, None, (("devices", len(devices)), ("wanted_devices", job.device_count)))
    if any(device not in known for device in devices):
        return Verdict(False, Rule.RESOURCES, None, (("unknown_devices", 1),))
    hosts = len({known[device].host for device in devices})
    if hosts > 1:
        return Verdict(False, Rule.RESOURCES, None, (("hosts", hosts),))
    given = next((device for device in devices if context.given(device)), None)
    return None if given is None else Verdict(False, Rule.RESOURCES, given, (("given_in_this_pass", 1),))


def _dispose(context: SchedulingContext, job: Job, devices: tuple[DeviceId, ...]) -> Verdict:
    """All or nothing: each device is asked by itself, and the first refusal settles it. A gang is as slow as on its slowest
    device, so it keeps to its budget where it does so on each; the verdict that speaks for it is about a shared one, if any."""
    verdicts = [context.judge(job, device) for device in devices]
    refusal = next((verdict for verdict in verdicts if not verdict.admitted), None)
    shared = (v for v, device in zip(verdicts, devices, strict=True) if context.snapshot(device).residents)
    return refusal or next(shared, verdicts[0])


def _attempt(context: SchedulingContext, job: Job, devices: tuple[DeviceId, ...]) -> Attempt:
    snapshots = [context.snapshot(device) for device in devices]
    forecasts = [context.forecast(job, snapshot) for snapshot in snapshots]
    return Attempt(
        id=AttemptId(job.id, job.attempt + 1),
        kind=job.kind,
        host=snapshots[0].device.host,
        devices=devices,
        promised=tuple(_promise(job, f, snapshot) for f, snapshot in zip(forecasts, snapshots, strict=True)),
        shares=all(may_share(job, forecast) for forecast in forecasts),
        launched_at=context.now,
        forecast=combined(forecasts),
        max_slowdown=job.max_slowdown,
        had_partner=any(snapshot.residents for snapshot in snapshots),
    )


def _promise(job: Job, forecast: Forecast, snapshot: DeviceSnapshot) -> int:
    needed = needed_memory(job, forecast)
    whole = snapshot.device.total_memory
    return whole if needed is None or not may_share(job, forecast) else min(needed, whole)
