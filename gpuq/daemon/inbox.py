"""Turns messages from Redis and rows of the requests table into events, in order, each once.

A worker event is taken only if it is the next of its host: repeats are dropped, and after a gap the host sends again. A report is
taken only if no later one of its host was. For submissions and requests only the table counts. Redis merely wakes the
dispatcher, which reads the table every second anyway.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from msgspec import UNSET, UnsetType

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Request, Selection
from gpuq.array import merged
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Ending
from gpuq.core.state.booking import Booking
from gpuq.core.state.dependency import Dependency, left_of_each
from gpuq.core.state.device import HostId
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.events import (
    BookingCancelled,
    BookingMade,
    CancelRequested,
    Event,
    Exited,
    HoldRequested,
    HostDrained,
    HostForgotten,
    HostResumed,
    JobEdited,
    ModelPublished,
    QuotaRemoved,
    QuotaSet,
    ReleaseRequested,
    Submitted,
)
from gpuq.core.state.job import ENDED, Job, JobId, JobState
from gpuq.core.state.quota import Account, Quota
from gpuq.core.state.sender import HostEvent
from gpuq.core.state.state import State
from gpuq.messages import reported
from gpuq.messages.codec import decoded
from gpuq.messages.job_record import JobRecord, QueuedRecord, queued_task, to_core
from gpuq.messages.wire import (
    Acknowledgement,
    HeldAttempt,
    HostKeys,
    HostReport,
    LentCores,
    Loans,
    Pauses,
    ReportNumber,
    Spooled,
)

log = logging.getLogger(__name__)

REQUESTS_AT_ONCE = 2000
_LOG_REFUSALS_EVERY_S = 60.0


@dataclass(frozen=True)
class Received:
    """An event with the host that has signed it, and when it was sent, by the dispatcher's clock."""

    sender: HostId
    event: HostEvent
    at: float


