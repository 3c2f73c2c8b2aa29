"""Turns messages from Redis and rows of the requests table into events, in order, each once.

A worker event is taken only if it is the next of its host: repeats are dropped, and after a gap the host sends again. For
submissions and requests only the table counts. Redis merely wakes the dispatcher, which reads the table every second anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from gpuq.adapters.store.contract import Request, Store
from gpuq.codec import from_plain, noun
from gpuq.core.state.events import (
    CancelRequested,
    Event,
    HoldRequested,
    HostReported,
    ModelPublished,
    ReleaseRequested,
    Submitted,
)
from gpuq.core.state.job import JobId
from gpuq.submission import JobRecord, to_core
from gpuq.wire import HostReport, Spooled, is_genuine

log = logging.getLogger(__name__)

REQUESTS_AT_ONCE = 2000


class EventInbox:
    """Remembers per host the last event that was taken. Messages that are not signed with `key` are dropped."""

    def __init__(self, taken: dict[str, int], key: str) -> None:
        self.taken = taken
        self._key = key

    def worker_events(self, messages: Iterable[Spooled | HostReport]) -> list[Event]:
        """The events in these messages that are new."""
        genuine = filter(self._is_genuine, messages)
        events = (self._report(m) if isinstance(m, HostReport) else self._spooled(m) for m in genuine)
        return [event for event in events if event is not None]

    def _is_genuine(self, message: Spooled | HostReport) -> bool:
        if is_genuine(message, self._key):
            return True
        log.warning(
            "dropped a message in the name of %s: its signature does not match",
            message.host,
            extra={"action": "drop_forged"},
        )
        return False

    def _spooled(self, message: Spooled) -> Event | None:
        if message.seq != self.taken.get(message.host, 0) + 1:
            return None
        self.taken[message.host] = message.seq
        try:
            return from_plain(message.name, message.body)  # type: ignore[return-value]
        except ValueError as error:
            log.error("worker event dropped: %s", error, extra={"action": "drop_event", "host": message.host})
            return None

    def _report(self, message: HostReport) -> Event | None:
        self.taken.setdefault(message.host, 0)
        try:
            return noun(message.body, HostReported)
        except ValueError as error:
            log.error("report dropped: %s", error, extra={"action": "drop_report", "host": message.host})
            return None


def requested_events(store: Store) -> tuple[list[Request], dict[JobId, JobRecord], list[Event]]:
    """Requests not yet handled, the records of newly submitted jobs, and the events that follow from both. Blocks."""
    requests = store.requests(REQUESTS_AT_ONCE)
    submitted = [r.job for r in requests if r.verb == "submit" and r.job is not None]
    rows = {row.id: row.record for row in store.jobs(ids=submitted)} if submitted else {}
    return requests, rows, [event for request in requests for event in _events_of(request, rows)]


def _events_of(request: Request, rows: dict[JobId, JobRecord]) -> list[Event]:
    job = request.job
    match request.verb:
        case "submit" if job is not None:
            return [Submitted(to_core(job, rows[job]))]
        case "cancel" if job is not None:
            return [CancelRequested(job, request.by)]
        case "hold" if job is not None:
            return [HoldRequested(job, request.by)]
        case "release" if job is not None:
            return [ReleaseRequested(job, request.by)]
        case "model":
            return [ModelPublished(request.body.get("version"))]
        case "pause":
            return []
        case _:
            log.error("request %s is not known: %s", request.id, request.verb, extra={"action": "drop_request"})
            return []
