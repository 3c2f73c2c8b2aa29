"""The record in this process's memory, for tests.

It keeps every promise of `contract.py` except durability, and tests/adapters/store runs the same tests on it as on SQLite and
PostgreSQL. What SQL stores as JSON passes through JSON here too: what is read back has the same types (lists, not tuples),
and a value that JSON cannot hold fails here as well.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Unpack

import msgspec
from msgspec import structs

from gpuq.adapters.store import bookings, journal, quotas
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.leadership import overtaken
from gpuq.adapters.store.row_types import (
    LEASE_S,
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
    Waits,
)
from gpuq.adapters.store.rows import clean, to_json
from gpuq.adapters.store.submit import refuse_other_bodies, verb_of
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.booking import Booking, BookingId, BookingRequest
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import ENDED, WAITING, Job, JobId, JobState
from gpuq.core.state.quota import Account, Quota, accounts
from gpuq.errors import Conflict, Failure, NotFound
from gpuq.messages.codec import decoded
from gpuq.messages.job_record import JobRecord, edited, task_record, to_core
from gpuq.messages.outcome import outcome_from_json


class MemoryStore(Store):
    """A `Store`. Safe to use from several threads of one process. `clock` is that of the database.

    The tables are public, so that a test can put rows in that no sequence of calls would give. `clock` gives Unix seconds, as the
    database's does.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.job_rows: dict[JobId, JobRow] = {}
        self.array_rows: dict[JobId, JobRecord] = {}
        self.attempt_rows: dict[AttemptId, AttemptRow] = {}
        self.device_rows: dict[DeviceId, Device] = {}
        self.host_rows: dict[str, tuple[str, int]] = {}
        self.lease_rows: dict[str, NameLease] = {}
        self.request_rows: dict[int, Request] = {}
        self.chance_rows: dict[JobId, Chance] = {}
        self.mark_rows: dict[tuple[str, str, str, float], DeviceMark] = {}
        self.drained_rows: dict[str, str] = {}
        self.quota_rows: dict[Account, Quota] = {}
        self.booking_rows: dict[BookingId, Booking] = {}
        self.token_rows: dict[str, Token] = {}
        self.joined_rows: dict[str, JoinedHost] = {}
        self.forgotten_rows: set[DeviceId] = set()
        self.entries: list[Entry] = []
        self.epoch = 0
        self.holder: str | None = None
        self.renewed_at = 0.0
        self.order_key: str | None = None
        self.first_attempt = 1
        self._clock = clock
        self._job_of_key: dict[tuple[str, str | None], JobId] = {}
        self._last_request = self._last_booking = 0
        self._lock = threading.RLock()

    # --- for the API

    def add_jobs(self, records: Sequence[JobRecord]) -> list[JobId]:
        with self._lock:
            refuse_other_bodies(records, {key: self._body(job) for key, job in self._job_of_key.items()})
            new = {(one.owner, one.idempotency_key or index): one for index, one in enumerate(records)}
            kept_keys = self._job_of_key.keys()
            quotas.refuse_beyond(
                self.quota_rows, [one for key, one in new.items() if key not in kept_keys], self._count_waiting
            )
            ids: list[JobId] = []
            last = max(self.job_rows, default=0)
            for record in records:
                key = (record.owner, record.idempotency_key)
                job = self._job_of_key.get(key)
                if job is None:
                    job = JobId(last + 1)
                    last += record.job_count
                    kept = msgspec.json.decode(msgspec.json.encode(record), type=JobRecord)
                    self._add(job, kept)
                    self.add_request(verb_of(record), job, record.owner, record.submitted_at, {})
                    if record.idempotency_key is not None:
                        self._job_of_key[key] = job
                ids.append(job)
            return ids

    def _body(self, job: JobId) -> str | None:
        return (self.array_rows.get(job) or self.job_rows[job].record).body_sha256

    def _add(self, first: JobId, record: JobRecord) -> None:
        if record.is_array:
            self.array_rows[first] = record
        for place in range(record.job_count):
            job = JobId(first + place)
            one = task_record(record, first, place) if record.is_array else record
            self.job_rows[job] = _job_row(to_core(job, one), one, None, None)

    def add_request(self, verb: str, job: JobId | None, by: str, at: float, body: Mapping[str, Any]) -> int:
        with self._lock:
            if job is not None and job not in self.job_rows:
                raise NotFound(f"There is no job {job}.")
            self._last_request += 1
            number = self._last_request
            plain = _through_json(dict(body))
            self.request_rows[number] = Request(id=number, verb=verb, job=job, by=by, at=at, body=plain)
            return number

    def add_requests(self, verb: str, jobs: Sequence[JobId], by: str, at: float, body: Mapping[str, Any]) -> None:
        with self._lock:
            if missing := [job for job in jobs if job not in self.job_rows]:
                raise NotFound(f"There is no job {missing[0]}.")
            for job in jobs:
                self.add_request(verb, job, by, at, body)

    def count_requests(self, by: str) -> int:
        with self._lock:
            return sum(
                request.by == by and not request.verb.startswith("submit") for request in self.request_rows.values()
            )

    def add_booking(self, wanted: BookingRequest, at: float) -> Booking:
        with self._lock:
            self._last_booking += 1
            number, others = BookingId(self._last_booking), self.bookings(since=at)
            busy = {DeviceId(device) for row in self.live_attempts() for device in row.devices}
            if wanted.within_quota:
                bookings.check_quota(wanted, others, self.quota_rows)
            booking = bookings.made(number, wanted, self.devices(forgotten=False), others, busy, at)
            self.booking_rows[number] = booking
            self.add_request("book", None, wanted.by, at, {"booking": msgspec.to_builtins(booking)})
            return booking

    def cancel_booking(self, booking: BookingId, by: str, at: float) -> None:
        with self._lock:
            if booking not in {one.id for one in self.bookings(since=at)}:
                raise bookings.not_found(booking)
            del self.booking_rows[booking]
            self.add_request("cancel_booking", None, by, at, {"booking": booking})

    def select(self, selection: Selection) -> dict[JobId, JobState]:
        with self._lock:
            return {job: row.state for job, row in sorted(self.job_rows.items()) if _is_selected(row, selection)}

    def job(self, job: JobId) -> JobRow | None:
        with self._lock:
            return self.job_rows.get(job)

    def jobs(self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]) -> list[JobRow]:
        with self._lock:
            ids, states, after = conditions.get("ids"), conditions.get("states"), conditions.get("after")
            owner, patterns = conditions.get("owner"), _patterns(conditions)
            newest_first = conditions.get("newest_first", False)
            rows = self.job_rows
            wanted = rows.keys() if ids is None else rows.keys() & set(ids)
            found = [
                rows[job]
                for job in sorted(wanted, reverse=newest_first)
                if (states is None or rows[job].state in states)
                and (owner is None or rows[job].record.owner == owner)
                and _matches(rows[job].record, patterns)
                and (after is None or (job < after if newest_first else job > after))
                and (tasks or rows[job].record.task is None)
                and (array is None or ((task := rows[job].record.task) is not None and task.array == array))
            ]
            return found[: conditions.get("limit")]

    def lines(
        self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]
    ) -> list[LineRow]:
        rows = self.jobs(tasks=tasks, array=array, **conditions)
        return [msgspec.convert(row, LineRow, from_attributes=True) for row in rows]

    def job_ids(
        self, *, tasks: bool = True, array: JobId | None = None, **conditions: Unpack[Conditions]
    ) -> list[JobId]:
        return [row.id for row in self.jobs(tasks=tasks, array=array, **conditions)]

    def array_ids(self, **conditions: Unpack[Conditions]) -> list[JobId]:
        return [row.id for row in self.arrays(**conditions)]

    def arrays(self, **conditions: Unpack[Conditions]) -> list[ArrayRow]:
        with self._lock:
            ids = conditions.get("ids")
            arrays = [array for array in self.array_rows if ids is None or array in ids]
            of_first_jobs: Conditions = {
                "ids": arrays,
                "owner": conditions.get("owner"),
                "after": conditions.get("after"),
                "newest_first": conditions.get("newest_first", False),
            }
            found = [self._array(row.id) for row in self.jobs(**of_first_jobs)]
            return [one for one in found if self._is_wanted(one, conditions)][: conditions.get("limit")]

    def _is_wanted(self, array: ArrayRow, conditions: Conditions) -> bool:
        """Whether one of its tasks meets states and patterns; its own name counts for each of them."""
        states, wanted = conditions.get("states"), _patterns(conditions)
        tasks = [self.job_rows[JobId(job)] for job in range(array.id, array.id + array.record.job_count)]
        in_states = [task for task in tasks if states is None or task.state in states]
        if any(_matches(task.record, wanted) for task in in_states):
            return True
        own = structs.replace(wanted, name=None)
        named = Selection(name=wanted.name).matches(array.record.submission.name, "", None)
        return bool(in_states) and named and any(_matches(task.record, own) for task in tasks)

    def _array(self, array: JobId) -> ArrayRow:
        record = self.array_rows[array]
        of_state: dict[JobState, list[JobId]] = defaultdict(list)
        for job in map(JobId, range(array, array + record.job_count)):
            of_state[self.job_rows[job].state].append(job)
        states = {state: len(jobs) for state, jobs in of_state.items()}
        return ArrayRow(id=array, record=record, states=states, first={s: min(jobs) for s, jobs in of_state.items()})

    def count_unended(self) -> dict[tuple[str, str | None, JobState], int]:
        with self._lock:
            rows = (row for row in self.job_rows.values() if row.state not in ENDED)
            return dict(Counter((row.record.owner, row.record.submission.project, row.state) for row in rows))

    def record_bytes(self, owner: str) -> int:
        with self._lock:
            mine = [row for row in self.job_rows.values() if row.record.owner == owner and row.state not in ENDED]
            of_arrays = {row.record.task.array for row in mine if row.record.task is not None}
            whole = [self.array_rows[array] for array in of_arrays]
            return sum(len(to_json(one)) for one in (*(row.record for row in mine if row.record.task is None), *whole))

    def count_by_state(self) -> dict[JobState, int]:
        with self._lock:
            return dict(Counter(row.state for row in self.job_rows.values()))

    def labels(self, ids: Sequence[JobId]) -> dict[JobId, JobLabel]:
        return {row.id: JobLabel(row.record.owner, row.record.submission.name) for row in self.jobs(ids=ids)}

    def attempts(self, *of: JobId) -> list[AttemptRow]:
        with self._lock:
            found = (row for id_, row in self.attempt_rows.items() if id_.job in of)
            return sorted(found, key=lambda row: (row.job, row.number))

    def devices(self, *, forgotten: bool = True) -> list[Device]:
        with self._lock:
            hidden = set() if forgotten else self.forgotten_rows
            found = (device for id_, device in self.device_rows.items() if id_ not in hidden)
            return sorted(found, key=lambda device: (device.host, device.id))

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
        with self._lock:
            found = (
                entry
                for entry in self.entries
                if entry.seq > after
                and (until is None or entry.seq <= until)
                and (entry.jobs or not only_jobs)
                and (job is None or job in entry.jobs)
                and (names is None or entry.name in names)
            )
            return list(islice(found, limit))

    def add_token(self, token: Token) -> None:
        with self._lock:
            self.token_rows[token.id] = token

    def token(self, token_id: str) -> Token | None:
        with self._lock:
            return self.token_rows.get(token_id)

    def tokens(self, *, user: str | None = None) -> list[Token]:
        with self._lock:
            found = (token for token in self.token_rows.values() if user in (None, token.user))
            return sorted(found, key=lambda token: (token.made_at, token.id))

    def revoke_token(self, token_id: str, at: float) -> None:
        with self._lock:
            token = self.token_rows.get(token_id)
            if token is not None and token.revoked_at is None:
                self.token_rows[token_id] = structs.replace(token, revoked_at=at)

    def joined_host(self, host: str) -> JoinedHost | None:
        with self._lock:
            return self.joined_rows.get(host)

    def replace_joined_host(self, before: JoinedHost | None, after: JoinedHost | None) -> bool:
        row = before or after
        with self._lock:
            if row is None or self.joined_rows.get(row.host) != before:
                return row is None
            if after is None:
                del self.joined_rows[row.host]
            else:
                self.joined_rows[row.host] = after
            return True

    # --- for the dispatcher

    def take_leadership(self, holder: str, lease_s: float, *, above: int = 0) -> int | None:
        with self._lock:
            now = self._clock()
            if self.holder not in {None, holder} and abs(now - self.renewed_at) <= lease_s:
                return None
            self.epoch, self.holder, self.renewed_at = max(self.epoch, above) + 1, holder, now
            return self.epoch

    def release_leadership(self, epoch: int) -> None:
        with self._lock:
            if self.epoch == epoch:
                self.holder = None

    def leader(self) -> Leader:
        with self._lock:
            return Leader(
                epoch=self.epoch,
                holder=self.holder,
                renewed_s_ago=self._clock() - self.renewed_at,
                order_key=self.order_key,
                first_attempt=self.first_attempt,
            )

    def requests(self, limit: int) -> list[Request]:
        with self._lock:
            return [request for _, request in sorted(self.request_rows.items())][:limit]

    def commit(self, commit: Commit) -> None:
        with self._lock:
            renewed_at = self._renewed(commit.epoch)
            if not self._was_kept(commit):
                self._refuse_impossible(commit)
                self._write(commit)
            self.renewed_at = renewed_at

    def revoke(self, attempt: AttemptId, at: float, *, epoch: int) -> Claim | None:
        with self._lock:
            self.renewed_at = self._renewed(epoch)
            row = self.attempt_rows.get(attempt)
            if row is None:
                return None
            if row.claimed_at is None:
                revoked_at = at if row.revoked_at is None else row.revoked_at
                self.attempt_rows[attempt] = msgspec.structs.replace(row, revoked_at=revoked_at)
                return None
            return Claim(instance=row.instance, holder=self._holder(row.host))

    def queued_jobs(self, *, after: JobId | None, limit: int) -> list[QueuedJob]:
        rows = self.jobs(states=[state for state in JobState if state not in ENDED], after=after, limit=limit)
        return [msgspec.convert(row, QueuedJob, from_attributes=True) for row in rows]

    def live_attempts(self) -> list[AttemptRow]:
        with self._lock:
            live = (row for row in self.attempt_rows.values() if row.ended_at is None)
            return sorted(live, key=lambda row: (row.job, row.number))

    def hosts(self) -> dict[str, tuple[str, int]]:
        with self._lock:
            return dict(self.host_rows)

    def drained(self) -> dict[str, str]:
        with self._lock:
            return dict(self.drained_rows)

    def bookings(self, *, since: float) -> list[Booking]:
        with self._lock:
            found = (booking for booking in self.booking_rows.values() if booking.until_at > since)
            return sorted(found, key=lambda booking: (booking.from_at, booking.id))

    def quotas(self) -> list[Quota]:
        with self._lock:
            return [self.quota_rows[account] for account in sorted(self.quota_rows)]

    def last_seq(self) -> int:
        with self._lock:
            return self.entries[-1].seq if self.entries else 0

    def prune_journal(self, before: int, *, epoch: int) -> int:
        with self._lock:
            self.renewed_at = self._renewed(epoch)
            end = min(before, self.last_seq())
            kept = [entry for entry in self.entries if entry.seq >= end]
            deleted = len(self.entries) - len(kept)
            self.entries = kept
            return deleted

    def services(self, *, since: float) -> list[Service]:
        with self._lock:
            rows = self.job_rows
            return [
                Service(
                    owner=rows[row.job].record.owner,
                    project=rows[row.job].record.submission.project,
                    job=row.job,
                    started_at=started_at,
                    ended_at=ended_at,
                    devices=len(row.devices),
                )
                for row, started_at, ended_at in self._finished(since)
            ]

    # --- for learning

    def finished_attempts(self, *, since: float = 0.0, limit: int | None = None) -> list[tuple[JobRow, AttemptRow]]:
        with self._lock:
            return [(self.job_rows[row.job], row) for row, _, _ in self._finished(since)][:limit]

    # --- for reports

    def runs(self, *, since: float) -> list[Run]:
        with self._lock:
            return [
                Run.of(self.job_rows[row.job], row)
                for row in self.attempt_rows.values()
                if row.started_at is not None and (row.ended_at is None or row.ended_at >= since)
            ]

    def device_marks(self, *, since: float, until: float) -> list[DeviceMark]:
        with self._lock:
            found = (mark for mark in self.mark_rows.values() if mark.until_at >= since and mark.from_at <= until)
            return sorted(found, key=lambda mark: (mark.from_at, mark.device, mark.kind, mark.detail))

    # --- for shadow mode

    def chances(self, *, since: float = 0.0) -> list[Chance]:
        with self._lock:
            found = (chance for chance in self.chance_rows.values() if chance.at >= since)
            return sorted(found, key=lambda chance: (chance.at, chance.job))

    # --- for the workers

    def claim(
        self, attempt: AttemptId, host: str, instance: str, boot_id: str, at: float
    ) -> tuple[JobRecord, Attempt] | None:
        with self._lock:
            job, row = self.job_rows.get(attempt.job), self.attempt_rows.get(attempt)
            if job is None or row is None:
                return None
            is_current = job.state is JobState.STARTING and job.attempt <= attempt.number
            is_over = any(when is not None for when in (row.claimed_at, row.ended_at, row.revoked_at))
            if not is_current or is_over or row.host != host or self._holder(host) not in {None, instance}:
                return None
            claimed = msgspec.structs.replace(row, claimed_at=at, boot_id=boot_id, instance=instance)
            self.attempt_rows[attempt] = claimed
            return job.record, decoded(row.launch["attempt"], Attempt)

    def lease_host(self, host: str, instance: str) -> NameLease:
        with self._lock:
            now, lease = self._clock(), self.lease_rows.get(host)
            if lease is None or lease.instance == instance or abs(now - lease.renewed_at) > LEASE_S:
                self.lease_rows[host] = NameLease(instance=instance, renewed_at=now)
            return self.lease_rows[host]

    def close(self) -> None:
        """There is nothing to let go of; what was written can still be read."""

    def _count_waiting(self, account: Account) -> int:
        rows = (row for row in self.job_rows.values() if row.state in WAITING)
        return sum(account in accounts(row.record.owner, row.record.submission.project) for row in rows)

    def _holder(self, host: str) -> str | None:
        lease = self.lease_rows.get(host)
        return None if lease is None else lease.instance

    def _finished(self, since: float) -> list[tuple[AttemptRow, float, float]]:
        """(attempt, started_at, ended_at) of attempts that started and ended at `since` or later, oldest end first."""
        found = [
            (row, row.started_at, row.ended_at)
            for row in self.attempt_rows.values()
            if row.started_at is not None and row.ended_at is not None and row.ended_at >= since
        ]
        return sorted(found, key=lambda each: (each[2], each[0].job, each[0].number))

    def _renewed(self, epoch: int) -> float:
        """When the lease of this epoch is renewed: now. Raises Conflict if another dispatcher leads."""
        if epoch != self.epoch:
            raise overtaken(epoch, self.leader())
        return self._clock()

    def _was_kept(self, commit: Commit) -> bool:
        if not commit.entries or commit.entries[-1].seq != self.last_seq():
            return False
        return _as_kept(commit.entries[0]) in self.entries

    def _refuse_impossible(self, commit: Commit) -> None:
        """Raise what SQL would raise, before anything is changed: so a refused commit leaves nothing behind."""
        seqs = [entry.seq for entry in commit.entries]
        if seqs and (min(seqs) <= self.last_seq() or len(set(seqs)) < len(seqs)):
            raise journal.number_taken(min(seqs), self.last_seq())
        if seqs and min(seqs) > self.last_seq() + 1:
            raise journal.numbers_missing(self.last_seq(), min(seqs))
        launched = [AttemptId(row.job, row.number) for row in commit.launched]
        new = set(launched)
        if (
            len(new) < len(launched)
            or new & self.attempt_rows.keys()
            or {id_.job for id_ in new} - self.job_rows.keys()
        ):
            names = ", ".join(f"{id_.job}-{id_.number}" for id_ in launched)
            raise Conflict(f"Of the attempts {names} one is in the record already, or its job is not.")
        changed = [id_ for id_, _, _ in commit.started]
        changed += [id_ for id_, _ in commit.stopped] + [id_ for id_, _ in commit.opened]
        changed += [id_ for id_, _ in commit.ended]
        missing = [str(change.job.id) for change in commit.jobs if change.job.id not in self.job_rows]
        missing += [str(job) for job, _ in commit.edited if job not in self.job_rows]
        missing += [f"{id_.job}-{id_.number}" for id_ in changed if id_ not in self.attempt_rows and id_ not in new]
        missing += [str(chance.job) for chance in commit.chances if chance.job not in self.job_rows]
        if missing:
            raise Failure(f"The record lacks a job or an attempt that was to be changed: {', '.join(missing[:10])}.")

    def _write(self, commit: Commit) -> None:
        self.entries += map(_as_kept, sorted(commit.entries, key=lambda entry: entry.seq))
        self._write_jobs(commit)
        for attempt in commit.launched:
            id_ = AttemptId(attempt.job, attempt.number)
            kept = msgspec.json.decode(msgspec.json.encode(attempt), type=AttemptRow)
            self.attempt_rows[id_] = msgspec.structs.replace(
                kept, log_path=clean(kept.log_path), reason=clean(kept.reason)
            )
        for id_, started_at, log_path in commit.started:
            self._change_attempt(id_, started_at=started_at, log_path=clean(log_path))
        for id_, promised in commit.opened:
            self._change_attempt(id_, opened_memory=promised)
        for id_, stop_reason in commit.stopped:
            self._change_attempt(id_, stop_reason=stop_reason)
        for id_, end in commit.ended:
            actual = end.get("actual")
            self._change_attempt(
                id_,
                ended_at=end["ended_at"],
                ending=end["ending"],
                exit_code=end.get("exit_code"),
                reason=clean(end.get("reason")),
                measurement=_through_json(end.get("measurement")),
                actual=None if actual is None else outcome_from_json(msgspec.json.encode(actual)),
            )
        self.device_rows.update({device.id: device for device in commit.devices})
        self.forgotten_rows -= {device.id for device in commit.devices}
        self.host_rows.update(commit.hosts)
        drained = {**self.drained_rows, **commit.drained}
        self.drained_rows = {host: why for host, why in drained.items() if why is not None}
        self.order_key = commit.order_key or self.order_key
        self.first_attempt = commit.first_attempt or self.first_attempt
        self._forget(commit.forgotten)
        changed = {**self.quota_rows, **commit.quotas}
        self.quota_rows = {account: quota for account, quota in changed.items() if quota is not None}
        for chance in commit.chances:
            self.chance_rows.setdefault(chance.job, chance)
        for mark in commit.marks:
            self.mark_rows[mark.device, mark.kind, mark.detail, mark.from_at] = mark
        for number in commit.handled:
            self.request_rows.pop(number, None)

    def _write_jobs(self, commit: Commit) -> None:
        for change in commit.jobs:
            record = self.job_rows[change.job.id].record
            plain, reason = _through_json(change.verdict), clean(change.reason)
            self.job_rows[change.job.id] = _job_row(change.job, record, plain, reason)
        for job, edit in commit.edited:
            record = edited(self.job_rows[job].record, decoded(_through_json(edit), JobEdit))
            self.job_rows[job] = msgspec.structs.replace(self.job_rows[job], record=record)
        # After the changes: a job that the same commit took out of the queue gets no verdict.
        for jobs, verdict in commit.verdicts:
            plain = _through_json(verdict)
            for waiting in jobs:
                row = self.job_rows.get(waiting)
                if row is not None and row.state is JobState.PENDING:
                    self.job_rows[waiting] = msgspec.structs.replace(row, verdict=plain)

    def _forget(self, hosts: Sequence[str]) -> None:
        self.forgotten_rows |= {device.id for device in self.device_rows.values() if device.host in hosts}
        tables: tuple[dict[str, Any], ...] = (self.host_rows, self.drained_rows, self.lease_rows, self.joined_rows)
        for host in hosts:
            for table in tables:
                table.pop(host, None)

    def _change_attempt(self, attempt: AttemptId, **fields: Any) -> None:
        self.attempt_rows[attempt] = msgspec.structs.replace(self.attempt_rows[attempt], **fields)


