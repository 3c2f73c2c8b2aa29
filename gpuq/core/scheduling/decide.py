"""What to do now. `decide` reads the state, the forecasts and the limits, and returns the actions of one pass.

It has no effect but on the cache and on what `forecasts` remembers, which only save time: the actions are the same with a cache
of any age. The caller applies all of them to the state, or drops the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from gpuq.core.scheduling.admit import may_share, needed_memory
from gpuq.core.scheduling.bookings import end_bookings, stop_for_bookings
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.loans import loan_actions, reclaims
from gpuq.core.scheduling.pauses import pause_actions
from gpuq.core.scheduling.pending_reasons import new_pending_reasons
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.scheduling.retries import retry_of
from gpuq.core.scheduling.trials import ended_trials
from gpuq.core.scheduling.waits import ended_waits, new_reasons
from gpuq.core.state.actions import Action, Archive, Launch, Reclaim, Requeue, Revoke, Stop
from gpuq.core.state.attempt import Attempt, AttemptId, Gang, StopReason
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.forecast import combined
from gpuq.core.state.job import Job, JobState
from gpuq.core.state.retry import backoff_s, rule_for
from gpuq.core.state.state import State
from gpuq.core.state.transitions import Step
from gpuq.core.state.verdict import Rule

# A host reports every second. An attempt that no report names for twice the grace period was lost with its order.
_GRACE_PERIODS_BEFORE_REVOKE = 2
_REPORTS_WITHIN_S = 3.0
# Where gangs meet, below the ports that Linux gives to outgoing connections (32768 on). Those of one first host that run at the
# same time have different ones unless their jobs' ids are thousands apart.
_GANG_PORTS = range(20_000, 30_000)


def decide(
    state: State, forecasts: ForecastTable, cache: PassCache, limits: Limits, policy: Policy, now: float
) -> list[Action]:
    """The actions of one pass, in the order in which they are to be applied and performed.

    `forecasts` answers the questions that the pass has. A job of which too little is known may start alone and shares no device.
    """
    context = SchedulingContext(state, forecasts, cache, limits, now)
    actions: list[Action] = [
        *_requeue_or_archive_ended(state, limits, now),
        *ended_waits(state, now),
        *_revoke_unreported(state, limits, now),
        *end_bookings(state, now),
        *pause_actions(state, limits, now),
    ]
    # After the pauses: a stop lets a job that stands still go on.
    stops = {
        stop.attempt: stop
        for stop in (
            *_stop_cancelled(state),
            *_stop_broken_gangs(state),
            *stop_for_bookings(state, now),
            *_stop_at_shorter_limits(state, now),
            *ended_trials(state, limits, now),
        )
    }
    context.evicted.update(stops)
    actions.extend(stops.values())
    for item in policy(context):
        if isinstance(item, Eviction):
            actions.extend(_evict(context, item))
        elif isinstance(item, Proposal):
            actions.extend(_launch_if_admitted(context, item))
    actions.extend(context.update_reservations())
    actions.extend(loan_actions(context))
    # After all else, so that a reason does not name a device that this very pass has reserved or opened.
    actions.extend(new_pending_reasons(context))
    actions.extend(new_reasons(state, now))
    context.end_pass()
    return actions


def _requeue_or_archive_ended(state: State, limits: Limits, now: float) -> Iterator[Action]:
    for job in [state.jobs[job] for job in state.index.ended]:
        rule = rule_for(job.retry, job.state, job.exit_code)
        if job.cancel_requested:
            yield Archive(job.id)
        elif job.state is JobState.OUT_OF_MEMORY and job.had_partner:
            yield Requeue(job.id, True, "ran out of memory beside a partner; runs alone from now on")
        elif job.state is JobState.PREEMPTED:
            yield Requeue(job.id, False, "preempted")
        elif rule is not None:
            yield retry_of(state, job, rule, limits, now) or Archive(job.id)
        elif job.state is JobState.NODE_FAIL and job.requeue_on_node_fail:
            yield _requeue_of_lost(job, now)
        else:
            yield Archive(job.id)


def _requeue_of_lost(job: Job, now: float) -> Requeue:
    """At once, unless it loses its host or device again and again soon after its start: it may be the cause, as where it ends its
    supervisor or says itself that its device failed."""
    reason = "its host or device was lost"
    if job.lost_early < 2:
        return Requeue(job.id, False, reason)
    wait_s = backoff_s(job.lost_early - 1)
    again = f"{reason} within a minute of its start, {job.lost_early} times in a row; it waits {wait_s:g} s"
    return Requeue(job.id, False, again, not_before=now + wait_s)


def _stop_cancelled(state: State) -> Iterator[Stop]:
    for job in [state.jobs[job] for job in state.index.cancelling]:
        for attempt in state.attempts_of(job):
            if attempt.stopping is None:
                yield Stop(attempt.id, StopReason.CANCELLED)


def _stop_broken_gangs(state: State) -> Iterator[Stop]:
    """An attempt of a gang that ended well is done. After any other end the others could only wait for it."""
    for job_id, end in state.gang_ends.items():
        job = state.jobs[job_id]
        for attempt in state.attempts_of(job) if end is not Step.COMPLETE and not job.cancel_requested else ():
            if attempt.stopping is None:
                yield Stop(attempt.id, StopReason.GANG)


def _stop_at_shorter_limits(state: State, now: float) -> Iterator[Stop]:
    """Hosts end attempts at the limit that these started with. One that was made shorter since is enforced here."""
    for attempt in state.attempts.values():
        job = state.jobs[attempt.id.job]
        if job.time_limit_s is None or job.time_limit_s == attempt.time_limit_s or attempt.started_at is None:
            continue
        is_stopped = attempt.stopping is not None or job.cancel_requested or job.id in state.gang_ends
        if now - attempt.started_at >= job.time_limit_s and not is_stopped:
            yield Stop(attempt.id, StopReason.TIME_LIMIT)


def _revoke_unreported(state: State, limits: Limits, now: float) -> Iterator[Action]:
    """Attempts that their host has not reported for too long, because their order was lost on the way or the host was cut off."""
    for attempt_id, last_heartbeat in state.index.last_heartbeats.items():
        if now - last_heartbeat <= _GRACE_PERIODS_BEFORE_REVOKE * limits.start_grace_s:
            break  # the others are more recent
        attempt = state.attempts[attempt_id]
        host = state.hosts.get(attempt.host)
        silent_s = inf if host is None else now - host.last_seen
        # An attempt that a silent host did report may well be running there. One that it never reported is revoked, which fails
        # if it was claimed; but not before the host's devices are stale: until then the job might be launched there again.
        never_reported = attempt.started_at is None and attempt.last_reported is None
        if silent_s <= _REPORTS_WITHIN_S or (never_reported and silent_s > limits.stale_after_s):
            yield Revoke(attempt_id)


def _evict(context: SchedulingContext, eviction: Eviction) -> Iterator[Stop]:
    """Stop the attempt, if its submitter allowed preemption, it runs and is not being stopped, and the other job still waits."""
    attempt = context.state.attempts.get(eviction.attempt)
    if attempt is None or attempt.stopping is not None or attempt.id in context.evicted:
        return
    job, waiting = context.state.jobs[attempt.id.job], context.state.index.waiting.get(eviction.job.id)
    may_stop = job.preemptible and job.state is JobState.RUNNING and not job.cancel_requested
    wanted = waiting is not None and not context.placed(waiting) and not context.over_quota(waiting)
    if may_stop and waiting is not None and wanted:
        for one in context.state.attempts_of(job):
            context.evict(one.id, waiting, eviction.devices)
            if one.stopping is None:
                yield Stop(one.id, StopReason.PREEMPTED)


def _launch_if_admitted(context: SchedulingContext, proposal: Proposal) -> Iterator[Launch | Reclaim]:
    """All or nothing: each device is judged by itself, and the first refusal refuses the proposal.

    A gang is as slow as on its slowest device, so it keeps to its slowdown budget where it does so on each device. The verdict
    that goes with the launch is that of a shared device, if there is one.
    """
    # The policy's copy of the job may be outdated or made up; the state's own decides.
    job = context.state.index.waiting.get(proposal.job.id)
    if job is None or context.placed(job):
        return
    devices = tuple(device.id for device in proposal.devices)
    if not _is_well_formed(context, job, devices):
        context.note_refusal(job)
        return
    if context.quotas.refusal(job, len(devices)) is not None:
        return  # jobs of other owners that are like it may start
    judge = context.judge_trial if proposal.trial else context.judge_in_pause if proposal.pausing else context.judge
    verdicts = [judge(job, device) for device in devices]
    is_trial = any(verdict.rule is Rule.TRIAL for verdict in verdicts)
    attempts = [replace(attempt, trial=is_trial) for attempt in _new_attempts(context, job, devices)]
    # On a host with devices of several types, a gang may be known well enough to share on one type and not on another. Then it
    # has all its devices to itself, because an attempt shares on all of its devices or on none.
    if not all(verdict.admitted for verdict in verdicts) or any(a.had_partner and not a.shares for a in attempts):
        if not (proposal.pausing or proposal.trial):  # another device may admit the job without
            context.note_refusal(job)
        return
    residents = (resident for device in devices for resident in context.snapshot(device).residents)
    paused = tuple(dict.fromkeys(resident.id for resident in residents)) if proposal.pausing else ()
    if not context.paused.isdisjoint(paused):
        return
    context.paused.update(paused)
    shared = [v for v, device in zip(verdicts, devices, strict=True) if context.snapshot(device).residents]
    trial = (verdict for verdict in shared if verdict.rule is Rule.TRIAL)
    yield from reclaims(context.state, devices)
    yield Launch(attempts[0], next(trial, [*shared, verdicts[0]][0]), tuple(attempts[1:]), paused)
    if is_trial:
        context.trials.start(job, [context.snapshot(device) for device in devices])
    context.place_job(job, devices)


def _is_well_formed(context: SchedulingContext, job: Job, devices: tuple[DeviceId, ...]) -> bool:
    """Whether these are as many different devices as the job may have, of as many hosts, and not given in this pass."""
    known = context.state.devices
    return (
        len(devices) in job.counts
        and len(set(devices)) == len(devices)
        and all(device in known and not context.given(device) for device in devices)
        and job.spreads(known[device] for device in devices)
    )


def _new_attempts(context: SchedulingContext, job: Job, devices: tuple[DeviceId, ...]) -> list[Attempt]:
    """One attempt for each host of these devices, in the order of their hosts' first devices."""
    if job.host_count == 1:
        return [_new_attempt(context, job, devices)]
    on_hosts: dict[HostId, list[DeviceId]] = {}
    for device in devices:
        on_hosts.setdefault(context.state.devices[device].host, []).append(device)
    hosts, first = tuple(on_hosts), context.state.next_attempt(job)
    known = context.state.hosts.get(hosts[0])
    address = (known.address if known else None) or hosts[0]
    gang = Gang(first, hosts, address, _GANG_PORTS[(job.id + first) % len(_GANG_PORTS)])
    attempts = (_new_attempt(context, job, tuple(on_host)) for on_host in on_hosts.values())
    return [replace(one, id=AttemptId(job.id, first + n), gang=gang) for n, one in enumerate(attempts)]


