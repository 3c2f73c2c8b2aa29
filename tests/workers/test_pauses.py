"""The worker service keeps attempts standing for as long as the dispatcher says so, and no longer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from gpuq_workers.measuring.sample import WatchedResident
from gpuq_workers.pauses import LEASE_S, Pauser

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import DeviceId
from gpuq.core.state.job import JobId
from gpuq.messages.wire import HeldAttempt, Pauses

LONG, SHORT = AttemptId(JobId(1), 1), AttemptId(JobId(2), 1)
HELD = (HeldAttempt(1, 1, 2, 1),)


class Host:
    """Two attempts on one device, and a dispatcher that says who is to stand still."""

    def __init__(self, root: Path) -> None:
        self.now, self.beat, self.held, self.dispatcher = 100.0, 0, HELD, "one"
        self.running = [self.resident(root, LONG), self.resident(root, SHORT)]
        self.speaks = True
        self.pauser = Pauser(
            lambda: self.running, lambda: [one.attempt for one in self.running], self.look, lambda: self.now
        )
        self.file = root / "1-1" / "pause.json"

    def resident(self, root: Path, attempt: AttemptId) -> WatchedResident:
        (root / str(attempt)).mkdir()
        return WatchedResident(attempt, 1, (DeviceId("cpu0"),), root / str(attempt), 0.0)

    async def look(self) -> None:
        self.beat += self.speaks
        self.pauser.heard(self.dispatcher, Pauses(self.beat, self.held))

    def poll(self, after: float = 0.1) -> Host:
        self.now += after
        asyncio.run(self.pauser.poll())
        return self

    @property
    def left_s(self) -> float:
        """For how long the shim keeps the job standing."""
        return float(json.loads(self.file.read_text())["until"]) - self.now if self.file.exists() else 0.0


@pytest.fixture
def host(tmp_path: Path) -> Host:
    # What was sent before this process began, says nothing: the first message only shows where the count is.
    return Host(tmp_path).poll()


def test_the_lease_is_renewed_with_each_message(host: Host) -> None:
    assert host.left_s <= 0
    for _ in range(5):
        assert host.poll().left_s == pytest.approx(LEASE_S)


def test_without_new_messages_the_lease_ends(host: Host) -> None:
    host.poll()
    host.speaks = False
    assert host.poll(after=LEASE_S - 0.1).left_s == pytest.approx(0.1)
    assert host.poll().left_s <= 0


def test_the_job_goes_on_when_the_other_has_ended(host: Host) -> None:
    host.poll()
    del host.running[1]
    assert host.poll().left_s <= 0


def test_the_job_goes_on_when_the_dispatcher_says_so(host: Host) -> None:
    host.poll()
    host.held = ()
    assert host.poll().left_s <= 0


def test_a_message_of_another_dispatcher_process_counts_from_its_second_on(host: Host) -> None:
    host.poll()
    host.dispatcher, host.beat = "two", 0
    assert host.poll().left_s == pytest.approx(LEASE_S - 0.1), "it may be an old one that was put back"
    assert host.poll().left_s == pytest.approx(LEASE_S)


def test_each_pause_has_a_number_of_its_own(host: Host) -> None:
    host.poll()
    first = json.loads(host.file.read_text())["id"]
    host.held = ()
    host.poll()
    host.held = HELD
    assert json.loads(host.poll(after=1).file.read_text())["id"] > first


def test_nothing_is_asked_of_the_dispatcher_while_no_device_is_shared(host: Host) -> None:
    del host.running[1]
    before = host.beat
    assert host.poll().poll().beat == before
