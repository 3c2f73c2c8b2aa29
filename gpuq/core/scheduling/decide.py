"""What to do now. Reads the state and the answers, returns actions, changes nothing.

Ended jobs are requeued or archived, ended wishes are stopped, attempts that their host does not report are voided, and
then the policy proposes places for the waiting and `admit` disposes. Every job that waits has a verdict that says why.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.scheduling.admit import Place, may_share, needed_memory
from gpuq.core.scheduling.context import Board
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.pending_reasons import holds
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.actions import Action, Archive, Launch, Requeue, Stop, Void
from gpuq.core.state.attempt import Attempt, AttemptId, StopReason
from gpuq.core.state.device import DeviceId
from gpuq.core.state.forecast import Answers, Forecast, combined
from gpuq.core.state.job import Job, JobState
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule, Verdict

# A host reports every second; an attempt missing from that many graces' worth of reports will not come by itself.
_GRACES_BEFORE_VOID = 2


def decide(state: State, answers: Answers, limits: Limits, policy: Policy, now: float, cause: int) -> list[Action]:
    """The actions of one pass, in the order to apply and perform them."""
    return [
        *_close_ended(state, cause),
        *_stop_cancelled(state, cause),
        *_void_missing(state, limits, now, cause),
        *_admissions(Board(state, answers, limits, now), policy, cause),
    ]


def _close_ended(state: State, cause: int) -> Iterator[Action]:
    for job in [state.jobs[job] for job in state.index.ended]:
        reason = None if job.cancel_requested else _requeue_reason(job)
        if reason is None:
            yield Archive(job.id, cause)
        else:
            yield Requeue(job.id, job.state is JobState.OUT_OF_MEMORY, reason, cause)


def _requeue_reason(job: Job) -> str | None:
    if job.state is JobState.OUT_OF_MEMORY and job.had_partner and not job.alone:
        return "ran out of memory beside a partner; runs alone from now on"
    if job.state is JobState.PREEMPTED:
        return "preempted"
    if job.state is JobState.NODE_FAIL and job.requeue_on_node_fail:
        return "its host or device was lost"
    return None


def _stop_cancelled(state: State, cause: int) -> Iterator[Action]:
    for job in [state.jobs[job] for job in state.index.cancelling]:
        attempt = AttemptId(job.id, job.attempt)
        if state.attempts[attempt].stopping is None:
            yield Stop(attempt, StopReason.CANCELLED, cause)


def _void_missing(state: State, limits: Limits, now: float, cause: int) -> Iterator[Action]:
    for attempt, last_sign in state.index.signs.items():
        if now - last_sign <= _GRACES_BEFORE_VOID * limits.start_grace_s:
            break
        host = state.hosts.get(state.attempts[attempt].host)
        if host is not None and now - host.last_seen <= limits.stale_after_s:
            yield Void(attempt, cause)


def _admissions(board: Board, policy: Policy, cause: int) -> list[Action]:
    actions: list[Action] = []
    for item in policy(board):
        if isinstance(item, Eviction):
            actions.extend(_evict(board, item, cause))
        elif isinstance(item, Proposal):
            actions.extend(_consider(board, item, cause))
    board.end()
    return [*actions, *holds(board, cause)]


def _evict(board: Board, eviction: Eviction, cause: int) -> Iterator[Stop]:
    """The stop, where the attempt lives, its submitter allows it, nobody asked for its end yet, and the job still waits."""
    attempt = board.state.attempts.get(eviction.attempt)
    if attempt is None or attempt.stopping is not None or attempt.id in board.evicted:
        return
    job, waits = board.state.jobs[attempt.id.job], eviction.job.id in board.state.index.waiting
    if job.preemptible and job.state is JobState.RUNNING and waits and not board.placed(eviction.job):
        board.evicted.add(attempt.id)
        yield Stop(attempt.id, StopReason.PREEMPTED, cause)


def _consider(board: Board, proposal: Proposal, cause: int) -> Iterator[Launch]:
    """The launch, where all of it is admitted. Who does not wait, or got a place in this pass, is no question any more."""
    job = board.state.index.waiting.get(proposal.job.id)
    if job is None or board.placed(job):
        return
    devices = tuple(device.id for device in proposal.devices)
    verdict = _refuse_form(board, job, devices) or _dispose(board, job, devices)
    if verdict.admitted:
        yield Launch(_attempt(board, job, devices), verdict, cause)
        board.place_job(job, devices)
    else:
        board.refuse(job, verdict)


def _refuse_form(board: Board, job: Job, devices: tuple[DeviceId, ...]) -> Verdict | None:
    """What no policy may propose, whatever the devices would say; each device is given once in a pass."""
    known = board.state.devices
    if len(devices) not in job.counts or len(set(devices)) < len(devices):
        return Verdict(False, Rule.RESOURCES, None, (("devices", len(devices)), ("wanted_devices", job.device_count)))
    if any(device not in known for device in devices):
        return Verdict(False, Rule.RESOURCES, None, (("unknown_devices", 1),))
    hosts = len({known[device].host for device in devices})
    if hosts > 1:
        return Verdict(False, Rule.RESOURCES, None, (("hosts", hosts),))
    given = next((device for device in devices if board.given(device)), None)
    return None if given is None else Verdict(False, Rule.RESOURCES, given, (("given_in_this_pass", 1),))


def _dispose(board: Board, job: Job, devices: tuple[DeviceId, ...]) -> Verdict:
    """All or nothing: each device is asked by itself, and the first refusal settles it. A gang is as slow as on its slowest
    device, so it keeps to its budget where it does so on each; the verdict that speaks for it is about a shared one, if any."""
    verdicts = [board.judge(job, device) for device in devices]
    refusal = next((verdict for verdict in verdicts if not verdict.admitted), None)
    shared = (v for v, device in zip(verdicts, devices, strict=True) if board.place(device).residents)
    return refusal or next(shared, verdicts[0])


def _attempt(board: Board, job: Job, devices: tuple[DeviceId, ...]) -> Attempt:
    places = [board.place(device) for device in devices]
    forecasts = [board.forecast(job, place) for place in places]
    return Attempt(
        id=AttemptId(job.id, job.attempt + 1),
        kind=job.kind,
        host=places[0].device.host,
        devices=devices,
        promised=tuple(_promise(job, f, place) for f, place in zip(forecasts, places, strict=True)),
        shares=all(may_share(job, forecast) for forecast in forecasts),
        launched_at=board.now,
        forecast=combined(forecasts),
        max_slowdown=job.max_slowdown,
        had_partner=any(place.residents for place in places),
    )


def _promise(job: Job, forecast: Forecast, place: Place) -> int:
    needed = needed_memory(job, forecast)
    whole = place.device.total_memory
    return whole if needed is None or not may_share(job, forecast) else min(needed, whole)
