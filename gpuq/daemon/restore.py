"""The state as of the last commit, rebuilt from the database.

Jobs, attempts and devices come from their tables, reservations from the end of the journal. Readings are not stored: hosts report
within a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import AttemptRow, Entry, Service
from gpuq.adapters.store.to_core import attempt_from_row, job_from_row
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Attempt, AttemptId, Ending, started
from gpuq.core.state.attempt_changes import job_step, with_end
from gpuq.core.state.dependency import Dependency, DependencyType, left_of_each
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.events import Exited
from gpuq.core.state.job import Job, JobId, JobState, KindId
from gpuq.core.state.job_changes import without_begun
from gpuq.core.state.quota import LONGEST_WINDOW_S, Account, Hours, accounts, add_served
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.state import State
from gpuq.core.state.transitions import Step, gravest
from gpuq.core.state.usage import HALF_LIFE_S, UNUSED, Usage
from gpuq.core.state.verdict import Verdict
from gpuq.daemon.inbox import ended_among
from gpuq.daemon.journal import RESTORED
from gpuq.messages.codec import decoded
from gpuq.messages.job_record import QueuedRecord

# Read a page at a time: the records of all jobs at once would leave the process large for good.
_ROWS_AT_ONCE = 500
# What was used ten half-lives ago counts a thousandth.
_HALF_LIVES_READ = 10
# The journal is searched back to the state that was recorded last (`Restored`), in steps of so many entries.
_JOURNAL_ROWS_AT_ONCE = 5000
# The search for reservations ends after so many entries about them, too. One that is older is lost, and made again in the first
# pass if its job is still overdue.
_ABOUT_RESERVATIONS_READ = 20_000
# The entries that make a reservation or end one.
_ABOUT_RESERVATIONS = frozenset(
    {"Reserve", "EndReservation", "Launch", "CancelRequested", "HoldRequested", "JobEdited"}
)


def restore(store: Store, now: float, register: Callable[[JobId, QueuedRecord], None] | None = None) -> State:
    """The state as of the last commit, at Unix time `now`; `register` is called with each job in it. Blocks."""
    jobs: dict[JobId, Job] = {}
    verdicts: dict[JobId, Verdict] = {}
    last: JobId | None = None
    while rows := store.queued_jobs(after=last, limit=_ROWS_AT_ONCE):
        last = rows[-1].id
        for row in rows:
            jobs[row.id] = job_from_row(row)
            if row.verdict and row.state is JobState.PENDING:
                # One by a rule that only a later release has is left out: the first pass gives the job another.
                with suppress(ValueError):
                    verdicts[row.id] = decoded(row.verdict, Verdict)
            if register is not None:
                register(row.id, row.record)
    services = store.services(since=now - max(LONGEST_WINDOW_S, _HALF_LIVES_READ * HALF_LIFE_S))
    _resolve_dependencies(store, jobs, {had.job for had in services})
    _date_submissions(jobs, now)
    usage, served = _account(jobs, services)
    live = [row for row in store.live_attempts() if row.job in jobs]
    attempts = [attempt_from_row(row) for row in live]
    # In the order of their launches: an attempt's partners at its launch are those that stand before it.
    attempts.sort(key=lambda attempt: (attempt.launched_at, attempt.id))
    attempts = [_by_our_clock(attempt, now) for attempt in attempts]
    paused_for = _pauses(live, attempts)
    launched = {one.id: one.launched_at for one in attempts}
    attempts = [
        replace(one, paused_for=other, paused_at=launched[other]) if (other := paused_for.get(one.id)) else one
        for one in attempts
    ]
    devices = {device.id: device for device in store.devices(forgotten=False)}
    gang_ends = _gang_ends(store, jobs, attempts, devices)
    return State(
        jobs=jobs,
        attempts={attempt.id: attempt for attempt in attempts},
        devices=devices,
        verdicts=verdicts,
        usage=usage,
        quotas={quota.account: quota for quota in store.quotas()},
        served=served,
        drained={HostId(host): why for host, why in store.drained().items()},
        reservations=_reservations(store, jobs, devices),
        unpausable=_unpausable(store),
        bookings={booking.id: booking for booking in store.bookings(since=now)},
        first_attempt=store.leader().first_attempt,
        gang_ends=gang_ends,
    )


def _pauses(rows: Iterable[AttemptRow], live: Iterable[Attempt]) -> dict[AttemptId, AttemptId]:
    """Which attempts stand still for which, as these were launched. The first pass ends what has ended since."""
    runs = {attempt.id for attempt in live if attempt.stopping is None}
    found: dict[AttemptId, AttemptId] = {}
    for row in rows:
        launched, paused = AttemptId(row.job, row.number), decoded(row.launch.get("pauses", ()), set[AttemptId])
        if launched in runs and launched not in found:
            found.update(dict.fromkeys(runs & paused - set(found.values()), launched))
    return found


def _gang_ends(
    store: Store, jobs: dict[JobId, Job], live: Iterable[Attempt], devices: Mapping[DeviceId, Device]
) -> dict[JobId, Step]:
    """What the attempts that ended mean for jobs of which others, on other hosts, are live. Notes in `jobs`, in place, what a
    retry depends on of these ends."""
    found: dict[JobId, Step] = {}
    gangs = {attempt.id.job: attempt.gang.numbers for attempt in live if attempt.gang is not None}
    for job, numbers in gangs.items():
        rows = [row for row in store.attempts(job) if row.number in numbers and row.ended_at is not None]
        for row in sorted(rows, key=lambda row: row.ended_at or 0.0):
            end, attempt = _end_of(row), attempt_from_row(row)
            step = job_step(end, attempt, jobs[job])
            found[job] = gravest(step, found.get(job, step))
            if attempt.devices[0] in devices:
                jobs[job] = with_end(jobs[job], attempt, end, devices[attempt.devices[0]])
    return found


def _end_of(row: AttemptRow) -> Exited:
    id_, at = AttemptId(row.job, row.number), row.ended_at or 0.0
    measured = Measurement() if row.measurement is None else decoded(row.measurement, Measurement)
    return Exited(id_, at, Ending(row.ending or Ending.LOST), row.exit_code, row.reason or "", measured)


def _resolve_dependencies(store: Store, jobs: dict[JobId, Job], ran: AbstractSet[JobId]) -> None:
    """Leave to these jobs the dependencies that do not hold yet. `ran`: those that had an attempt which ended; one that waits
    again has started all the same."""
    waiting = [job for job in jobs.values() if job.after]
    waits = {job.after for job in waiting}
    left = left_of_each(waits, ended_among(store, {dependency for after in waits for dependency in after}))
    starts = {Dependency(DependencyType.START, job, job) for job in ran}
    for after, rest in left.items():
        left[after] = without_begun(tuple(one for one in rest if one not in starts), jobs)
    for job in waiting:
        jobs[job.id] = replace(job, after=left[job.after])


def _date_submissions(jobs: dict[JobId, Job], now: float) -> None:
    """Jobs are numbered as they are submitted, so none came after one with a higher number, or after `now`. Where the record says
    otherwise, a wall clock was set back in between."""
    latest = now
    for job in reversed(jobs.values()):
        latest = min(latest, job.submitted_at)
        if latest < job.submitted_at:
            jobs[job.id] = replace(job, submitted_at=latest)


def _by_our_clock(attempt: Attempt, now: float) -> Attempt:
    """The attempt with times that this dispatcher can count from. Its launch is in the future where the wall clock was set back
    since, and its start was recorded by its host's clock."""
    launched = replace(attempt, launched_at=min(attempt.launched_at, now))
    return launched if launched.started_at is None else started(launched, launched.started_at, now)


