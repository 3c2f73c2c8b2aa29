"""What is worth a line in the journal, and a journal replayed.

Every event and action that changed the state is written with its time. Reports come every second, and each replaces what
the one before said of the same devices and residents; so a report is written only when something else happens next, or
when the next one no longer names all that it named. A replay gives the same state all the same; a test holds it to that.

A daemon begins by writing its whole state (`Restored`), so a replay starts there and older lines can go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuq.adapters.store.contract import Entry
from gpuq.core.state.actions import (
    Action,
    Archive,
    EndReservation,
    Launch,
    Requeue,
    Reserve,
    Revoke,
    SetPendingReason,
    Stop,
)
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.device import Device, DeviceId, Host, Reading
from gpuq.core.state.events import (
    CancelRequested,
    Event,
    Exited,
    HoldRequested,
    HostReported,
    ModelPublished,
    ReleaseRequested,
    Started,
    Submitted,
    Woke,
)
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.state import State, apply
from gpuq.core.state.usage import Usage
from gpuq.core.state.verdict import Verdict
from gpuq.messages.codec import from_plain, noun, plain, to_plain

RESTORED = "Restored"


class Journal:
    """Numbers the lines and holds back reports that may yet be replaced."""

    def __init__(self, last_seq: int) -> None:
        self.seq = last_seq
        self._entries: list[Entry] = []
        self._held_back: dict[str, tuple[float, HostReported]] = {}

    def begin(self, state: State, now: float) -> None:
        """Write the state that this daemon starts from."""
        self._write(RESTORED, snapshot(state), now, ())

    def note(self, item: Event | Action, now: float) -> None:
        """Take up one item that changed the state."""
        if isinstance(item, HostReported):
            held = self._held_back.get(item.host)
            if held and not _names_all(item, held[1]):
                self.flush()
            self._held_back[item.host] = (now, item)
        else:
            self.flush()
            name, body = to_plain(item)
            self._write(name, body, now, jobs_of(item))

    def flush(self) -> None:
        """Write the reports held back so far."""
        for at, report in self._held_back.values():
            name, body = to_plain(report)
            self._write(name, body, at, ())
        self._held_back.clear()

    def take(self) -> list[Entry]:
        """The lines since the last call, to be committed."""
        entries, self._entries = self._entries, []
        return entries

    def _write(self, name: str, body: Any, now: float, jobs: tuple[int, ...]) -> None:
        self.seq += 1
        self._entries.append(Entry(seq=self.seq, at=now, name=name, body=body, jobs=jobs))


def replay(entries: Iterable[Entry]) -> State:
    """The state that a journal leads to, from its first `Restored` on."""
    state = State()
    for entry in entries:
        if entry.name == RESTORED:
            state = from_snapshot(entry.body)
        else:
            apply(state, from_plain(entry.name, entry.body), entry.at)
    return state


def snapshot(state: State) -> dict[str, Any]:
    """The state in JSON types."""
    return {
        "jobs": plain(list(state.jobs.values())),
        "attempts": plain(list(state.attempts.values())),
        "devices": plain(list(state.devices.values())),
        "hosts": plain(list(state.hosts.values())),
        "readings": plain(list(state.readings.items())),
        "verdicts": plain(list(state.verdicts.items())),
        "usage": plain(state.usage),
        "reservations": plain(list(state.reservations.values())),
    }


def from_snapshot(body: dict[str, Any]) -> State:
    """The state that `snapshot` wrote down."""
    return State(
        jobs={job.id: job for job in noun(body["jobs"], list[Job])},
        attempts={attempt.id: attempt for attempt in noun(body["attempts"], list[Attempt])},
        devices={device.id: device for device in noun(body["devices"], list[Device])},
        hosts={host.id: host for host in noun(body["hosts"], list[Host])},
        readings=dict(noun(body["readings"], list[tuple[DeviceId, Reading]])),
        verdicts=dict(noun(body["verdicts"], list[tuple[JobId, Verdict]])),
        # Journals of earlier versions have neither of these.
        usage=noun(body.get("usage", {}), dict[str, Usage]),
        reservations={one.job: one for one in noun(body.get("reservations", []), list[Reservation])},
    )


def jobs_of(item: Event | Action) -> tuple[int, ...]:
    """The jobs that an event or action speaks of."""
    match item:
        case SetPendingReason(jobs=jobs):
            return jobs
        case Submitted(job=job):
            return (job.id,)
        case Launch(attempt=attempt):
            return (attempt.id.job,)
        case Reserve(reservation=reservation):
            return (reservation.job,)
        case (
            CancelRequested(job=job_id)
            | HoldRequested(job=job_id)
            | ReleaseRequested(job=job_id)
            | Requeue(job=job_id)
            | Archive(job=job_id)
            | EndReservation(job=job_id)
        ):
            return (job_id,)
        case (
            Started(attempt=attempt_id)
            | Exited(attempt=attempt_id)
            | Stop(attempt=attempt_id)
            | Revoke(attempt=attempt_id)
        ):
            return (attempt_id.job,)
        case HostReported() | ModelPublished() | Woke():
            return ()


def _names_all(newer: HostReported, older: HostReported) -> bool:
    residents = {resident.attempt for resident in newer.residents}
    devices = {device.id for device in newer.devices}
    return residents >= {r.attempt for r in older.residents} and devices >= {d.id for d in older.devices}