def _job_row(job: Job, record: JobRecord, verdict: Any, reason: str | None) -> JobRow:
    return JobRow(
        id=job.id,
        record=record,
        state=job.state,
        state_since=job.since,
        attempt=job.attempt,
        alone=job.alone,
        cancel_requested=job.cancel_requested,
        verdict=verdict,
        reason=reason,
        waits=Waits.of(job),
    )


def _patterns(conditions: Conditions) -> Selection:
    """The patterns of the conditions."""
    return Selection(name=conditions.get("name"), kind=conditions.get("kind"), project=conditions.get("project"))


def _matches(record: JobRecord, wanted: Selection) -> bool:
    """Whether a job matches the patterns."""
    return wanted.matches(record.submission.name, record.kind, record.submission.project)


def _is_selected(row: JobRow, wanted: Selection) -> bool:
    """Whether a job meets every condition."""
    return (
        (wanted.ids is None or any(first <= row.id <= last for first, last in wanted.ids))
        and (wanted.states is None or row.state in wanted.states)
        and (wanted.owner is None or row.record.owner == wanted.owner)
        and _matches(row.record, wanted)
    )


def _as_kept(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, body=_through_json(entry.body), jobs=tuple(entry.jobs))


def _through_json(value: Any) -> Any:
    """The value as it would come back from a column of JSON text."""
    return None if value is None else msgspec.json.decode(msgspec.json.encode(value))
