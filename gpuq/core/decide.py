"""What to do now. Reads the state and the answers, returns actions, changes nothing.

Ended jobs are requeued or archived, ended wishes are stopped, attempts that their host does not report are voided, and
then the policy proposes places for the waiting and `admit` disposes. Every job that waits has a verdict that says why.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.actions import Action, Archive, Hold, Launch, Requeue, Stop, Void
from gpuq.core.admit import Place, admit, fits_ever, may_share, needed_memory
from gpuq.core.attempt import Attempt, AttemptId, StopReason
from gpuq.core.board import Board
from gpuq.core.device import Device
from gpuq.core.forecast import Answers, Forecast
from gpuq.core.job import ACTIVE, ENDED, Job, JobId, JobState
from gpuq.core.limits import Limits
from gpuq.core.policy import Eviction, Policy
from gpuq.core.state import State
from gpuq.core.verdict import Rule, Verdict

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
    for job in state.jobs.values():
        if job.state in ENDED:
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
        return "its host was lost"
    return None


def _stop_cancelled(state: State, cause: int) -> Iterator[Action]:
    for attempt in state.attempts.values():
        job = state.jobs[attempt.id.job]
        if job.cancel_requested and job.state in ACTIVE and attempt.stopping is None:
            yield Stop(attempt.id, StopReason.CANCELLED, cause)


def _void_missing(state: State, limits: Limits, now: float, cause: int) -> Iterator[Action]:
    for attempt in state.attempts.values():
        host = state.hosts.get(attempt.host)
        host_talks = host is not None and now - host.last_seen <= limits.stale_after_s
        last_sign = attempt.launched_at if attempt.last_reported is None else attempt.last_reported
        silent = now - last_sign > _GRACES_BEFORE_VOID * limits.start_grace_s
        if host_talks and silent and not attempt.voiding:
            yield Void(attempt.id, cause)


def _admissions(board: Board, policy: Policy, cause: int) -> list[Action]:
    launches: list[Action] = []
    reserved = False
    for proposal in policy(board):
        if isinstance(proposal, Eviction):
            launches.extend(_evict(board, proposal, cause))
            continue
        job = proposal.job
        if board.placed(job):
            continue
        verdict = _dispose(board, job, proposal.devices)
        if verdict.admitted:
            launches.append(Launch(_attempt(board, job, proposal.devices), verdict, cause))
            board.place_job(job, (device.id for device in proposal.devices))
        else:
            board.refuse(job, verdict)
            if not reserved and board.now - job.submitted_at > board.limits.patience_s:
                reserved = _reserve(board)
    return [*launches, *_holds(board, cause)]


def _evict(board: Board, eviction: Eviction, cause: int) -> Iterator[Stop]:
    """The stop, where the attempt lives, its submitter allows it, and nobody asked for its end in this pass."""
    attempt = board.state.attempts.get(eviction.attempt)
    if attempt is None or attempt.stopping is not None or eviction.attempt in board.evicted:
        return
    job = board.state.jobs[attempt.id.job]
    if job.preemptible and job.state is JobState.RUNNING and not board.placed(eviction.job):
        board.evicted.add(attempt.id)
        yield Stop(attempt.id, StopReason.PREEMPTED, cause)


def _dispose(board: Board, job: Job, devices: tuple[Device, ...]) -> Verdict:
    """All or nothing: the first refusal settles it. Whatever the policy proposes, a device is given once in a pass."""
    if len(devices) not in job.counts or len({device.id for device in devices}) < len(devices):
        return Verdict(False, Rule.RESOURCES, None, (("devices", len(devices)), ("wanted_devices", job.device_count)))
    if len({device.host for device in devices}) > 1:
        return Verdict(False, Rule.RESOURCES, None, (("hosts", len({device.host for device in devices})),))
    for device in devices:
        if board.given(device.id):
            return Verdict(False, Rule.RESOURCES, device.id, (("given_in_this_pass", 1),))
    places = [board.place(device.id) for device in devices]
    verdicts = [admit(job, board.forecast(job, place), place, board.limits) for place in places]
    return next((verdict for verdict in verdicts if not verdict.admitted), verdicts[0])


def _attempt(board: Board, job: Job, devices: tuple[Device, ...]) -> Attempt:
    places = [board.place(device.id) for device in devices]
    forecast = board.forecast(job, places[0])
    return Attempt(
        id=AttemptId(job.id, job.attempt + 1),
        kind=job.kind,
        host=devices[0].host,
        devices=tuple(device.id for device in devices),
        promised=tuple(_promise(job, forecast, place) for place in places),
        shares=may_share(job, forecast),
        launched_at=board.now,
        forecast=forecast,
        max_slowdown=job.max_slowdown,
        had_partner=any(place.residents for place in places),
    )


def _promise(job: Job, forecast: Forecast, place: Place) -> int:
    needed = needed_memory(job, forecast)
    whole = place.device.total_memory
    return whole if needed is None or not may_share(job, forecast) else min(needed, whole)


def _reserve(board: Board) -> bool:
    """Keep one busy device from getting newcomers, the one likely free first: the fewest, longest-running residents."""
    busy = [place for place in board.places if place.residents and not place.reserved]
    if not busy:
        return False
    soonest = min(busy, key=lambda p: (len(p.residents), max(a.launched_at for a in p.residents), p.device.id))
    board.reserve(soonest.device.id)
    return True


def _holds(board: Board, cause: int) -> Iterator[Hold]:
    """One Hold per new verdict, for all the jobs it is new for."""
    fresh: dict[Verdict, list[JobId]] = {}
    otherwise = _nothing_open(board)
    devices = list(board.state.devices.values())
    for job in board.waiting:
        if board.placed(job):
            continue
        never = fits_ever(job.declared_memory, job.device_count, devices)
        verdict = never or board.kept_back(job) or board.refused(job) or otherwise
        known = board.state.verdicts.get(job.id)
        if known is None or (known.rule, known.device) != (verdict.rule, verdict.device):
            fresh.setdefault(verdict, []).append(job.id)
    for verdict, jobs in fresh.items():
        yield Hold(tuple(jobs), verdict, cause)


def _nothing_open(board: Board) -> Verdict:
    places = list(board.places)
    if not places:
        return Verdict(False, Rule.NO_DEVICES, None, (("devices", 0),))
    if all(place.reading is None for place in places):
        return Verdict(False, Rule.STALE_READING, None, (("stale_after_s", board.limits.stale_after_s),))
    busy = sum(1 for place in places if place.residents)
    return Verdict(False, Rule.RESOURCES, None, (("devices", len(places)), ("busy_devices", busy)))
