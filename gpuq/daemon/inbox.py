"""Turns messages from Redis and rows of the requests table into events, in order, each once.

A worker event is taken only if it is the next of its host: repeats are dropped, and after a gap the host sends again. For
submissions and requests only the table counts. Redis merely wakes the dispatcher, which reads the table every second anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from gpuq.adapters.store.contract import Request, Store
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import HostId
from gpuq.core.state.events import (
    CancelRequested,
    Event,
    Exited,
    HoldRequested,
    HostDrained,
    HostReported,
    HostResumed,
    ModelPublished,
    ReleaseRequested,
    Submitted,
)
from gpuq.core.state.job import JobId
from gpuq.core.state.state import State
from gpuq.messages.codec import from_plain, noun
from gpuq.messages.submission import JobRecord, to_core
from gpuq.messages.wire import HostReport, Spooled, is_genuine

log = logging.getLogger(__name__)

REQUESTS_AT_ONCE = 2000


class EventInbox:
    """Remembers per host the last event that was taken. Messages that are not signed with `key` are dropped."""

    def __init__(self, taken: dict[str, int], key: str) -> None:
        self.taken = taken
        self._key = key

    def worker_events(self, messages: Iterable[Spooled | HostReport]) -> list[Event]:
        """The events in these messages that are new."""
        events: list[Event] = []
        for message in messages:
            host = message.host
            if not is_genuine(message, self._key):
                warning = "dropped a message in the name of %s: its signature does not match"
                log.warning(warning, host, extra={"action": "drop_forged"})
                continue
            try:
                if isinstance(message, HostReport):
                    self.taken.setdefault(host, 0)
                    events.append(noun(message.body, HostReported))
                elif message.seq == self.taken.get(host, 0) + 1:
                    # Counted as taken even if it cannot be read: the host would send it for ever, and nothing behind it.
                    self.taken[host] = message.seq
                    events.append(from_plain(message.name, message.body))  # type: ignore[arg-type]
            except ValueError as error:
                what, action = (
                    ("report", "drop_report") if isinstance(message, HostReport) else ("worker event", "drop_event")
                )
                log.error("%s dropped: %s", what, error, extra={"action": action, "host": host})
        return events


def requested_events(store: Store) -> tuple[list[Request], dict[JobId, JobRecord], list[Event]]:
    """Requests not yet handled, the records of newly submitted jobs, and the events that follow from both. Blocks."""
    requests = store.requests(REQUESTS_AT_ONCE)
    submitted = [r.job for r in requests if r.verb == "submit" and r.job is not None]
    rows = {row.id: row.record for row in store.jobs(ids=submitted)} if submitted else {}
    return requests, rows, [event for request in requests for event in _events_of(request, rows)]


def _events_of(request: Request, rows: dict[JobId, JobRecord]) -> list[Event]:
    job, by = request.job, request.by
    match request.verb:
        case "submit" if job is not None:
            return [Submitted(to_core(job, rows[job]))]
        case "cancel" if job is not None:
            return [CancelRequested(job, by)]
        case "hold" if job is not None:
            return [HoldRequested(job, by)]
        case "release" if job is not None:
            return [ReleaseRequested(job, by)]
        case "drain":
            return [HostDrained(HostId(request.body["host"]), by, request.body["why"])]
        case "resume":
            return [HostResumed(HostId(request.body["host"]), by)]
        case "model":
            return [ModelPublished(request.body.get("version"))]
        case "pause" | "lost":
            return []  # `pause` concerns the policy, which is not part of the state; for `lost` see `ends_on_lost_host`
        case _:
            log.error("request %s is not known: %s", request.id, request.verb, extra={"action": "drop_request"})
            return []


def ends_on_lost_host(request: Request, state: State, silent_since: float, now: float) -> list[Event]:
    """The ends of all attempts on the host that an admin reported as lost; none if it has reported since then after all."""
    name = HostId(request.body["host"])
    host = state.hosts.get(name)
    if host is not None and host.last_seen >= silent_since:
        log.error("host %s was reported lost, but it reports", name, extra={"action": "drop_request"})
        return []
    reason = f"host {name} was reported lost by {request.by}"
    attempts = [attempt.id for attempt in state.attempts.values() if attempt.host == name]
    return [Exited(attempt, now, Ending.LOST, None, reason, Measurement()) for attempt in attempts]
