"""Rows without hosts: the real code of dispatchers and hosts under a scheduler, in time that does not pass.

What is made up is said in tests/support/cloned_hosts.py and tests/daemon/test_takeovers.py.
"""

from __future__ import annotations

import asyncio
import gc
import random
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpuq.adapters.store.contract import Store
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import ENDED, JobState
from gpuq.messages.wire import Message
from tests.adapters.store.samples import a_record
from tests.daemon.test_takeovers import Fleet, VirtualLoop, a_store, one_policy, run_fleet
from tests.faults.test_cloned_hosts import doubles
from tests.fleet.rows import Row
from tests.support.nouns import a_device
from tests.support.world import World

__all__ = ["one_policy"]


@pytest.mark.short_form(500)
def test_cloned_hosts(row: Row, tmp_path: Path) -> None:
    """Interleavings of two machines with one host name, 60 steps each, from another seed each."""

    def interleave(chance: random.Random, times: int) -> dict[str, Any]:
        first = chance.randrange(10**9)
        found = asyncio.run(doubles(tmp_path, range(first, first + times), 60))
        assert not found, f"a job was started twice with the seeds {found}"
        return {}

    row.repeat(interleave, at_once=500)


@pytest.mark.short_form(100)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_virtual_kills(kind: str, row: Row, tmp_path: Path) -> None:
    """Kills of dispatchers among as many other faults: ends in order, and suspensions that last longer than the lease."""

    def kill(chance: random.Random, times: int) -> dict[str, Any]:
        seed = chance.randrange(10**9)
        (tmp_path / str(seed)).mkdir()
        fleet = run_fleet(kind, tmp_path / str(seed), seed, faults=int(2.3 * times))
        return {
            "kills": fleet.kills,
            "ends": fleet.resignations,
            "suspensions": fleet.suspensions,
            "jobs": len(set(fleet.world.starts)),
        }

    row.repeat(kill, at_once=500)


DEVICES, BATCH = 32, 100
JOBS_PER_FAULT = 2000
WARM = 0.1
"""The memory is compared with what it was when this share of the jobs had run."""


class LongWorld(World):
    """A host that forgets the events that were acknowledged, as a real one does, and keeps of each job how often it started."""

    def __init__(self, store: Store, jobs: int) -> None:
        super().__init__(store, *(a_device(f"gpu{number}") for number in range(DEVICES)))
        self.started = bytearray(jobs + 1)

    def messages(self, acknowledged: int) -> list[Message]:
        for attempt in self.starts:
            self.started[attempt.job] += 1
        self.starts.clear()
        known = [event for event in self.spool if event.seq <= acknowledged]
        for event in known:
            self.forgotten = event.seq
            if event.name == "Exited":
                del self.folders[AttemptId(*event.body["attempt"])]
        del self.spool[: len(known)]
        return super().messages(acknowledged)


class Changes(list[Any]):
    """A list that keeps of equal neighbours one."""

    def append(self, value: Any) -> None:
        if not self or self[-1] != value:
            super().append(value)


class LongFleet(Fleet):
    """Dispatchers that start so many short jobs on one host, with some faults at the beginning."""

    def __init__(self, store: Store, folder: Path, seed: int, jobs: int) -> None:
        super().__init__(store, folder, seed)
        self.jobs = jobs
        self.commits = Changes()
        self.world: LongWorld = LongWorld(store, jobs)
        self.memory: dict[int, int] = {}
        """Bytes of this process, by how many jobs had been submitted."""

    async def users(self) -> None:
        """Submit the next batch when most of the last one has ended."""
        submitted = 0
        while submitted < self.jobs:
            waiting = sum(count for state, count in self.store.count_by_state().items() if state not in ENDED)
            if waiting < BATCH:
                some = min(BATCH, self.jobs - submitted)
                self.store.add_jobs([a_record(owner=f"user {self.chance.randrange(3)}") for _ in range(some)])
                submitted += some
                if submitted % (self.jobs // 20) < BATCH:
                    gc.collect()
                    self.memory[submitted] = psutil.Process().memory_info().rss
            await asyncio.sleep(1.0)

    async def break_things(self, times: int) -> None:
        """The faults, during the first twentieth of the jobs: all are over when the memory is looked at for the first time.

        A dispatcher reads the history of all jobs at its start, which leaves a process larger. Only here do those that start
        later share a process with those before them.
        """
        for number in range(times):
            while sum(self.store.count_by_state().values()) * times < number * WARM / 2 * self.jobs:
                await asyncio.sleep(1.0)
            await super().break_things(self.kills + self.resignations + self.suspensions + 1)
        while sum(self.store.count_by_state().values()) < self.jobs:
            await asyncio.sleep(1.0)

    def check(self) -> None:
        assert self.store.count_by_state() == {JobState.COMPLETED: self.jobs}
        assert self.world.started == b"\0" + b"\1" * self.jobs
        assert len(set(self.commits)) == len({epoch for epoch, _ in self.commits}), "two leaders in one epoch"


@pytest.mark.short_form(2000)
def test_virtual_jobs(row: Row, tmp_path: Path) -> None:
    """So many jobs through real dispatchers and a record in SQLite, in virtual time; how much memory they leave behind."""

    def run(chance: random.Random, times: int) -> dict[str, Any]:
        async def live() -> LongFleet:
            with a_store("sqlite", tmp_path) as store:
                fleet = LongFleet(store, tmp_path, chance.randrange(10**9), times)
                await fleet.run(times // JOBS_PER_FAULT)
                fleet.check()
                return fleet

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            fleet = runner.run(live())
        early = next(size for done, size in sorted(fleet.memory.items()) if done >= WARM * times)
        grew = max(fleet.memory.values()) / early - 1
        return {
            "grew_pct": round(100 * grew, 2),
            "mib": early >> 20,
            "faults": fleet.kills + fleet.suspensions + fleet.resignations,
        }

    row.repeat(run, at_once=10**9, p99={"grew_pct": 5} if row.count >= 10_000 else {})
