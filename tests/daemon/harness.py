"""The dispatcher's loop with everything around it in hand: record, Redis and RQ in memory, and a clock that the test sets.

`turn` is one cycle with whatever messages are given; `live` lets a `World` follow its orders and talk back until
nothing moves any more.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Entry
from gpuq.core.measuring.measurement import Measurement, Segment
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.core.state.validate import validate
from gpuq.daemon.clock import SteadyClock
from gpuq.daemon.inbox import EventInbox
from gpuq.daemon.journal import Journal
from gpuq.daemon.leadership import LEASE_S, Lease
from gpuq.daemon.learner import Learner
from gpuq.daemon.loop import Dispatcher, DispatcherDependencies
from gpuq.daemon.perform import Performer
from gpuq.daemon.restore import restore
from gpuq.learn.features.kind import describe
from gpuq.learn.serving.shelf import Shelf
from gpuq.messages.job_record import JobRecord
from gpuq.messages.submission import Submission
from gpuq.messages.wire import Acknowledgement, HostKeys, Message, genuine, verify
from gpuq.policies.guard import guard
from gpuq.settings import Learning, Scheduling
from tests.support.memory_store import MemoryStore
from tests.support.memory_stream import MemoryStream
from tests.support.nouns import GIB
from tests.support.orders import MemoryOrderSender
from tests.support.world import KEY, World


def measured(
    steps_per_s: float, utilization: float = 40.0, gib: float = 2, partner: AttemptId | None = None
) -> Measurement:
    """Half a minute's look at a job, alone or beside a partner all the while."""
    partners = () if partner is None else (partner,)
    windows = [steps_per_s * (1 + 0.01 * (-1) ** n) for n in range(6)]
    segment = Segment(partners, 30.0, int(30 * steps_per_s), 6, sum(windows), sum(w * w for w in windows))
    return Measurement(utilization, int(gib * GIB), segment.steps, 1.0, (segment,), partners)


async def run_here(work: Callable[..., Any], *args: object) -> Any:
    """Blocking work, done at once: the tests have no other thread."""
    return work(*args)


class Harness:
    """One record, one Redis, and a dispatcher that can be killed and started again."""

    run_blocking: Callable[..., Any] = staticmethod(run_here)
    limits = Limits()

    def __init__(self, folder: Path, store: Store | None = None) -> None:
        self.folder = folder
        self.store: Store = store or MemoryStore(lambda: self.now)
        self.stream = MemoryStream()
        self.orders = MemoryOrderSender()
        self.now, self.wall_offset = 1000.0, 0.0
        self.message_ids = count(1)
        self.start()

    @property
    def wall(self) -> float:
        """The wall clock, which a test sets by setting `wall_offset`; `now` only counts on."""
        return self.now + self.wall_offset

    def start(self) -> None:
        """A dispatcher begins, from the record alone."""
        self.lease = self.lead()
        clock = SteadyClock(wall=lambda: self.wall, elapsed=lambda: self.now)
        learner = Learner(self.store, Shelf(self.folder / "models"), Learning())
        learner.catch_up(clock())
        state = restore(self.store, clock())
        for row in self.store.jobs(ids=list(state.jobs)):
            learner.register(row.id, row.record)
        keys = HostKeys(KEY)
        parts = DispatcherDependencies(
            store=self.store,
            lease=self.lease,
            stream=self.stream,
            performer=Performer(self.orders, keys, self.limits.start_grace_s),
            learner=learner,
            policy=guard(Scheduling()),
            limits=self.limits,
            clock=clock,
            run_blocking=self.run_blocking,
        )
        inbox = EventInbox({host: seq for host, (_, seq) in self.store.hosts().items()}, keys)
        self.dispatcher = Dispatcher(parts, state, Journal(self.store.last_seq()), inbox)
        self.dispatcher.journal.begin(state, clock())

    def lead(self) -> Lease:
        """Take the leadership, also from the dispatcher before."""
        epoch = self.store.take_leadership("the test", LEASE_S)
        assert epoch is not None
        return Lease(self.store, "the test", epoch, lambda: self.now)

    def submit(self, script: str = "train.py", **changes: Any) -> JobId:
        """What the API does: commit a submission. The wake-up is left out, as one may be lost."""
        submission = Submission(command=("python", f"/home/ada/{script}"), cwd="/home/ada", script=script, **changes)
        kind, signature, features = describe(submission, "ada")
        record = JobRecord(
            submission=submission,
            owner="ada",
            uid=1000,
            kind=kind,
            signature=signature,
            features=features,
            submitted_at=self.wall,
        )
        return self.store.add_jobs([record])[0]

    async def turn(self, *messages: Message) -> None:
        await self.dispatcher.cycle([(str(next(self.message_ids)), m) for m in messages], read_requests=True)
        validate(self.dispatcher.state)

    async def live(self, world: World, turns: int = 12, seconds: float = 1.0) -> None:
        """Let the host and the dispatcher talk to each other for a while."""
        for _ in range(turns):
            self.now += seconds
            raw = await self.stream.acknowledged(world.host)
            acknowledged = genuine(raw or b"", Acknowledgement, world.host, world.key)
            await self.turn(*world.messages(acknowledged.seq if acknowledged else 0))
            self.deliver(world)

    def deliver(self, world: World) -> None:
        """Let the host take its orders."""
        for _, signed in self.orders.sent.pop(world.host, []):
            world.follow(verify(signed, world.key, world.host))

    def states(self) -> dict[int, str]:
        return {row.id: row.state.value for row in self.store.jobs()}

    def journal(self) -> list[Entry]:
        return self.store.journal(after=0, limit=100_000)


async def two_that_share(harness: Harness, world: World) -> tuple[AttemptId, AttemptId]:
    """A kind that made 10 steps/s alone, and two of it that share a device."""
    first = harness.submit()
    await harness.live(world, 3)
    world.end(AttemptId(first, 1), measurement=measured(10))
    await harness.live(world, 3)
    older, newer = (AttemptId(harness.submit(), 1) for _ in range(2))
    await harness.live(world, 4)
    return older, newer
