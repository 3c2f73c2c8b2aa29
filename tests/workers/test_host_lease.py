"""One instance of the worker service has a host's name, and the others wait or end."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from gpuq_workers import host_lease
from gpuq_workers.host_lease import HostLease, instance_of

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import LEASE_S
from gpuq.core.state.device import NoStarts
from gpuq.errors import Conflict, Failure, Unreachable
from gpuq.home import Home
from tests.support.memory_store import MemoryStore


class Time:
    """The clock of the record. Each wait of a lease moves it, and then calls `meanwhile`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.meanwhile: Callable[[], object] = lambda: None

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(host_lease.asyncio, "sleep", made.sleep)
    return made


@pytest.fixture
def store(time: Time) -> MemoryStore:
    return MemoryStore(lambda: time.now)


def a_lease(store: Store, instance: str) -> HostLease:
    return HostLease(lambda: store, "node1", instance)


def test_a_copied_home_is_another_instance_and_so_is_the_home_after_a_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    home.create()
    shutil.copytree(home.root, tmp_path / "copy")
    original = instance_of(home)
    assert instance_of(Home(tmp_path / "home")) == original
    assert instance_of(Home(tmp_path / "copy")) != original
    monkeypatch.setattr(host_lease, "boot_id", lambda: "another boot")
    assert instance_of(home) != original


async def test_a_second_instance_is_refused_while_the_first_renews_its_lease(store: MemoryStore, time: Time) -> None:
    await a_lease(store, "original").take()
    began = time.now
    time.meanwhile = lambda: time.now % 5 or store.lease_host("node1", "original")
    with pytest.raises(Conflict) as refused:
        await a_lease(store, "clone").take()
    assert refused.value.message == "Another machine or home runs the worker service of host node1."
    assert refused.value.fix == "Set another `host` under [worker] here, or stop that one and wait 30 s."
    assert time.now - began <= 10
    assert store.lease_host("node1", "original").instance == "original"


async def test_a_restarted_service_has_its_name_at_once(store: MemoryStore, time: Time) -> None:
    await a_lease(store, "original").take()
    began = time.now
    await a_lease(store, "original").take()
    assert time.now == began


async def test_a_reinstalled_host_takes_over(store: MemoryStore, time: Time) -> None:
    await a_lease(store, "original").take()
    began = time.now
    await a_lease(store, "reinstalled").take()
    assert LEASE_S <= time.now - began <= LEASE_S + 2


async def test_since_when_the_record_cannot_be_reached_is_known(
    store: MemoryStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is to be launched there meanwhile, since no claim would be answered."""
    wall = iter([100.0, 105.0])
    lease = HostLease(lambda: store, "node1", "original", lambda: next(wall))
    lease_host, seen = store.lease_host, []
    await lease.take()
    answers = iter(["yes", "no", "no", "yes"])

    def answering(host: str, instance: str) -> object:
        if next(answers) == "no":
            raise Unreachable("The database does not answer.")
        return lease_host(host, instance)

    monkeypatch.setattr(store, "lease_host", answering)

    def note() -> None:
        seen.append(lease.unreachable)
        if len(seen) == 5:
            raise TimeoutError

    time.meanwhile = note
    with pytest.raises(TimeoutError):
        await lease.keep()
    why = NoStarts("it cannot reach the record: The database does not answer.", 100.0)
    assert seen == [None, None, why, why, None]


async def test_a_service_that_lost_its_name_ends(store: MemoryStore, time: Time) -> None:
    original = a_lease(store, "original")
    await original.take()
    time.now += LEASE_S + 1  # it stood still
    await a_lease(store, "clone").take()
    with pytest.raises(Conflict):
        await original.keep()


@pytest.mark.parametrize(
    "error",
    [Unreachable("The database does not answer."), Failure("HTTP 500"), OSError(errno.ENOSPC, "No space left")],
    ids=["no answer", "an error of the server", "a full disk"],
)
async def test_a_service_keeps_its_name_although_renewals_fail(
    error: Exception, store: MemoryStore, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, began = a_lease(store, "original"), time.now
    await lease.take()
    lease_host, calls = store.lease_host, iter(range(1000))

    def failing(host: str, instance: str) -> object:
        if next(calls) % 3:
            raise error
        return lease_host(host, instance)

    monkeypatch.setattr(store, "lease_host", failing)

    def check() -> None:
        if time.now - began > 300:
            raise TimeoutError

    time.meanwhile = check
    with pytest.raises(TimeoutError):
        await lease.keep()
    assert lease_host("node1", "clone").instance == "original"
