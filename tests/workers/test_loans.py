"""The worker service writes down what is lent for as long as the dispatcher says so, and no longer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from gpuq_workers.loans import LEASE_S, Lender
from gpuq_workers.measuring.sample import WatchedResident

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import DeviceId
from gpuq.core.state.job import JobId
from gpuq.messages.wire import LentCores, Loans
from gpuq.split.loan import lent_cores

BORROWER = AttemptId(JobId(1), 1)
LENT = (LentCores(1, 1, (2, 3)),)


class Host:
    """An attempt that can use idle cores, and a dispatcher that says which."""

    def __init__(self, root: Path) -> None:
        self.now, self.beat, self.lent, self.dispatcher, self.speaks, self.looks = 100.0, 0, LENT, "one", True, 0
        (root / "1-1").mkdir()
        self.file = root / "1-1" / "loan.json"
        self.borrows = True
        self.folder = root / "1-1"
        self.lender = Lender(lambda: [self.resident()], self.look, lambda: self.now)

    def resident(self) -> WatchedResident:
        return WatchedResident(BORROWER, 1, (DeviceId("gpu0"),), self.folder, 0.0, borrows=self.borrows)

    async def look(self) -> None:
        self.looks += 1
        self.beat += self.speaks
        self.lender.heard(self.dispatcher, Loans(self.beat, self.lent))

    def poll(self, after: float = 0.1) -> Host:
        self.now += after
        asyncio.run(self.lender.poll())
        return self

    @property
    def cores(self) -> tuple[int, ...]:
        return lent_cores(self.file, self.now)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    # What was sent before this process began, says nothing: the first message only shows where the count is.
    return Host(tmp_path).poll()


def test_what_is_lent_is_written_down_and_renewed(host: Host) -> None:
    assert host.cores == ()
    assert host.poll().cores == (2, 3)
    assert host.poll(LEASE_S - 0.01).cores == (2, 3)


def test_what_is_reclaimed_is_gone_at_the_next_look(host: Host) -> None:
    host.poll().lent = (LentCores(1, 1, (3,)),)
    assert host.poll().cores == (3,)
    host.lent = ()
    assert host.poll().cores == ()


def test_cores_come_back_where_the_dispatcher_is_silent_or_another(host: Host) -> None:
    host.poll().speaks = False
    host.now += LEASE_S
    assert host.cores == ()
    assert host.poll().cores == ()
    host.speaks, host.dispatcher, host.beat = True, "two", 0
    assert host.poll().cores == ()
    assert host.poll().cores == (2, 3)


def test_nothing_is_asked_for_jobs_that_borrow_nothing(host: Host) -> None:
    looks, host.borrows = host.looks, False
    assert host.poll().looks == looks
