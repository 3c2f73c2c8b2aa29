"""Which events and actions are recorded in the journal, and how a journal is replayed.

Every event and action that changed the state is recorded with its time. Hosts report every second, and each report replaces
what the one before said of the same devices and residents. So a report is recorded only before something else happens, or when
the next one leaves out a device or resident that it names. A replay leads to the same state all the same, which
tests/daemon/test_journal.py checks; but times are those of the wall clock, and where that was set, the times of the state differ.

A dispatcher begins by recording its whole state (`Restored`), and does so again now and then, so a replay can start there and
older entries can be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuq.adapters.store.row_types import Entry
from gpuq.core.state.actions import (
    Action,
    EndBooking,
    EndWait,
    Launch,
    LeaveUnpaused,
    Lend,
    OpenToPartners,
    Pause,
    Reclaim,
    Reserve,
    Resume,
    Revise,
    Revoke,
    SetPendingReason,
    Stop,
    WarnIdle,
)
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.booking import Booking
from gpuq.core.state.device import Device, DeviceId, Host, HostId, Reading
from gpuq.core.state.events import (
    BookingCancelled,
    BookingMade,
    Event,
    Exited,
    HostDrained,
    HostForgotten,
    HostReported,
    HostResumed,
    ModelPublished,
    QuotaRemoved,
    QuotaSet,
    Started,
    Submitted,
    WentBack,
    Woke,
)
from gpuq.core.state.job import Job, JobId, KindId
from gpuq.core.state.quota import Quota, QuotaScope, flat, from_flat
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.state import State
from gpuq.core.state.transitions import Step
from gpuq.core.state.usage import Usage
from gpuq.core.state.verdict import Verdict
from gpuq.messages.codec import decoded, from_plain, plain, to_plain

RESTORED = "Restored"
KEPT_ENTRIES = 200_000
"""The journal's latest entries, which stay; older ones are removed."""
_STATE_EVERY = KEPT_ENTRIES // 2


class Journal:
    """Numbers the entries, and holds back reports that the next one may replace."""

    def __init__(self, last_seq: int) -> None:
        self.seq = last_seq
        self._entries: list[Entry] = []
        self._held_back: dict[str, tuple[float, HostReported]] = {}
        self._state_at_seq = last_seq

    def begin(self, state: State, now: float) -> None:
        """Record the whole state, so that a replay can start here."""
        self.flush()
        self._add(RESTORED, snapshot(state), now)
        self._state_at_seq = self.seq

    def begin_again_if_due(self, state: State, now: float) -> None:
        """Record the whole state if the last one is so old that it is about to be removed."""
        if self.seq - self._state_at_seq >= _STATE_EVERY:
            self.begin(state, now)

    def note(self, item: Event | Action, now: float) -> None:
        """Record one item that changed the state."""
        if isinstance(item, HostReported):
            if item.host in self._held_back and not _names_all(item, self._held_back[item.host][1]):
                self.flush()
            self._held_back[item.host] = (now, item)
        else:
            self.flush()
            self._add(*to_plain(item), now, jobs_of(item))

    def flush(self) -> None:
        """Record the reports that were held back."""
        for at, report in self._held_back.values():
            self._add(*to_plain(report), at)
        self._held_back.clear()

    def take(self) -> list[Entry]:
        """The entries since the last call, to be committed."""
        entries, self._entries = self._entries, []
        return entries

    def _add(self, name: str, body: Any, now: float, jobs: tuple[int, ...] = ()) -> None:
        self.seq += 1
        self._entries.append(Entry(seq=self.seq, at=now, name=name, body=body, jobs=jobs))


def replay(entries: Iterable[Entry]) -> State:
    """The state that these entries lead to, from the first `Restored` on."""
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
        "drained": plain(state.drained),
        "readings": plain(list(state.readings.items())),
        "verdicts": plain(list(state.verdicts.items())),
        "usage": plain(state.usage),
        "quotas": plain(list(state.quotas.values())),
        "served": plain(list(flat(state.served))),
        "reservations": plain(list(state.reservations.values())),
        "bookings": plain(list(state.bookings.values())),
        "first_attempt": state.first_attempt,
        "gang_ends": plain(list(state.gang_ends.items())),
        "unpausable": plain(state.unpausable),
    }


def from_snapshot(body: dict[str, Any]) -> State:
    """The state that `snapshot` returned as JSON types."""
    return State(
        jobs={job.id: job for job in decoded(body["jobs"], list[Job])},
        attempts={attempt.id: attempt for attempt in decoded(body["attempts"], list[Attempt])},
        devices={device.id: device for device in decoded(body["devices"], list[Device])},
        hosts={host.id: host for host in decoded(body["hosts"], list[Host])},
        readings=dict(decoded(body["readings"], list[tuple[DeviceId, Reading]])),
        verdicts=dict(decoded(body["verdicts"], list[tuple[JobId, Verdict]])),
        # Journals of earlier versions have none of these.
        drained=decoded(body.get("drained", {}), dict[HostId, str]),
        usage=decoded(body.get("usage", {}), dict[str, Usage]),
        quotas={quota.account: quota for quota in decoded(body.get("quotas", []), list[Quota])},
        served=from_flat(decoded(body.get("served", []), list[tuple[QuotaScope, str, int, float]])),
        reservations={r.job: r for r in decoded(body.get("reservations", []), list[Reservation])},
        bookings={booking.id: booking for booking in decoded(body.get("bookings", []), list[Booking])},
        first_attempt=body.get("first_attempt", 1),
        gang_ends=dict(decoded(body.get("gang_ends", []), list[tuple[JobId, Step]])),
        unpausable=decoded(body.get("unpausable", {}), dict[KindId, float]),
    )


def jobs_of(item: Event | Action) -> tuple[int, ...]:
    """The ids of the jobs that an event or action is about."""
    match item:
        case SetPendingReason(jobs=jobs) | EndWait(jobs=jobs):
            return jobs
        case Submitted(job=job):
            return (job.id,)
        case Launch(attempt=attempt):
            return (attempt.id.job,)
        case Reserve(reservation=reservation):
            return (reservation.job,)
        case Started() | Exited() | Stop() | WarnIdle() | OpenToPartners() | Revise() | Pause() | Resume() | Revoke():
            return (item.attempt.job,)
        case Lend(attempt=attempt_id) | Reclaim(attempt=attempt_id):
            return (attempt_id.job,)
        case (
            HostReported()
            | HostDrained()
            | HostResumed()
            | HostForgotten()
            | QuotaSet()
            | QuotaRemoved()
            | BookingMade()
            | BookingCancelled()
            | EndBooking()
            | LeaveUnpaused()
            | ModelPublished()
            | WentBack()
            | Woke()
        ):
            return ()
        case _:
            return (item.job,)


def _names_all(newer: HostReported, older: HostReported) -> bool:
    """Whether the newer report has every device and every resident of the older one."""
    residents = {resident.attempt for resident in newer.residents}
    devices = {device.id for device in newer.devices}
    return residents >= {r.attempt for r in older.residents} and devices >= {d.id for d in older.devices}
