"""The invariants of the state, checked by tests after every `apply`."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.core_loans import idle_cores
from gpuq.core.state.dependency import DependencyType
from gpuq.core.state.device import DeviceId
from gpuq.core.state.job import ACTIVE, JobId, JobState
from gpuq.core.state.state import State


def validate(state: State) -> None:
    """Raise AssertionError, with what is wrong, unless all invariants hold.

    No device promises more memory than it has, a job has at most one live attempt on each of its hosts, no device is reserved
    twice, no more tasks of an array run than may at once, no job runs that still waits for something, none is paused for one
    that does not run, and no core is lent twice or while an attempt is on its device.
    """
    attempts_of: dict[JobId, list[AttemptId]] = {}
    for attempt_id in state.attempts:
        attempts_of.setdefault(attempt_id.job, []).append(attempt_id)
    for job in state.jobs.values():
        alive = attempts_of.get(job.id, [])
        if job.state in ACTIVE:
            start = [AttemptId(job.id, job.attempt + number) for number in range(job.host_count)]
            assert alive, f"{job.id} is {job.state} with attempts {alive}"
            assert set(alive) <= set(start), f"{job.id} is {job.state} with attempts {alive}"
            whole = len(alive) == len(start)
            assert whole is (job.id not in state.gang_ends), f"{job.id}: {alive} live of {start}, {state.gang_ends}"
        else:
            assert not alive, f"{job.id} is {job.state} but {alive} live"
            assert job.id not in state.gang_ends, f"{job.id} is {job.state} but waits for attempts to end"
        assert job.eligible or job.state not in ACTIVE, f"{job.id} is {job.state} and still waits"
        assert not (job.eligible and (job.after or job.not_before)), f"{job.id} is eligible and still waits"
    for attempt in state.attempts.values():
        assert len(attempt.devices) == len(attempt.promised) > 0
        assert attempt.id.job in state.jobs, f"{attempt.id} has no job"
        for device in attempt.devices:
            assert attempt.id in state.residents[device], f"{attempt.id} is not on {device}"
        _validate_gang(state, attempt)
        _validate_pause(state, attempt)
    for device, residents in state.residents.items():
        assert residents, f"{device} has an empty list of residents"
        assert len(set(residents)) == len(residents)
        assert all(resident in state.attempts for resident in residents)
        _validate_promises(state, device)
    _validate_dependencies(state)
    _validate_loans(state)
    _validate_reservations(state)
    _validate_arrays(state)
    for one, other in combinations(state.bookings.values(), 2):
        apart = not one.meets(other.from_at, other.until_at) or set(one.devices).isdisjoint(other.devices)
        assert apart, f"{one} and {other} have a device at the same time"
    assert state.index == rebuilt(state).index, "the index differs from one built from the state"
    for job_id in state.verdicts:
        assert state.jobs[job_id].state is JobState.PENDING, f"{job_id} has a verdict but does not wait"


def _validate_gang(state: State, attempt: Attempt) -> None:
    gang, hosts = attempt.gang, {state.devices[device].host for device in attempt.devices}
    if gang is not None:
        assert attempt.id.number in gang.numbers, f"{attempt.id} is not of {gang}"
        assert hosts == {gang.hosts[attempt.id.number - gang.first]}, f"{attempt.id} is on {hosts}, not as {gang}"
        assert not attempt.shares, f"{attempt.id} is of a gang over hosts and shares its devices"
    assert (gang is None) is (state.jobs[attempt.id.job].host_count == 1), f"{attempt.id} has {gang}"


def _validate_pause(state: State, attempt: Attempt) -> None:
    if attempt.paused_for is not None:
        other = state.attempts.get(attempt.paused_for)
        assert other is not None, f"{attempt.id} is paused for {attempt.paused_for}, which is gone"
        assert other.paused_for is None, f"{attempt.id} is paused for {other.id}, which is paused itself"
        assert not set(attempt.devices).isdisjoint(other.devices), f"{attempt.id} shares no device with {other.id}"
        assert attempt.stopping is None, f"{attempt.id} is paused and being stopped"


def _validate_dependencies(state: State) -> None:
    for dependency in state.index.dependents:
        jobs = dependency.jobs if dependency.type is DependencyType.START else dependency.jobs[::-1]
        found = next((job for job in jobs if job in state.jobs), jobs[-1] + jobs.step)
        assert state.index.last_open.get(dependency) == found, f"{dependency}: its last open job is {found}"
    opens = {one: job for job, those in state.index.last_opens.items() for one in those}
    assert opens == state.index.last_open, "the dependencies by their last open job differ from those"
    assert opens.keys() == state.index.dependents.keys(), "no job waits for one of the dependencies"


def _validate_loans(state: State) -> None:
    lent: set[tuple[str, int]] = set()
    for attempt in state.attempts.values():
        assert len(attempt.lent) <= state.jobs[attempt.id.job].lend_cores, f"{attempt.id} has too many cores"
        assert set(attempt.lent) <= idle_cores(state, attempt.host) or not attempt.lent, f"{attempt.id}: not idle"
        mine = {(attempt.host, core) for core in attempt.lent}
        assert lent.isdisjoint(mine), f"{attempt.id} has cores that another one has"
        lent |= mine


def _validate_promises(state: State, device: DeviceId) -> None:
    residents = state.residents_of(device)
    promised, total = state.promised_on(device), state.devices[device].total_memory
    assert promised <= total, f"{device}: {promised} bytes promised of {total}"
    assert len(residents) == 1 or all(a.shares for a in residents), f"{device} is shared by one that must not"


def _validate_arrays(state: State) -> None:
    tasks = [job for job in state.jobs.values() if job.most_at_once is not None and job.state in ACTIVE]
    for array, active in Counter(job.array for job in tasks).items():
        most = next(job.most_at_once or 0 for job in tasks if job.array == array)
        assert active <= most, f"{active} tasks of array {array} run, {most} may"


def _validate_reservations(state: State) -> None:
    reserved: set[DeviceId] = set()
    for job_id, reservation in state.reservations.items():
        assert reservation.job == job_id, f"the reservation of {job_id} names {reservation.job}"
        job = state.jobs[job_id]
        assert job.state is JobState.PENDING, f"{job_id} has a reservation but is {job.state}"
        devices = set(reservation.devices)
        assert len(devices) == len(reservation.devices) == job.device_count, (
            f"{job_id} needs other devices: {reservation}"
        )
        assert job.spreads(state.devices[device] for device in devices), (
            f"{reservation} is not on {job.host_count} hosts"
        )
        assert reserved.isdisjoint(devices), f"{sorted(reserved & devices)} are reserved twice"
        reserved |= devices


def rebuilt(state: State) -> State:
    """The same state, made from its fields, with everything derived worked out again."""
    return State(
        jobs=dict(state.jobs),
        attempts=dict(state.attempts),
        devices=dict(state.devices),
        readings=dict(state.readings),
        hosts=dict(state.hosts),
        drained=dict(state.drained),
        verdicts=dict(state.verdicts),
        usage=dict(state.usage),
        quotas=dict(state.quotas),
        served={account: dict(hours) for account, hours in state.served.items()},
        reservations=dict(state.reservations),
        bookings=dict(state.bookings),
        first_attempt=state.first_attempt,
        gang_ends=dict(state.gang_ends),
        unpausable=dict(state.unpausable),
    )