class EventInbox:
    """Takes from each host what is new and signed by it, and acknowledges it.

    Reports are numbered in a way that shows a repeated one without comparing clocks (`ReportNumber`): a report counts only if it
    repeats the name of this dispatcher process from an acknowledgement, and has a higher number than the one before it.
    """

    def __init__(self, taken: dict[str, int], keys: HostKeys, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`taken`: the last event of each host that is committed. `seen_epochs`: the highest epoch that each host has seen.
        `lost_events`: the numbers that were acknowledged to a host, by which the record has no events. `unread`: the hosts whose
        last report could not be read, and why.
        """
        self.taken = taken
        self.keys = keys
        self._monotonic = monotonic
        self._dispatcher = secrets.token_hex(8)
        self._last_report: dict[str, ReportNumber] = {}
        # All known hosts at the start, so that they learn the name of this process.
        self._to_acknowledge = set(taken)
        self._refusals: dict[str, tuple[float, int]] = {}
        self.seen_epochs: dict[str, int] = {}
        self.lost_events: dict[str, range] = {}
        self.unread: dict[str, str] = {}
        self._acknowledged: dict[str, Acknowledgement] = {}
        # By host, what was last said of its attempts that stand still and of its cores that are lent.
        self._standing: dict[str, tuple[Pauses, Loans | UnsetType]] = {}
        self._named: frozenset[str] = frozenset()
        self._beat = 0

    def worker_events(self, messages: Iterable[tuple[Spooled | HostReport, float]]) -> list[Received]:
        """The new events in these messages, each of which comes with the time when it was sent."""
        received = []
        for message, sent_at in messages:
            if not self.keys.is_genuine(message):
                self.refused("", f"a message in the name of {message.host:.60} is not signed by it")
                continue
            host = message.host
            if isinstance(message, HostReport) and not isinstance(message.epoch, UnsetType):
                # Also in a report for an earlier dispatcher: the host takes nothing from this one until its epoch is higher.
                self.seen_epochs[host] = message.epoch
            self.taken.setdefault(host, 0)
            self._to_acknowledge.add(host)
            try:
                event = self._new_event(message)
            except ValueError as error:
                what, action = (
                    ("report", "drop_report") if isinstance(message, HostReport) else ("worker event", "drop_event")
                )
                log.error("%s dropped: %s", what, error, extra={"action": action, "host": host})
                if isinstance(message, HostReport):
                    self.unread[host] = str(error)
                continue
            if event is not None:
                received.append(Received(HostId(host), event, sent_at))
        return received

    def acknowledgements(self, epoch: int) -> dict[str, bytes]:
        """What to send in this epoch to the hosts that were heard since the last call, once their events are committed.

        It is sent with every report, because a flushed Redis loses it.
        """
        hosts, self._to_acknowledge = self._to_acknowledge, set()
        self._acknowledged.update({host: self._acknowledgement(host, epoch) for host in hosts})
        return {host: self._sealed(host) for host in sorted(hosts)}

    def with_pauses(
        self, held: Mapping[str, tuple[HeldAttempt, ...]], lent: Mapping[str, tuple[LentCores, ...]]
    ) -> dict[str, bytes]:
        """The last acknowledgements again, to the hosts whose attempts are to stand still or have cores lent, and to those where
        some did so far."""
        named, self._beat = {**held, **lent, **dict.fromkeys(self._named)}, self._beat + 1
        self._named = frozenset(held).union(lent)
        for host in named:
            _, before = self._standing.get(host, (UNSET, UNSET))
            loans = Loans(self._beat, lent.get(host, ())) if host in lent or before is not UNSET else UNSET
            self._standing[host] = Pauses(self._beat, held.get(host, ())), loans
        return {host: self._sealed(host) for host in named if host in self._acknowledged}

    def _sealed(self, host: str) -> bytes:
        """The last acknowledgement to the host, with what was last said of pauses and loans: each replaces the one before, which
        the host may not have read."""
        pauses, loans = self._standing.get(host, (UNSET, UNSET))
        return self.keys.sealed(msgspec.structs.replace(self._acknowledged[host], pauses=pauses, loans=loans))

    def forget(self, host: str) -> None:
        """The host is gone. One that joins under its name begins again at 1."""
        self.taken.pop(host, None)
        self.unread.pop(host, None)
        self._last_report.pop(host, None)
        self._acknowledged.pop(host, None)
        self._standing.pop(host, None)
        self._to_acknowledge.discard(host)

    def refused(self, sender: str, what: str) -> None:
        """Log that a message, or a part of it, was refused: once a minute for each sender, "" if it is not known."""
        logged_at, left_out = self._refusals.get(sender, (-_LOG_REFUSALS_EVERY_S, 0))
        if self._monotonic() - logged_at < _LOG_REFUSALS_EVERY_S:
            self._refusals[sender] = (logged_at, left_out + 1)
            return
        self._refusals[sender] = (self._monotonic(), 0)
        since = f" ({left_out} more since the last line like this)" if left_out else ""
        log.warning("refused: %s%s", what, since, extra={"action": "refuse", "host": sender or "unknown"})

    def _new_event(self, message: Spooled | HostReport) -> HostEvent | None:
        """The event in a genuine message; None if it is not the next one. Raises ValueError if it cannot be read."""
        if isinstance(message, HostReport):
            # One that cannot be read is not answered either: an answer would renew the leases of the host's jobs.
            event = reported.report(message.body)
            if not self._counts(message):
                return None
            self.unread.pop(message.host, None)
            return event
        if message.seq != self.taken[message.host] + 1:
            return None
        # Counted as taken even if it cannot be read: the host would send it for ever, and nothing behind it.
        self.taken[message.host] = message.seq
        return reported.event(message.name, message.body)

    def _counts(self, report: HostReport) -> bool:
        """Whether this report is newer than all before it. What it says of the spool is noted then."""
        number, host = report.number, report.host
        if isinstance(number, UnsetType):
            return True  # of the previous release
        last = self._last_report.get(host)
        # One for an earlier dispatcher may be a repeated one. A live host reads the name of this dispatcher within a second.
        if number.dispatcher != self._dispatcher or (last is not None and number.number <= last.number):
            return False
        self._last_report[host] = number
        if not isinstance(report.committed, UnsetType) and report.committed > self.taken[host]:
            self.lost_events[host] = range(self.taken[host] + 1, report.committed + 1)
        if not isinstance(report.first_seq, UnsetType) and report.first_seq > self.taken[host] + 1:
            lost = report.first_seq - 1 - self.taken[host]
            message = "%s events of host %s were lost there; the ends of its attempts will be sent again"
            log.warning(message, lost, host, extra={"action": "skip_events", "host": host})
            self.taken[host] = report.first_seq - 1
        return True

    def _acknowledgement(self, host: str, epoch: int) -> Acknowledgement:
        last = self._last_report.get(host)
        worker, number = (last.worker, last.number) if last else ("", 0)
        return Acknowledgement(host, self.taken.get(host, 0), worker, number, self._dispatcher, epoch=epoch)


def requested_events(store: Store) -> tuple[list[Request], dict[JobId, JobRecord | QueuedRecord], list[Event]]:
    """Requests not yet handled, the records of newly submitted jobs, and the events that follow from both. Blocks."""
    requests = store.requests(REQUESTS_AT_ONCE)
    submitted, arrays = (
        [request.job for request in requests if request.verb == verb and request.job is not None]
        for verb in ("submit", "submit_array")
    )
    # Of each request for a submission: its jobs with their records.
    jobs: dict[JobId, dict[JobId, JobRecord | QueuedRecord]] = {}
    for row in store.jobs(ids=submitted) if submitted else ():
        jobs[row.id] = {row.id: row.record}
    for array in store.arrays(ids=arrays) if arrays else ():
        places = range(array.record.job_count)
        jobs[array.id] = {JobId(array.id + place): queued_task(array.record, array.id, place) for place in places}
    records = {job: record for those in jobs.values() for job, record in those.items()}
    submissions = {job: [to_core(one, record) for one, record in those.items()] for job, those in jobs.items()}
    # What the record has as ended now is not in the state any more, and nothing leaves the state before these events are applied.
    waits = {job.after for those in submissions.values() for job in those}
    left = left_of_each(waits, ended_among(store, {dependency for after in waits for dependency in after}))
    submitted_jobs = {
        job: [replace(one, after=left[one.after]) if one.after else one for one in those]
        for job, those in submissions.items()
    }
    return requests, records, [event for request in requests for event in _readable(request, submitted_jobs)]


def ended_among(store: Store, dependencies: Collection[Dependency]) -> dict[int, JobState]:
    """How those of the jobs that dependencies are on have ended which have. Blocks."""
    if not dependencies:
        return {}
    # Each task of an array may wait for one of another: these are a range again.
    ranges = merged((dependency.first, dependency.last) for dependency in dependencies)
    return {job: state for job, state in store.select(Selection(ids=tuple(ranges))).items() if state in ENDED}


def _readable(request: Request, submitted: Mapping[JobId, Sequence[Job]]) -> list[Event]:
    """The events of a request; none of one that cannot be read, as that of a later release's endpoint, or of a damaged row: an
    error would end this dispatcher, and the next one at the same request."""
    try:
        return _events_of(request, submitted)
    except (KeyError, ValueError) as error:
        message = "request %s, `%s`, cannot be read: %s"
        log.error(message, request.id, request.verb, error, extra={"action": "drop_request"})
        return []


def _events_of(request: Request, submitted: Mapping[JobId, Sequence[Job]]) -> list[Event]:  # noqa: C901, PLR0912 - one case per verb
    job, by = request.job, request.by
    match request.verb:
        case "submit" | "submit_array" if job is not None:
            return [Submitted(one) for one in submitted[job]]
        case "cancel" if job is not None:
            return [CancelRequested(job, by)]
        case "hold" if job is not None:
            return [HoldRequested(job, by)]
        case "release" if job is not None:
            return [ReleaseRequested(job, by)]
        case "edit" if job is not None:
            return [JobEdited(job, decoded(request.body["edit"], JobEdit), by)]
        case "drain":
            return [HostDrained(HostId(request.body["host"]), by, request.body["why"])]
        case "resume":
            return [HostResumed(HostId(request.body["host"]), by)]
        case "quota":
            return [QuotaSet(decoded(request.body["quota"], Quota), by)]
        case "remove_quota":
            return [QuotaRemoved(decoded(request.body["account"], Account), by)]
        case "book":
            return [BookingMade(decoded(request.body["booking"], Booking))]
        case "cancel_booking":
            return [BookingCancelled(request.body["booking"], by)]
        case "model":
            return [ModelPublished(request.body.get("version"))]
        case "pause" | "lost" | "forget":
            return []  # `pause` concerns the policy, which is not part of the state; for the others see below
        case _:
            log.error("request %s is not known: %s", request.id, request.verb, extra={"action": "drop_request"})
            return []


def events_of_silent_host(request: Request, state: State, silent_since: float, at: float) -> list[Event]:
    """What follows from an admin's `lost` or `forget`; nothing if the host has reported after `silent_since` after all.

    `lost`: the ends, at `at` by the wall clock, of the attempts there. Those with a lease end with it, unless the host was
    switched off. `forget`: the removal of the host.
    """
    name = HostId(request.body["host"])
    host = state.hosts.get(name)
    if host is not None and host.last_seen >= silent_since:
        log.error("`%s` of host %s was ignored: the host reports", request.verb, name, extra={"action": "drop_request"})
        return []
    if request.verb == "forget":
        return [HostForgotten(name, request.by)]
    reason = f"host {name} was reported lost by {request.by}"
    fenced = bool(request.body.get("fenced"))
    attempts = [one.id for one in state.attempts.values() if one.host == name and (fenced or one.lease_s is None)]
    return [Exited(attempt, at, Ending.LOST, None, reason, Measurement()) for attempt in attempts]
