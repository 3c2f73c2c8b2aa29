"""The dispatcher's loop: one coroutine, one consumer, no lock.

    inbox ▶ apply ▶ collect forecasts ▶ decide ▶ apply the actions ▶ commit ▶ perform

No action is performed, and no message acknowledged, before the commit. While the database is away the loop waits and tries
again; jobs run on meanwhile. A commit raises Conflict when another dispatcher has taken over; that ends the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from gpuq.adapters.redis.stream import Stream
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Request
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.idle import NEVER_IDLE, IdleLimits, idle_actions
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Policy, propose_nothing
from gpuq.core.scheduling.revise import revisions
from gpuq.core.scheduling.waits import ended_waits
from gpuq.core.state.actions import Abandon, Action, Archive, EndWait, Launch, Requeue
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.events import (
    BookingMade,
    Event,
    Exited,
    HostForgotten,
    HostReported,
    JobEdited,
    ModelPublished,
    Submitted,
    Woke,
)
from gpuq.core.state.sender import own_part
from gpuq.core.state.state import State
from gpuq.daemon.accounts import with_rates_of_kinds
from gpuq.daemon.acknowledge import Acknowledger
from gpuq.daemon.clock import SteadyClock
from gpuq.daemon.inbox import REQUESTS_AT_ONCE, EventInbox, Received, events_of_silent_host, requested_events
from gpuq.daemon.job_leases import JobLeases
from gpuq.daemon.journal import KEPT_ENTRIES, Journal
from gpuq.daemon.leadership import Lease
from gpuq.daemon.learner import Learner
from gpuq.daemon.listen import Listener
from gpuq.daemon.lost import LostCommits
from gpuq.daemon.marks import DeviceMarks
from gpuq.daemon.outcome import outcome_of
from gpuq.daemon.perform import Performer
from gpuq.daemon.record import Recorder
from gpuq.daemon.shadow import Shadow
from gpuq.daemon.start_estimates import StartEstimates
from gpuq.daemon.unrecorded import UnrecordedAttempts
from gpuq.daemon.unstarted import accepted, revoke
from gpuq.daemon.view import View
from gpuq.errors import Unreachable
from gpuq.messages.live import DispatcherStatus, PolicyReplacement, PolicyStatus
from gpuq.messages.outcome import AttemptOutcome
from gpuq.messages.wire import CommitMark, HostReport, Message, Order, Spooled, WakeUp
from gpuq.policies.guard import Guarded

log = logging.getLogger(__name__)
T = TypeVar("T")

_TICK_S = 1.0
_RETRY_S = 0.5
_VIEW_EVERY_S = 0.5
_VIEW_LIVES_S = 15
# The journal is shortened after so many new entries, so that each removal is over in a moment.
_PRUNE_EVERY = 5000
# A record that was restored from a backup is this many epochs behind its hosts at most.
_FURTHEST_EPOCH = 1_000_000
# A pass over a long queue may take a while; reports alone do not make it run more than this share of the time.
_PASS_SHARE = 0.25


@dataclass
class DispatcherDependencies:
    """What the dispatcher works with; tests pass their own."""

    store: Store
    lease: Lease
    stream: Stream
    performer: Performer
    learner: Learner
    policy: Guarded
    limits: Limits
    clock: SteadyClock
    run_blocking: Callable[..., Any]
    shadow: Shadow | None = None
    starts: StartEstimates | None = None
    idle: IdleLimits = NEVER_IDLE


@dataclass
class Cycle:
    """What one cycle received, and the actions that it leads to."""

    now: float
    messages: list[tuple[str, Message]] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    handled: list[Request] = field(default_factory=list)


class Dispatcher:
    """The state, and the cycles that change it. `beat` is when the last cycle ended, for the watchdog."""

    def __init__(self, parts: DispatcherDependencies, state: State, journal: Journal, inbox: EventInbox) -> None:
        self.parts = parts
        self.state = state
        self.journal = journal
        self._cache = PassCache()
        self._forecasts = ForecastTable(parts.learner.answer)
        self._policy: Policy = parts.policy
        self.inbox = inbox
        self.listener = Listener(parts.stream, parts.clock)
        self.acknowledger = Acknowledger(parts.stream, inbox, state, parts.limits, parts.clock)
        self.lost = LostCommits(inbox.keys, parts.limits.stale_after_s)
        self.unrecorded = UnrecordedAttempts(self.lost.note)
        self.job_leases = JobLeases(parts.clock())
        self.marks = DeviceMarks()
        self._last_job = max((row.id for row in parts.store.jobs(newest_first=True, limit=1)), default=0)
        self.view = View(parts.limits, parts.learner.alone_rate, self.lost.of, inbox.unread)
        self.recorder = Recorder(parts.learner.features_of, self._outcome_of)
        self._committed: dict[str, int] = dict(inbox.taken)
        self._recorded_seq = journal.seq
        self._pruned_at_seq = journal.seq // _PRUNE_EVERY * _PRUNE_EVERY
        self._listening_since = parts.clock()
        self._next_pass_at = 0.0
        self._next_view_at = 0.0
        self._cycle_again = False
        self._read_again = True
        self._read_at = float("-inf")
        self._revoked: list[Exited] = []
        self.beat = 0.0
        # What is recorded or shown has wall time; the state, and all that is measured in seconds, has the steady clock's.
        self._wall_offset = 0.0

    async def run(self) -> None:
        """Run cycles until cancelled: one for each batch of messages, and at least one a second."""
        self.journal.begin(self.state, self.parts.clock())
        ticked_at = float("-inf")
        while True:
            at_once = self._cycle_again or self._read_again
            messages = await self.listener.next_messages(0.0 if at_once else _TICK_S)
            ticked = self.parts.clock() - ticked_at >= _TICK_S or not (at_once or messages)
            woken = any(isinstance(message, WakeUp) for _, message in messages)
            await self.cycle(messages, read_requests=ticked or woken or self._read_again)
            if ticked:
                ticked_at = self.parts.clock()

    async def cycle(self, messages: Sequence[tuple[str, Message]], *, read_requests: bool) -> None:
        """Run one cycle. With `read_requests` the requests in the database are read too."""
        cycle = Cycle(self.parts.clock(), list(messages))
        self._wall_offset = self.parts.clock.wall_offset()
        self._cycle_again = False
        await self.lost.compare(self.parts.stream, self._recorded_seq, self._last_job, cycle.now)
        await self._take_in(cycle, read_requests)
        changed = self._apply_received(cycle)
        changed += [event for event in cycle.events if self._apply(event, cycle.now)]
        await self._learn(cycle, changed)
        # Reports alone, which come every second, do not cause a pass before it is due.
        if cycle.now >= self._next_pass_at or any(not isinstance(event, HostReported) for event in changed):
            await self._decide(cycle)
        await self._commit(cycle)
        await self._after_commit(cycle)
        self.beat = self.parts.clock()

    # --- in ------------------------------------------------------------------------------------------------------

    async def _take_in(self, cycle: Cycle, read_requests: bool) -> None:
        cycle.events, self._revoked = [*self._revoked], []
        from_workers = [
            (message, self.listener.sent_at(message_id, cycle.now))
            for message_id, message in cycle.messages
            if isinstance(message, Spooled | HostReport)
        ]
        taken = self.inbox.worker_events(from_workers)
        await self._look_for_losses(cycle)
        for received in taken:
            event, at = received.event, cycle.now + self._wall_offset
            if isinstance(event, HostReported):
                self.job_leases.heard(received.sender, event.instance, cycle.now)
            elif isinstance(event, Exited):
                attempt = self.state.attempts.get(event.attempt)
                work = partial(accepted, self.parts.lease, self.job_leases, event, attempt, cycle.now, at)
                end = await self._until_it_works(work)
                if end is not None:
                    cycle.received.append(replace(received, event=end))
                continue
            cycle.received.append(received)
        cycle.events += self.job_leases.ends(self.state, cycle.now, cycle.now + self._wall_offset)
        if read_requests:
            cycle.handled, records, events = await self._until_it_works(partial(requested_events, self.parts.store))
            # No wake-up comes for the rest of a large batch, so the next cycle must fetch it.
            self._read_again = len(cycle.handled) == REQUESTS_AT_ONCE
            if any(request.verb == "pause" for request in cycle.handled):
                self._policy = propose_nothing
            for request in cycle.handled:
                if request.verb in {"lost", "forget"}:
                    silent_since = cycle.now - self.parts.limits.stale_after_s
                    cycle.events += events_of_silent_host(
                        request, self.state, silent_since, cycle.now + self._wall_offset
                    )
            for job, record in records.items():
                self.parts.learner.register(job, record)
            cycle.events += [_dated(event, self._read_at, cycle.now, self._wall_offset) for event in events]
            if not self._read_again:
                self._read_at = cycle.now
        if not cycle.events and not cycle.received:
            cycle.events.append(Woke())

    async def _look_for_losses(self, cycle: Cycle) -> None:
        """Notice where hosts are ahead of the record. The epoch rises above those that they have seen, because they follow no
        lower one; a captured host cannot raise it far."""
        lease = self.parts.lease
        for host, epoch in self.inbox.seen_epochs.items():
            if epoch > lease.epoch + _FURTHEST_EPOCH:
                self.inbox.refused(host, f"host {host} claims to have seen epoch {epoch}")
            elif epoch > lease.epoch:
                await self._until_it_works(partial(lease.raise_above, epoch))
        for host, numbers in self.inbox.lost_events.items():
            self.lost.note_events(host, numbers)
        self.inbox.lost_events.clear()
        if (renumbering := self.lost.renumbering(self.state)) is not None:
            cycle.events.append(renumbering)

    def _apply_received(self, cycle: Cycle) -> list[Event]:
        """Apply what hosts sent, as far as it is about themselves. Returns the events that changed the state."""
        changed: list[Event] = []
        for received in cycle.received:
            sender, since = received.sender, self._listening_since
            event, foreign = own_part(self.state, sender, received.event, now=cycle.now, listening_since=since)
            if isinstance(event, HostReported):
                event = with_rates_of_kinds(event, self.state, self.parts.learner.alone_rate, received.at)
            if foreign:
                self.inbox.refused(sender, f"host {sender} reported what is not its own: {foreign[0]}")
            # The moment of a start or an end is in the event; a report holds from when it was sent.
            if event is not None and self._apply(event, received.at if isinstance(event, HostReported) else cycle.now):
                changed.append(event)
        return changed

    def _apply(self, item: Event | Action, now: float) -> bool:
        self.recorder.before(item, self.state)
        if not apply(self.state, item, now):
            return False
        self.journal.note(item, now + self._wall_offset)
        self.recorder.note(item, self.state)
        if isinstance(item, HostReported):
            self.view.note(item, now + self._wall_offset)
            self.unrecorded.heard(item, self.state, now)
            self.recorder.commit.marks += self.marks.note(item, self.state, now + self._wall_offset)
        elif isinstance(item, Submitted):
            self._last_job = max(self._last_job, item.job.id)
        elif isinstance(item, HostForgotten):
            self.inbox.forget(item.host)
            self.marks.forget(item.host)
            self.unrecorded.forget(item.host)
            self._committed.pop(item.host, None)
        return True

    # --- decide --------------------------------------------------------------------------------------------------

    async def _decide(self, cycle: Cycle) -> None:
        started = self.parts.clock()
        cycle.actions = self._pass(cycle.now)
        cycle.actions += revisions(self.state, self.parts.learner.answer)
        cycle.actions += idle_actions(self.state, self.parts.idle, self.parts.limits.stale_after_s, cycle.now)
        cycle.actions = [action for action in cycle.actions if self._apply(action, cycle.now)]
        for action in cycle.actions:
            if isinstance(action, Archive):
                self.parts.learner.archive(action.job)
        if self.parts.shadow is not None:
            self.recorder.commit.chances += self.parts.shadow.look(self.state, cycle.now)
        if self.parts.starts is not None and self._policy is not propose_nothing:
            self.parts.starts.refresh(self.state, self._forecasts, self.parts.limits, cycle.now)
        took = self.parts.clock() - started
        self.view.passes += 1
        self.view.pass_seconds = took
        self._next_pass_at = cycle.now + max(_TICK_S / 2, took / _PASS_SHARE)
        more = any(isinstance(action, Launch | Requeue | EndWait | Abandon) for action in cycle.actions)
        if more or next(ended_waits(self.state, cycle.now), None) is not None:
            # A pass gives each device to one job at most, so there may be more to start at once.
            self._next_pass_at, self._cycle_again = cycle.now, True

    def _pass(self, now: float) -> list[Action]:
        """The actions of one pass. If even the default policy fails, no job starts, but ended jobs are archived and cancelled
        ones stopped: users must be able to cancel even if scheduling is broken."""
        state, forecasts, limits = self.state, self._forecasts, self.parts.limits
        policy = self._policy if self.lost.may_launch(now) else propose_nothing
        try:
            return decide(state, forecasts, self._cache, limits, policy, now)
        except Exception as error:  # noqa: BLE001 - see above; it is logged and shown
            self.parts.policy.pass_failed(error, now)
            # The actions of the failed pass are lost, and the cache counts on their being applied.
            self._cache = PassCache()
            return decide(state, forecasts, self._cache, limits, propose_nothing, now)

    # --- out -----------------------------------------------------------------------------------------------------

    async def _commit(self, cycle: Cycle) -> None:
        commit = self.recorder.take(self._wall_offset)
        self.journal.begin_again_if_due(self.state, cycle.now + self._wall_offset)
        commit.entries = self.journal.take()
        commit.handled = [request.id for request in cycle.handled]
        commit.hosts = {
            host: (self.state.hosts[host].boot_id if host in self.state.hosts else "", seq)  # type: ignore[index]
            for host, seq in self.inbox.taken.items()
            if self._committed.get(host) != seq
        }
        contents = (commit.entries, commit.handled, commit.hosts, commit.devices, commit.drained, commit.chances)
        changes = any((*contents, commit.marks))
        if changes or self.parts.lease.is_due():
            await self._until_it_works(partial(self.parts.lease.commit, commit))
            self._committed.update(self.inbox.taken)
        if self.journal.seq >= self._pruned_at_seq + _PRUNE_EVERY:
            self._pruned_at_seq = self.journal.seq
            before = self.journal.seq - KEPT_ENTRIES
            await self._until_it_works(partial(self.parts.lease.prune_journal, before))

    async def _after_commit(self, cycle: Cycle) -> None:
        epoch = self.parts.lease.epoch
        self.acknowledger.committed()
        unrecorded = self.unrecorded.to_stop(cycle.now)
        orders = self.parts.performer.due(self.state, unrecorded, self.journal.seq, epoch, cycle.now)
        orders = [order for order in orders if not await self._is_revoked(order, cycle.now)]
        try:
            await self.lost.mark(self.parts.stream, CommitMark(epoch, self.journal.seq, self._last_job))
            if orders:
                await self.parts.run_blocking(self.parts.performer.send, orders, cycle.now)
            await self._update_redis(cycle)
        except Unreachable as error:
            log.warning("redis: %s", error.message, extra={"action": "tell_redis"})

    async def _is_revoked(self, order: Order, now: float) -> bool:
        """Whether the order is about an attempt whose launch was revoked in the record; the next cycle applies its end."""
        attempt = self.state.attempts.get(order.attempt_id)
        if attempt is None or not attempt.revoking:
            return False
        work = partial(revoke, self.parts.lease, self.job_leases, attempt, now, now + self._wall_offset)
        end = await self._until_it_works(work)
        if end is not None:
            self._revoked.append(end)
            self._cycle_again = True
        return end is not None

    async def _update_redis(self, cycle: Cycle) -> None:
        stream = self.parts.stream
        if cycle.messages:
            await stream.acknowledge([message_id for message_id, _ in cycle.messages])
        await self.acknowledger.acknowledge(self.parts.lease.epoch)
        if cycle.actions or cycle.now >= self._next_view_at:
            self._next_view_at = cycle.now + _VIEW_EVERY_S
            await self._publish_queue()
            learner, chosen = self.parts.learner, self.parts.policy
            fault = None if chosen.fault is None else PolicyReplacement(chosen.fault.reason, chosen.fault.at)
            policy = PolicyStatus(chosen.chosen, chosen.serving, fault)
            epoch = self.parts.lease.epoch
            about = DispatcherStatus(
                model_version=learner.model_version, policy=policy, epoch=epoch, shares_redis=self.lost.is_shared
            )
            view = self.view.draw(self.state, cycle.now, about, learner.drift(), self.parts.starts, self._wall_offset)
            await stream.set_view(view, _VIEW_LIVES_S)

    async def _publish_queue(self) -> None:
        """Write the ids of the waiting jobs to Redis, in the order in which they will probably start, if that has changed."""
        starts = self.parts.starts
        rank = {job: number for number, job in enumerate(starts.order)} if starts else {}
        # Jobs that came since the order was last computed stand behind those of the same priority.
        # Those that are not eligible have no place in the queue yet.
        ordered = sorted(
            self.state.index.waiting.values(),
            key=lambda j: (-j.priority, rank.get(j.id, len(rank)), j.submitted_at, j.id),
        )
        order = [job.id for job in ordered]
        if order != await self.parts.stream.waiting():
            await self.parts.stream.set_waiting(order)

    # --- learning ------------------------------------------------------------------------------------------------

    def _outcome_of(self, event: Exited, attempt: Attempt) -> AttemptOutcome:
        device = self.state.devices[attempt.devices[0]]
        kind_alone = self.parts.learner.alone_rate(attempt.kind, device.type)
        return outcome_of(event.measurement, device, self.parts.learner.kinds, kind_alone, event.memory_cause)

    async def _learn(self, cycle: Cycle, changed: Sequence[Event]) -> None:
        """Use a newly published model, and learn from attempts that ended and that run, before the next decision."""
        if any(isinstance(event, ModelPublished) for event in cycle.events):
            await self._until_it_works(self.parts.learner.load_model)
            self._forget()
        for end in self.recorder.ends():
            await self._until_it_works(partial(self.parts.learner.learn, *end))
            self._forget()
        reports = [event for event in changed if isinstance(event, HostReported)]
        if reports and self.parts.learner.watch(reports, self.state):
            self._forget()

    def _forget(self) -> None:
        self._forecasts.forget()
        if self.parts.shadow is not None:
            self.parts.shadow.forget()

    async def _until_it_works(self, work: Callable[[], T]) -> T:
        """The result of blocking work in the database thread; while the database is away, wait and try again."""
        away_since: float | None = None
        while True:
            try:
                result: T = await self.parts.run_blocking(work)
            except Unreachable as error:
                # Waiting is no reason for the watchdog to end this process.
                self.beat = self.parts.clock()
                if away_since is None:
                    away_since = self.beat
                    log.warning("record: %s Trying again until it answers.", error.message, extra={"action": "retry"})
                await asyncio.sleep(_RETRY_S)
            else:
                if away_since is not None:
                    away_s = self.parts.clock() - away_since
                    log.info("record: it answers again after %.0f s", away_s, extra={"action": "retry"})
                return result


def _dated(event: Event, read_at: float, now: float, wall_offset: float) -> Event:
    """A submission has the time of the API's wall clock, which may differ from ours. But it came after the requests were last
    read, at `read_at`. Until when it waits, and when a booking begins and ends, is meant by the wall clock."""
    if isinstance(event, JobEdited):
        return replace(event, edit=event.edit.later(-wall_offset))
    if isinstance(event, BookingMade):
        return BookingMade(event.booking.later(-wall_offset))
    if not isinstance(event, Submitted):
        return event
    job, at = event.job, min(max(event.job.submitted_at, read_at), now)
    not_before = None if job.not_before is None else job.not_before - wall_offset
    return Submitted(replace(job, submitted_at=at, since=at, not_before=not_before))