def _reservations(
    store: Store, jobs: Mapping[JobId, Job], devices: Mapping[DeviceId, Device]
) -> dict[JobId, Reservation]:
    """The reservations of jobs that are still waiting, each as the newest entry about it has it."""
    found: dict[JobId, Reservation | None] = {}
    for entry in islice(_latest_entries(store, _ABOUT_RESERVATIONS), _ABOUT_RESERVATIONS_READ):
        if entry.name == RESTORED:
            for reservation in decoded(entry.body.get("reservations", []), list[Reservation]):
                found.setdefault(reservation.job, reservation)
            break
        if entry.name == "Reserve":
            reservation = decoded(entry.body["reservation"], Reservation)
            found.setdefault(reservation.job, reservation)
        elif entry.name != "JobEdited" or not decoded(entry.body["edit"], JobEdit).only_labels:
            found.update({JobId(job): None for job in entry.jobs if job not in found})
    return {
        job: reservation
        for job, reservation in found.items()
        if reservation is not None
        and job in jobs
        and jobs[job].state is JobState.PENDING
        and all(device in devices for device in reservation.devices)
    }


def _unpausable(store: Store) -> dict[KindId, float]:
    """The kinds that are not paused any more, and since when."""
    found: dict[KindId, float] = {}
    for entry in _latest_entries(store, {"LeaveUnpaused"}):
        if entry.name == RESTORED:
            found.update(decoded(entry.body.get("unpausable", {}), dict[KindId, float]))
            break
        found[KindId(entry.body["kind"])] = entry.at
    return found


def _latest_entries(store: Store, names: AbstractSet[str]) -> Iterator[Entry]:
    """The entries of these names and the recorded states, the newest first."""
    rows, wanted = _JOURNAL_ROWS_AT_ONCE, {*names, RESTORED}
    for newest in range(store.last_seq(), 0, -rows):
        yield from reversed(store.journal(after=max(0, newest - rows), until=newest, limit=rows, names=wanted))


def _account(jobs: dict[JobId, Job], services: Iterable[Service]) -> tuple[dict[str, Usage], dict[Account, Hours]]:
    """(the usage of each owner, the device-seconds of each account by the hour). Sets `served_s` of the jobs in `jobs`, in place,
    to the device-seconds that they had."""
    usage: dict[str, Usage] = {}
    served: dict[Account, Hours] = {}
    for had in services:
        seconds = max(0.0, had.ended_at - had.started_at) * had.devices
        usage[had.owner] = usage.get(had.owner, UNUSED).after(seconds, had.ended_at)
        for account in accounts(had.owner, had.project):
            add_served(served.setdefault(account, {}), had.started_at, had.ended_at, had.devices)
        if had.job in jobs:
            jobs[had.job] = replace(jobs[had.job], served_s=jobs[had.job].served_s + seconds)
    return usage, served
