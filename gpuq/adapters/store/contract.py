"""The interface of the record; `row_types.py` has what it gives and takes. `sql.py` implements it on SQLite and on PostgreSQL.

All calls block; daemons call them from a thread of their own. Each call is one transaction. Times are Unix seconds, memory is
bytes, and what is unknown is None.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, Unpack

from gpuq.adapters.store.row_types import (
    ArrayRow,
    AttemptRow,
    Chance,
    Claim,
    Commit,
    Conditions,
    DeviceMark,
    Entry,
    JobLabel,
    JobRow,
    JoinedHost,
    Leader,
    LineRow,
    NameLease,
    QueuedJob,
    Request,
    Run,
    Selection,
    Service,
    Token,
)
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.booking import Booking, BookingId, BookingRequest
from gpuq.core.state.device import Device
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.quota import Quota
from gpuq.messages.job_record import JobRecord


class Claims(Protocol):
    """The part of the record that a host needs. Raises `gpuq.errors.Unreachable` when it does not answer."""

    def claim(
        self, attempt: AttemptId, host: str, instance: str, boot_id: str, at: float
    ) -> tuple[JobRecord, Attempt] | None:
        """The fenced start: one UPDATE that only succeeds once, for the job's current attempt, on the host it was ordered
        to, while the job is STARTING and no other instance has the lease of the host. Gives what was submitted and the attempt as
        it was launched; None if any of that does not hold: then the order is dropped."""
        ...

    def lease_host(self, host: str, instance: str) -> NameLease:
        """Renew the lease of a host's name for this instance, or take one that is free. Returns the lease as it is afterwards:
        of two instances that try, both see the same one."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Store(Claims, Protocol):
    """The record. Implementations raise `gpuq.errors.Unreachable` when the database does not answer."""

    # For the API: any number of processes.
    def add_jobs(self, records: Sequence[JobRecord]) -> list[JobId]:
        """Commit submissions and a request for each, `submit` or for an array `submit_array`; ids in order, of an array that of
        its first job. A known (owner, idempotency key) gives its job. Raises BadInput, and adds none, if such a key came with
        another body; OverQuota if one of the others is beyond a quota."""
        ...

    def add_request(self, verb: str, job: JobId | None, by: str, at: float, body: Mapping[str, Any]) -> int:
        """Commit a request; its id. Raises NotFound if there is no such job."""
        ...

    def add_requests(self, verb: str, jobs: Sequence[JobId], by: str, at: float, body: Mapping[str, Any]) -> None:
        """Commit one request for each of these jobs, all or none. Raises NotFound if one does not exist."""
        ...

    def count_requests(self, by: str) -> int:
        """How many requests of this user, submissions left out, the dispatcher has not handled."""
        ...

    def add_booking(self, wanted: BookingRequest, at: float) -> Booking:
        """Choose the devices of a booking and commit it, with a `book` request. Raises NeverFits, OverQuota, and Conflict, which
        names the bookings in the way."""
        ...

    def cancel_booking(self, booking: BookingId, by: str, at: float) -> None:
        """Commit that a booking is over, with a `cancel_booking` request. Raises NotFound for one that is over already."""
        ...

    def bookings(self, *, since: float) -> list[Booking]:
        """The bookings that last beyond `since` and were not cancelled, the first to begin first."""
        ...

    def select(self, selection: Selection) -> dict[JobId, JobState]:
        """The state of each job of the selection, in the order of ids."""
        ...

    def job(self, job: JobId) -> JobRow | None:
        """One job, or None."""
        ...

    def jobs(self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]) -> list[JobRow]:
        """Jobs that meet the conditions, by id. Without `tasks` those of arrays are left out; with `array` only those of this one
        are given."""
        ...

    def lines(
        self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]
    ) -> list[LineRow]:
        """The same, as lists show them: without reading the rest of what was submitted."""
        ...

    def job_ids(
        self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]
    ) -> list[JobId]:
        """Their ids alone."""
        ...

    def arrays(self, **conditions: Unpack[Conditions]) -> list[ArrayRow]:
        """Arrays that meet the conditions, by id; `states`, `name` and `kind`: at least one of its tasks meets all of them.
        `name` may also match that of the array, with the placeholders in it."""
        ...

    def array_ids(self, **conditions: Unpack[Conditions]) -> list[JobId]:
        """Their ids alone."""
        ...

    def count_unended(self) -> dict[tuple[str, str | None, JobState], int]:
        """How many jobs that have not ended each owner has in each project and state."""
        ...

    def record_bytes(self, owner: str) -> int:
        """What the records of this owner's jobs and arrays take that have not ended."""
        ...

    def count_by_state(self) -> dict[JobState, int]:
        """How many jobs are in each state; states without a job are left out."""
        ...

    def labels(self, ids: Sequence[JobId]) -> dict[JobId, JobLabel]:
        """What each of these jobs is called, without the rest of its record."""
        ...

    def attempts(self, *of: JobId) -> list[AttemptRow]:
        """All attempts of these jobs, by job and number."""
        ...

    def devices(self, *, forgotten: bool = True) -> list[Device]:
        """Every device ever reported, by host and id; or without those of hosts that were forgotten."""
        ...

    def journal(
        self,
        *,
        after: int,
        limit: int,
        job: JobId | None = None,
        only_jobs: bool = False,
        names: Collection[str] | None = None,
        until: int | None = None,
    ) -> list[Entry]:
        """Entries with seq > after, in order; `only_jobs` leaves out those that name no job. `names`: only those called so;
        `until`: only those with seq <= until; neither together with `job`."""
        ...

    def add_token(self, token: Token) -> None:
        """Commit a new token."""
        ...

    def token(self, token_id: str) -> Token | None:
        """One token, revoked ones included, or None."""
        ...

    def tokens(self, *, user: str | None = None) -> list[Token]:
        """All tokens, or those of one user, oldest first."""
        ...

    def revoke_token(self, token_id: str, at: float) -> None:
        """Mark a token as revoked from `at` on; one that was revoked keeps its time."""
        ...

    def joined_host(self, host: str) -> JoinedHost | None:
        """The host that was invited under this name, joined or not, or None."""
        ...

    def replace_joined_host(self, before: JoinedHost | None, after: JoinedHost | None) -> bool:
        """Put `after` in place of `before`, None for no row. Returns whether `before` was still there; else nothing changes."""
        ...

    # For the dispatcher: one process writes, the leader.
    def take_leadership(self, holder: str, lease_s: float, *, above: int = 0) -> int | None:
        """Lead from now on: the epoch, higher than any before and than `above`. None while another holder has the leadership, has
        not released it and has renewed it within `lease_s` seconds."""
        ...

    def release_leadership(self, epoch: int) -> None:
        """Let another dispatcher lead at once, unless one leads already in a later epoch."""
        ...

    def leader(self) -> Leader:
        """Which dispatcher leads."""
        ...

    def requests(self, limit: int) -> list[Request]:
        """Requests not yet handled, oldest first."""
        ...

    def commit(self, commit: Commit) -> None:
        """All of it or nothing; renews the lease. Raises Conflict if the commit's epoch is not the current one, because another
        dispatcher leads, or if a journal number is taken by another entry. A commit that was kept before, although its answer was
        lost, is not kept a second time."""
        ...

    def revoke(self, attempt: AttemptId, at: float, *, epoch: int) -> Claim | None:
        """Take back the order to start an attempt unless it was claimed: exactly one of claim and revoke succeeds. None: no
        claim of it can succeed any more. A repeated call gives the same. Renews the lease, raises Conflict as `commit` does."""
        ...

    def queued_jobs(self, *, after: JobId | None, limit: int) -> list[QueuedJob]:
        """Jobs that have not ended, by id. `after` is the last id of the page before."""
        ...

    def live_attempts(self) -> list[AttemptRow]:
        """Attempts without an end."""
        ...

    def hosts(self) -> dict[str, tuple[str, int]]:
        """host -> (boot_id, highest spool number committed)."""
        ...

    def drained(self) -> dict[str, str]:
        """Drained host -> why."""
        ...

    def quotas(self) -> list[Quota]:
        """All quotas, by account."""
        ...

    def last_seq(self) -> int:
        """The newest journal number; 0 for an empty journal."""
        ...

    def prune_journal(self, before: int, *, epoch: int) -> int:
        """Delete entries with seq < before; how many. The newest entry always stays: the next number follows it. Renews the
        lease, and raises Conflict as `commit` does."""
        ...

    def services(self, *, since: float) -> list[Service]:
        """The devices and times of attempts that ended at `since` or later, oldest end first."""
        ...

    # For learning.
    def finished_attempts(self, *, since: float = 0.0, limit: int | None = None) -> list[tuple[JobRow, AttemptRow]]:
        """Attempts that started and ended at `since` or later, oldest end first, with their jobs."""
        ...

    # For reports.
    def runs(self, *, since: float) -> list[Run]:
        """Attempts that started, and ended at `since` or later or run still."""
        ...

    def device_marks(self, *, since: float, until: float) -> list[DeviceMark]:
        """What was seen on devices at some time from `since` to `until`, the first to begin first."""
        ...

    # For shadow mode.
    def chances(self, *, since: float = 0.0) -> list[Chance]:
        """First chances at `since` or later, oldest first."""
        ...