def _new_attempt(context: SchedulingContext, job: Job, devices: tuple[DeviceId, ...]) -> Attempt:
    snapshots = [context.snapshot(device) for device in devices]
    forecasts = [context.forecast(job, snapshot) for snapshot in snapshots]
    promised = []
    for snapshot, forecast in zip(snapshots, forecasts, strict=True):
        needed, whole = needed_memory(job, forecast), snapshot.device.total_memory
        # A job that runs alone, or whose need is not known, is promised the whole device.
        promised.append(whole if needed is None or not may_share(job, forecast) else min(needed, whole))
    host = context.state.hosts.get(snapshots[0].device.host)
    # A host of the previous release, which reports no instance, would not end the job.
    leased = job.requeue_on_node_fail and context.limits.lease_s > 0 and host is not None and host.instance is not None
    return Attempt(
        id=AttemptId(job.id, context.state.next_attempt(job)),
        kind=job.kind,
        host=snapshots[0].device.host,
        devices=devices,
        promised=tuple(promised),
        shares=all(may_share(job, forecast) for forecast in forecasts),
        launched_at=context.now,
        forecast=combined(forecasts),
        max_slowdown=job.max_slowdown,
        had_partner=any(snapshot.residents for snapshot in snapshots),
        lease_s=context.limits.lease_s if leased else None,
        time_limit_s=job.time_limit_s,
        ahead_of=context.overtaken_priority(devices),
    )
