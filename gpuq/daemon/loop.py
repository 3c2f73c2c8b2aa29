"""The ring: one coroutine, one consumer, no lock.

    inbox ▶ apply ▶ ask ▶ [predictor answers] ▶ decide ▶ apply the actions ▶ commit ▶ perform

Nothing is performed before it is committed, and nothing is acknowledged before it is committed. When the database is
away the ring stands still and tries again; jobs run on meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from gpuq.adapters.redis.stream import Stream
from gpuq.adapters.store.contract import Request, Store
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.needed_forecasts import ForecastTable
from gpuq.core.scheduling.policy import Policy, propose_nothing
from gpuq.core.state.actions import Action, Launch, Requeue
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.events import Event, Exited, HostReported, ModelPublished, Woke
from gpuq.core.state.job import Job, JobState
from gpuq.core.state.state import State, apply
from gpuq.daemon.inbox import REQUESTS_AT_ONCE, EventInbox, requested_events
from gpuq.daemon.journal import Journal
from gpuq.daemon.learner import Learner
from gpuq.daemon.outcome import outcome_of
from gpuq.daemon.perform import Performer
from gpuq.daemon.record import Recorder
from gpuq.daemon.shadow import Shadow
from gpuq.daemon.start_estimates import StartEstimates
from gpuq.daemon.view import View
from gpuq.errors import Unreachable
from gpuq.messages.live import DispatcherStatus, PolicyReplacement, PolicyStatus
from gpuq.messages.outcome import AttemptOutcome
from gpuq.messages.wire import HostReport, Message, Spooled, WakeUp
from gpuq.policies.guard import Guarded

log = logging.getLogger(__name__)
T = TypeVar("T")

_TICK_S = 1.0
_RETRY_S = 0.5
_VIEW_EVERY_S = 0.5
_VIEW_LIVES_S = 15
_READ_AT_ONCE = 1000
# A pass over a long queue may take a while; reports alone do not make it run more than this share of the time.
_PASS_SHARE = 0.25


@dataclass
class Parts:
    """What the ring works with."""

    store: Store
    stream: Stream
    performer: Performer
    learner: Learner
    policy: Guarded
    limits: Limits
    clock: Callable[[], float]
    run_blocking: Callable[..., Any]
    shadow: Shadow | None = None
    starts: StartEstimates | None = None


@dataclass
class Turn:
    """What one turn took in and what it leads to."""

    now: float
    messages: list[tuple[str, Message]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    handled: list[Request] = field(default_factory=list)


class Dispatcher:
    """Holds the state between turns."""

    def __init__(self, parts: Parts, state: State, journal: Journal, intake: EventInbox) -> None:
        self.parts = parts
        self.state = state
        self.journal = journal
        self._cache = PassCache()
        self._forecasts = ForecastTable()
        self._policy: Policy = parts.policy
        self.intake = intake
        self.view = View(parts.limits.stale_after_s, parts.learner.alone_rate)
        self.recorder = Recorder(parts.learner.features_of, self._outcome_of)
        self._acknowledged: dict[str, int] = dict(intake.taken)
        self._next_pass_at = 0.0
        self._next_view_at = 0.0
        self._turn_again = True
        self._inbox: asyncio.Queue[list[tuple[str, Message]]] = asyncio.Queue(maxsize=8)
        self.beat = 0.0

    async def listen(self) -> None:
        """Feed the inbox from the stream, for ever."""
        while True:
            try:
                messages = await self.parts.stream.read(_TICK_S, _READ_AT_ONCE)
            except Unreachable as error:
                log.warning("inbox: %s", error.message, extra={"action": "listen"})
                await asyncio.sleep(_RETRY_S)
                continue
            if messages:
                await self._inbox.put(list(messages))

    async def turn_for_ever(self) -> None:
        """Take in what has come, or the time that has passed, and turn the ring."""
        self.journal.begin(self.state, self.parts.clock())
        ticked_at = float("-inf")
        while True:
            messages = await self._next_messages()
            ticked = self.parts.clock() - ticked_at >= _TICK_S
            rung = any(isinstance(message, WakeUp) for _, message in messages)
            await self.turn(messages, look_at_requests=ticked or rung or self._turn_again or not messages)
            if ticked:
                ticked_at = self.parts.clock()

    async def turn(self, messages: Sequence[tuple[str, Message]], *, look_at_requests: bool) -> None:
        """One turn of the ring."""
        turn = Turn(self.parts.clock(), list(messages))
        self._turn_again = False
        await self._take_in(turn, look_at_requests)
        changed = [event for event in turn.events if self._apply(event, turn.now)]
        await self._learn(turn)
        if self._pass_is_due(changed, turn.now):
            await self._decide(turn)
        await self._commit(turn)
        await self._after_commit(turn)
        self.beat = self.parts.clock()

    async def _next_messages(self) -> list[tuple[str, Message]]:
        messages: list[tuple[str, Message]] = []
        if self._inbox.empty() and not self._turn_again:
            try:
                messages = await asyncio.wait_for(self._inbox.get(), _TICK_S)
            except TimeoutError:
                return []
        while not self._inbox.empty():
            messages.extend(self._inbox.get_nowait())
        return messages

    # --- in ------------------------------------------------------------------------------------------------------

    async def _take_in(self, turn: Turn, look_at_requests: bool) -> None:
        from_workers = [message for _, message in turn.messages if isinstance(message, Spooled | HostReport)]
        turn.events += self.intake.worker_events(from_workers)
        if look_at_requests:
            turn.handled, records, events = await self._until_it_works(partial(requested_events, self.parts.store))
            # No wake-up comes for the rest of a large batch, so the next turn must fetch it.
            self._turn_again = len(turn.handled) == REQUESTS_AT_ONCE
            if any(request.verb == "pause" for request in turn.handled):
                self._policy = propose_nothing
            for job, record in records.items():
                self.parts.learner.register(job, record)
            turn.events += events
        if not turn.events:
            turn.events.append(Woke())

    def _apply(self, item: Event | Action, now: float) -> bool:
        self.recorder.before(item, self.state)
        if not apply(self.state, item, now):
            return False
        self.journal.note(item, now)
        self.recorder.note(item, self.state)
        if isinstance(item, HostReported):
            self.view.note(item)
        return True

    # --- decide --------------------------------------------------------------------------------------------------

    def _pass_is_due(self, changed: list[Event], now: float) -> bool:
        urgent = any(not isinstance(event, HostReported) for event in changed)
        return urgent or now >= self._next_pass_at

    async def _decide(self, turn: Turn) -> None:
        started = self.parts.clock()
        self._forecasts.collect(self.state, self._cache, self.parts.limits, turn.now, self.parts.learner.answer)
        turn.actions = self._pass(turn.now)
        turn.actions = [action for action in turn.actions if self._apply(action, turn.now)]
        if self.parts.shadow is not None:
            self.recorder.commit.chances += self.parts.shadow.look(self.state, self.parts.learner.answer, turn.now)
        if self.parts.starts is not None and self._policy is not propose_nothing:
            self.parts.starts.refresh(self.state, self._forecasts.table, self.parts.limits, turn.now)
        took = self.parts.clock() - started
        self.view.passes += 1
        self.view.pass_seconds = took
        self._next_pass_at = turn.now + max(_TICK_S / 2, took / _PASS_SHARE)
        if any(isinstance(action, Launch | Requeue) for action in turn.actions):
            # The rest of the queue deserves another look at once: a device is given once in a pass.
            self._next_pass_at, self._turn_again = turn.now, True

    def _pass(self, now: float) -> list[Action]:
        """What to do now. Should even the default fail, then nothing starts, but what ended is archived and what was cancelled
        is stopped: a queue that cannot schedule must still obey."""
        state, forecasts, limits = self.state, self._forecasts.table, self.parts.limits
        try:
            return decide(state, forecasts, self._cache, limits, self._policy, now)
        except Exception as error:  # noqa: BLE001 - see above; it is logged and shown
            self.parts.policy.default_failed(error, now)
            # The actions of the failed pass are lost, and the cache counts on their being applied.
            self._cache = PassCache()
            return decide(state, forecasts, self._cache, limits, propose_nothing, now)

    # --- out -----------------------------------------------------------------------------------------------------

    async def _commit(self, turn: Turn) -> None:
        commit = self.recorder.take()
        commit.entries = self.journal.take()
        commit.handled = [request.id for request in turn.handled]
        commit.hosts = {
            host: (self.state.hosts[host].boot_id if host in self.state.hosts else "", seq)  # type: ignore[index]
            for host, seq in self.intake.taken.items()
            if self._acknowledged.get(host) != seq
        }
        if any((commit.entries, commit.handled, commit.hosts, commit.devices, commit.chances)):
            await self._until_it_works(partial(self.parts.store.commit, commit))

    async def _after_commit(self, turn: Turn) -> None:
        orders = self.parts.performer.due(self.state, turn.now)
        if orders:
            await self.parts.run_blocking(self.parts.performer.ring, orders, self.journal.seq, turn.now)
        try:
            await self._tell_redis(turn)
        except Unreachable as error:
            log.warning("redis: %s", error.message, extra={"action": "tell_redis"})

    async def _tell_redis(self, turn: Turn) -> None:
        stream = self.parts.stream
        if turn.messages:
            await stream.acknowledge([message_id for message_id, _ in turn.messages])
        reported = {message.host for _, message in turn.messages if isinstance(message, HostReport | Spooled)}
        for host in reported:
            # Said again with every report: a flushed Redis forgets it.
            self._acknowledged[host] = self.intake.taken.get(host, 0)
            await stream.set_acknowledged(host, self._acknowledged[host])
        if turn.actions or turn.now >= self._next_view_at:
            self._next_view_at = turn.now + _VIEW_EVERY_S
            await self._show_queue()
            learner = self.parts.learner
            about = DispatcherStatus(model_version=learner.model_version, policy=self._policy_status())
            view = self.view.draw(self.state, turn.now, about, learner.drift(), self.parts.starts)
            await stream.set_view(view, _VIEW_LIVES_S)

    def _policy_status(self) -> PolicyStatus:
        """Which policy was chosen, which proposes, and why that is another."""
        policy = self.parts.policy
        fault = None if policy.fault is None else PolicyReplacement(policy.fault.reason, policy.fault.at)
        return PolicyStatus(policy.chosen, policy.serving, fault)

    async def _show_queue(self) -> None:
        """The waiting queue stands in Redis, ids only, for anyone to look at; made again from the state when lost."""
        starts = self.parts.starts
        rank = {job: number for number, job in enumerate(starts.order)} if starts else {}
        # Who came since the order was last worked out stands behind those of the same priority.
        ordered = sorted(self._waiting(), key=lambda j: (-j.priority, rank.get(j.id, len(rank)), j.submitted_at, j.id))
        order = [job.id for job in ordered]
        if order != await self.parts.stream.waiting():
            await self.parts.stream.set_waiting(order)

    def _waiting(self) -> list[Job]:
        return [job for job in self.state.jobs.values() if job.state is JobState.PENDING]

    # --- learning ------------------------------------------------------------------------------------------------

    def _outcome_of(self, event: Exited, attempt: Attempt) -> AttemptOutcome:
        device = self.state.devices[attempt.devices[0]]
        kind_alone = self.parts.learner.alone_rate(attempt.kind, device.type)
        return outcome_of(event.measurement, device, self.parts.learner.kinds, kind_alone, event.memory_cause)

    async def _learn(self, turn: Turn) -> None:
        """Before the next decision: a published model serves, and an attempt that ended counts at once."""
        if any(isinstance(event, ModelPublished) for event in turn.events):
            await self._until_it_works(self.parts.learner.load_model)
            self._forget()
        for end in self.recorder.ends():
            await self._until_it_works(partial(self.parts.learner.learn, *end))
            self._forget()

    def _forget(self) -> None:
        self._forecasts.forget()
        if self.parts.shadow is not None:
            self.parts.shadow.forget()

    async def _until_it_works(self, work: Callable[[], T]) -> T:
        """Run blocking work in the database thread; while the database is away, wait and try again."""
        while True:
            try:
                result: T = await self.parts.run_blocking(work)
            except Unreachable as error:
                log.warning("record: %s", error.message, extra={"action": "retry"})
                await asyncio.sleep(_RETRY_S)
            else:
                return result
