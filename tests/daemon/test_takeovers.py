"""Dispatchers that are killed, ended, suspended and resumed at random, in virtual time: real loops, real stores, real standbys.

Three dispatchers share one record, one Redis in memory and one host. Each call that blocks is a point where another one may act
before and after it, and where a suspended dispatcher stops. The clocks, the database's too, are that of the event loop, which
jumps to the next timer whenever nothing is left to do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Commit
from gpuq.adapters.store.sql import SqlStore
from gpuq.core.state.job import ENDED, JobId, JobState
from gpuq.daemon.journal import replay
from gpuq.daemon.leadership import LEASE_S, Lease, stand_by
from gpuq.daemon.tasks import Tasks
from gpuq.errors import Conflict
from gpuq.messages.wire import Acknowledgement, genuine, verify
from gpuq.policies.guard import guard
from gpuq.settings import Scheduling
from tests.adapters.store.samples import a_record
from tests.daemon.harness import Harness
from tests.support.memory_store import MemoryStore
from tests.support.memory_stream import MemoryServer, MemoryStream
from tests.support.nouns import a_device
from tests.support.orders import MemoryOrderSender
from tests.support.sqlite_record import make_record
from tests.support.world import World

BEGAN = 1_000_000.0
HOSTS = ("one", "two", "three")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer when nothing else is left to do."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual = 0.0

    def time(self) -> float:
        return self._virtual

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self._virtual = max(self._virtual, self._scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


def now() -> float:
    """What every clock says, as Unix time."""
    return BEGAN + asyncio.get_running_loop().time()


@contextmanager
def a_store(kind: str, folder: Path) -> Iterator[Store]:
    """An empty record, whose database has the virtual clock."""
    if kind == "memory":
        yield MemoryStore(clock=now)
        return
    store = open_store(make_record(folder / "gpuq.db"))
    assert isinstance(store, SqlStore)

    @event.listens_for(store._database._engine, "connect")
    def _set_up(connection: Any, _: object) -> None:
        connection.create_function("julianday", 1, lambda _: now() / 86_400 + 2_440_587.5)
        connection.execute("PRAGMA synchronous=OFF")

    store._database._engine.dispose()  # the connection of the check of the schema has the real clock
    yield store
    store.close()


class OneProcess:
    """The record as one run of a dispatcher sees it; it notes what that run commits."""

    def __init__(self, store: Store, run: int, commits: list[tuple[int, int]]) -> None:
        self._store, self._run, self._commits = store, run, commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, commit: Commit) -> None:
        self._store.commit(commit)
        self._commits.append((commit.epoch, self._run))


class LedBy(Harness):
    """The parts of one run of a dispatcher that leads with this lease."""

    def __init__(self, fleet: Fleet, lease: Lease, run_blocking: Callable[..., Any]) -> None:
        self.folder, self.orders, self.stream = fleet.folder, fleet.orders, MemoryStream(fleet.redis)
        self.store, self.run_blocking = lease.store, run_blocking
        self._lease, self.wall_offset = lease, 0.0
        self.start()

    @property
    def now(self) -> float:  # type: ignore[override]
        return now()

    def lead(self) -> Lease:
        return self._lease


class Fleet:
    """The dispatchers, the host, the users, and what is done to the dispatchers."""

    def __init__(self, store: Store, folder: Path, seed: int) -> None:
        self.store = store
        self.folder = folder
        self.chance = random.Random(seed)
        self.redis = MemoryServer()
        self.orders = MemoryOrderSender()
        self.world = World(store, a_device("gpu0"), a_device("gpu1"))
        self.commits: list[tuple[int, int]] = []
        """(epoch, run) of each commit that the record kept, in its order."""
        self.endless: set[JobId] = set()
        self.runs = self.kills = self.resignations = self.suspensions = self.overtaken = 0
        self.running: dict[str, asyncio.Task[None]] = {}
        self.resumed: dict[str, asyncio.Event] = {}
        self.stops: dict[str, asyncio.Event] = {}

    async def dispatcher(self, host: str) -> None:
        """One run of a dispatcher, as gpuq/daemon/main.py has it."""
        resumed = self.resumed[host] = asyncio.Event()
        stop = self.stops[host] = asyncio.Event()
        resumed.set()
        self.runs += 1
        store: Any = OneProcess(self.store, self.runs, self.commits)

        async def run_blocking(work: Callable[..., Any], *args: object) -> Any:
            await asyncio.sleep(self.chance.expovariate(50))
            await resumed.wait()
            result = work(*args)
            await asyncio.sleep(self.chance.expovariate(50))
            await resumed.wait()
            return result

        epoch = await stand_by(store, host, run_blocking, stop, lambda: None)
        if epoch is None:
            return
        lease = Lease(store, host, epoch, now)
        dispatcher = (await run_blocking(LedBy, self, lease, run_blocking)).dispatcher
        tasks = Tasks()
        tasks.start("listen", dispatcher.listener.listen())
        tasks.start("cycle", dispatcher.run())
        try:
            await tasks.run_until(stop)
        except Conflict:
            self.overtaken += 1
        except asyncio.CancelledError:  # SIGKILL
            stop.set()
            for task in tasks._tasks:
                task.cancel()
            raise
        lease.release()

    async def supervise(self, host: str) -> None:
        """Start the dispatcher of a host again whenever it ends, after a while."""
        while True:
            self.running[host] = asyncio.create_task(self.dispatcher(host))
            await asyncio.wait([self.running[host]])
            if not self.running[host].cancelled():
                self.running[host].result()
            await asyncio.sleep(self.chance.choice((0.1, LEASE_S + 2)))

    async def host(self) -> None:
        """Follow orders, end jobs, and report, as a host with a worker service does."""
        stream = MemoryStream(self.redis)
        while True:
            for _, signed in self.orders.sent.pop(self.world.host, []):
                self.world.follow(verify(signed, self.world.key, self.world.host))
            for attempt in self.world.running():
                if attempt.job not in self.endless and self.chance.random() < 0.3:
                    self.world.end(attempt)
            raw = await stream.acknowledged(self.world.host)
            acknowledged = genuine(raw or b"", Acknowledgement, self.world.host, self.world.key)
            await stream.add(*self.world.messages(acknowledged.seq if acknowledged else 0))
            await asyncio.sleep(1.0)

    async def users(self) -> None:
        """Submit jobs, and cancel those that would not end by themselves."""
        while True:
            await asyncio.sleep(self.chance.expovariate(1 / 15))
            (job,) = self.store.add_jobs([a_record(owner=f"user {self.chance.randrange(3)}")])
            if self.chance.random() < 0.3:
                self.endless.add(job)
                asyncio.get_running_loop().call_later(self.chance.uniform(0, 20), self.cancel, job)

    def cancel(self, job: JobId) -> None:
        self.store.add_request("cancel", job, "ada", now(), {})

    async def break_things(self, times: int) -> None:
        """So many faults, each at a random moment to the leader or to any dispatcher."""
        while self.kills + self.resignations + self.suspensions < times:
            await asyncio.sleep(self.chance.expovariate(1 / 2))
            leader = self.store.leader().holder or ""
            active = [host for host in HOSTS if self.resumed[host].is_set()]
            host = leader if leader in active and self.chance.random() < 0.7 else self.chance.choice(active or HOSTS)
            fault = self.chance.choice(("kill", "kill", "end", "suspend"))
            if fault == "suspend":
                self.suspensions += 1
                self.resumed[host].clear()
                asyncio.get_running_loop().call_later(self.chance.expovariate(0.6 / LEASE_S), self.resumed[host].set)
            elif fault == "kill":
                self.kills += 1
                self.running[host].cancel()
            else:
                self.resignations += 1
                self.stops[host].set()

    async def run(self, faults: int) -> None:
        """Everything at once until so many faults have happened, then without faults until all jobs have ended."""
        around = [asyncio.create_task(self.supervise(host)) for host in HOSTS]
        around.append(asyncio.create_task(self.host()))
        users = asyncio.create_task(self.users())
        await asyncio.sleep(0.1)
        await self.break_things(faults)
        users.cancel()
        until = now() + 600
        while now() < until and (self.store.requests(1) or not ENDED.issuperset(self.store.count_by_state())):
            await asyncio.sleep(1.0)
        for task in (*around, *self.running.values()):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def check(self) -> None:
        """One leader an epoch, no epoch after a later one, and of the jobs nothing lost and nothing doubled."""
        epochs = [epoch for epoch, _ in self.commits]
        assert epochs == sorted(epochs), "a commit in an earlier epoch was kept"
        assert len(set(self.commits)) == len(set(epochs)), "two leaders in one epoch"
        rows = self.store.jobs()
        for row in rows:
            expected = JobState.CANCELLED if row.id in self.endless else JobState.COMPLETED
            assert row.state is expected, row
        starts = [attempt.job for attempt in self.world.starts]
        assert len(starts) == len(set(starts)), "a job was started twice"
        assert set(starts) >= {row.id for row in rows} - self.endless
        entries = self.store.journal(after=0, limit=10**6)
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        assert not any(job.state not in ENDED for job in replay(entries).jobs.values())


@pytest.fixture(autouse=True)
def one_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for installed policies would take most of the time of a start."""
    policy = guard(Scheduling())
    monkeypatch.setattr("tests.daemon.harness.guard", lambda _: policy)


def run_fleet(kind: str, folder: Path, seed: int, faults: int) -> Fleet:
    async def run() -> Fleet:
        with a_store(kind, folder) as store:
            fleet = Fleet(store, folder, seed)
            await fleet.run(faults)
            fleet.check()
            return fleet

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


@pytest.mark.parametrize(("kind", "faults"), [("memory", 150), ("sqlite", 40)])
def test_random_faults_of_dispatchers_lose_nothing_and_double_nothing(kind: str, faults: int, tmp_path: Path) -> None:
    fleet = run_fleet(kind, tmp_path, seed=2, faults=faults)
    assert min(fleet.kills, fleet.resignations, fleet.suspensions) > faults / 10
    assert fleet.overtaken > 1, "some that were suspended for longer than the lease came back"
