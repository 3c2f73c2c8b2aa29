"""Whoever can write to Redis, or holds the key of one host, ends no job of another host and keeps none from ending.

The host here is the worker's own code: its spool, its delivery, its look at the attempts' folders, and the RQ task. Only its
jobs are made up: folders with shims that are no processes.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gpuq_workers import residents, run_job
from gpuq_workers.attempts import AttemptFolder, StartFile
from gpuq_workers.deliver import Delivery
from gpuq_workers.epoch import SeenEpoch
from gpuq_workers.launcher import ServiceLauncher
from gpuq_workers.live_attempt import LiveAttempt
from gpuq_workers.residents import Residents
from gpuq_workers.shim.record import OnceFile
from gpuq_workers.spool import Spool

from gpuq.adapters.devices import Placement
from gpuq.adapters.process import Identity, boot_id
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import HostId
from gpuq.core.state.events import Exited, HostReported, ResidentReport, Started
from gpuq.core.state.job import JobId
from gpuq.core.state.validate import validate
from gpuq.daemon.journal import snapshot
from gpuq.home import Home, host_key
from gpuq.messages import wire
from gpuq.messages.codec import plain, to_plain
from gpuq.messages.live import decode
from gpuq.settings import Settings, Worker
from tests.daemon.harness import Harness
from tests.support.nouns import a_device, a_reading, a_resident
from tests.support.world import KEY, World

DEVICES = tuple(a_device(f"gpu{number}") for number in range(3))


ALIVE: dict[str, Identity] = {}
"""Attempt -> its shim, while that runs."""


@pytest.fixture(autouse=True)
def _processes_are_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ALIVE.clear()
    monkeypatch.setattr(residents, "is_alive", lambda one: one in ALIVE.values())
    monkeypatch.setattr(LiveAttempt, "left", lambda _: [])


class Shim:
    """Starts its job at once."""

    def __init__(self, number: int) -> None:
        self.identity = Identity(boot_id(), number, number)

    def hand(self, folder: Path) -> None:
        boot, pid, ticks = self.identity
        ALIVE[folder.name] = self.identity
        (folder / "started.json").write_bytes(msgspec.json.encode(StartFile(pid, pid, ticks, ticks, boot, 1.0)))

    def dismiss(self) -> None:
        """Nothing waits."""


class Shims:
    """Hands out shims."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def take(self) -> Shim:
        return Shim(next(self._numbers))

    def warm_soon(self) -> None:
        """Nothing is to be made."""


class AnyDevice:
    def placement(self, _devices: object) -> Placement:
        return Placement({}, None)


class Host:
    """One host; its worker service can be restarted, and its spool lost."""

    def __init__(self, folder: Path, harness: Harness) -> None:
        self.harness, self.key = harness, host_key(KEY, "host")
        home = Home(folder)
        home.create()
        settings = Settings(home=home, redis_url=None, database_url="sqlite://", worker=Worker(host="host"))
        self.home = home
        launcher = ServiceLauncher(settings, Shims())  # type: ignore[arg-type]
        self.orders = run_job.OrderContext(settings, self.key, harness.store, AnyDevice(), launcher, "home")  # type: ignore[arg-type]
        self.restart()

    def restart(self) -> None:
        self.spool = Spool(self.home.spool, "host")
        self.residents = Residents(self.home.attempts, self.spool, self.measure, grace_s=1.0, instance="home")
        self.delivery = Delivery(
            self.spool,
            self.harness.stream,
            "host",
            self.key,
            SeenEpoch(self.home.epoch_file),
            uptime=lambda: self.harness.now,
        )

    def lose_spool(self) -> None:
        shutil.rmtree(self.home.spool)
        self.restart()

    async def measure(self, _folder: AttemptFolder) -> Measurement:
        return Measurement()

    def folders(self) -> dict[int, AttemptFolder]:
        """job -> the folder of its attempt that started."""
        found = [
            AttemptFolder(path, AttemptId(JobId(int(path.name.split("-")[0])), 1))
            for path in self.home.attempts.glob("*-1")
        ]
        return {int(folder.attempt.job): folder for folder in found}

    def end(self, folder: AttemptFolder, code: int) -> None:
        record = OnceFile(str(folder.path), "exit.json")
        record.publish(ending=Ending.EXITED, exit_code=code, reason="", at=2.0)
        del ALIVE[folder.path.name]

    async def turn(self) -> None:
        """What the worker service does in a second, after the RQ task has followed the orders."""
        for _, signed in self.harness.orders.sent.pop("host", []):
            run_job.run(self.orders, signed)
        await self.residents.look()
        await self.delivery.poll()
        residents = tuple(ResidentReport(attempt=a, started_at=at) for a, at in self.residents.present().items())
        readings = tuple((device.id, a_reading()) for device in DEVICES)
        report = HostReported(HostId("host"), "boot-1", 0.0, DEVICES, readings, residents)
        await self.delivery.report(wire.HostReport("host", self.spool.last, plain(report)))


class Attacker:
    """Can read and write all of Redis, and has the key of another host."""

    def __init__(self, harness: Harness, dice: random.Random) -> None:
        self.server, self.dice = harness.stream.server, dice
        self.messages: list[bytes] = []
        self.answers: list[bytes] = []
        self.done = 0

    def listen(self) -> None:
        """Keep what the host and the dispatcher have sent, to send it again later."""
        for raw in self.server.entries.values():
            message = wire.decode(raw or b"")
            assert not isinstance(message, wire.WakeUp)
            if wire.is_genuine(message, host_key(KEY, "host")) and raw:
                self.messages.append(raw)
        answer = self.server.acknowledged.get("host", b"")
        if wire.genuine(answer, wire.Acknowledgement, "host", host_key(KEY, "host")):
            self.answers.append(answer)

    def strike(self) -> None:
        """Do one of the many things that would have harmed an earlier gpuq."""
        self.done += 1
        forge = self.dice.choice(
            [
                self.replay,
                self.replay,
                self.rewind,
                self.rewind,
                self.bare,
                self.change,
                self.own_key,
                self.end,
                self.lose,
            ]
        )
        forge()

    def replay(self) -> None:
        self.server.put(self.dice.choice(self.messages))

    def rewind(self) -> None:
        self.server.acknowledged["host"] = self.dice.choice(self.answers)

    def bare(self) -> None:
        self.server.acknowledged["host"] = str(self.dice.choice([0, 1, 7, 10**9])).encode()

    def change(self) -> None:
        """Something signed, with another number in it."""
        if self.dice.random() < 0.5:
            answer = msgspec.json.decode(self.dice.choice(self.answers))
            answer[self.dice.choice(["seq", "number"])] = self.dice.randrange(10**6)
            self.server.acknowledged["host"] = msgspec.json.encode(answer)
        else:
            message = msgspec.json.decode(self.dice.choice(self.messages))
            message[self.dice.choice(["seq", "last_seq", "first_seq"])] = self.dice.randrange(10**6)
            self.server.put(msgspec.json.encode(message))

    def own_key(self) -> None:
        """The latest answer, as the host would have it from a dispatcher with the attacker's key."""
        answer = msgspec.json.decode(self.answers[-1], type=wire.Acknowledgement)
        forged = msgspec.structs.replace(answer, seq=10**9, number=10**9)
        self.server.acknowledged["host"] = wire.encode(wire.seal(forged, host_key(KEY, "captured")))

    def end(self) -> None:
        job, seq = self.dice.randrange(1, 20), self.dice.randrange(1, 60)
        body = to_plain(Exited(AttemptId(JobId(job), 1), 1.0, Ending.EXITED, 1, "", Measurement()))
        self.server.put(wire.encode(wire.seal(wire.Spooled("host", seq, *body), host_key(KEY, "captured"))))

    def lose(self) -> None:
        self.server.acknowledged.pop("host", None)


class Story:
    """Jobs come and end, parts of gpuq fail, and an attacker is at work."""

    def __init__(self, folder: Path, harness: Harness, seed: int) -> None:
        self.harness, self.dice = harness, random.Random(seed)
        harness.stream.server.clock = lambda: harness.now
        self.host = Host(folder, harness)
        self.attacker = Attacker(harness, self.dice)
        self.codes: dict[int, int] = {}

    async def second(self) -> None:
        self.harness.now += 1
        await self.host.turn()
        self.attack(at_most=20)
        await self.harness.dispatcher.cycle(await self.harness.stream.read(0, 1000), read_requests=True)
        validate(self.harness.dispatcher.state)
        self.attack(at_most=5)
        self.check_ends()

    def attack(self, at_most: int) -> None:
        self.attacker.listen()
        if self.attacker.answers:
            for _ in range(min(self.dice.randrange(at_most), 1000 - self.attacker.done)):
                self.attacker.strike()

    def live(self) -> None:
        """Something of a queue's life."""
        if len(self.codes) < 25 and self.dice.random() < 0.4:
            self.codes[self.harness.submit()] = self.dice.choice([0, 3])
        self.end_jobs(0.15)
        if self.dice.random() < 0.12:
            server = self.harness.stream.server
            self.dice.choice([self.harness.start, self.host.restart, self.host.lose_spool, server.flush])()

    def end_jobs(self, share: float) -> None:
        for job, folder in self.host.folders().items():
            if folder.ended() is None and self.dice.random() < share:
                self.host.end(folder, self.codes[job])

    def check_ends(self) -> None:
        """The record has ended only what has ended, and as it has."""
        folders = self.host.folders()
        for job, state in self.harness.states().items():
            if state not in ("PENDING", "STARTING", "RUNNING"):
                assert folders[job].ended() is not None, f"job {job} runs and is {state}"
                assert state == ("COMPLETED" if self.codes[job] == 0 else "FAILED"), (
                    f"job {job} exited with {self.codes[job]}"
                )


@pytest.mark.parametrize("seed", [1])
async def test_1000_forged_and_replayed_messages_end_no_job_falsely_and_leave_none_running(
    harness: Harness, tmp_path: Path, seed: int
) -> None:
    """Meanwhile the dispatcher and the worker service restart, Redis is emptied and the spool is lost, too."""
    story = Story(tmp_path / "host", harness, seed)

    while story.attacker.done < 1000:
        await story.second()
        story.live()
    for _ in range(30):
        await story.second()
        story.end_jobs(1.0)

    assert len(story.codes) > 15
    assert set(harness.states().values()) == {"COMPLETED", "FAILED"}
    assert [row.number for job in story.codes for row in harness.store.attempts(JobId(job))] == [1] * len(story.codes)
    assert story.host.spool.unacknowledged() == []


async def test_a_captured_host_can_do_nothing_for_another_in_1000_attempts(harness: Harness) -> None:
    dice = random.Random(2)
    own, key = World(harness.store, *DEVICES[:2]), host_key(KEY, "captured")
    device = a_device("own", host="captured")
    jobs = [harness.submit(gpus=1) for _ in range(3)]
    await harness.live(own, 4)
    captured = World(harness.store, device, host="captured")
    await harness.turn(*captured.messages(0))
    attempts = [AttemptId(job, 1) for job in jobs]

    def of_others() -> Any:
        state = harness.dispatcher.state
        return (
            {
                name: part
                for name, part in snapshot(state).items()
                if name in ("jobs", "attempts", "usage", "reservations")
            },
            {id_: (known, state.readings.get(id_)) for id_, known in state.devices.items() if id_ != "own"},
            state.hosts[HostId("host")],
            harness.dispatcher.inbox.taken["host"],
            harness.store.jobs(),
        )

    def forged(seq: int) -> wire.Spooled | wire.HostReport:
        attempt, target = dice.choice(attempts), dice.choice(DEVICES[:2])
        started = Started(attempt, 5.0, 1, "/x")
        ended = Exited(attempt, 5.0, dice.choice(list(Ending)), dice.choice([0, 1, None]), "", Measurement())
        report = HostReported(HostId("captured"), "boot-x", 0.0, (device,), (), ())
        claims = [
            replace(report, host=HostId("host")),
            replace(report, devices=(device, replace(target, host=HostId("captured")))),
            replace(report, devices=(target,)),
            replace(report, readings=((target.id, a_reading(used_memory=7)),)),
            replace(report, residents=(a_resident(attempt.job, gib=1),)),
        ]
        event, claim = to_plain(dice.choice([started, ended])), plain(dice.choice(claims))
        name = dice.choice(["captured", "captured", "host"])
        if dice.random() < 0.4:
            next_ = seq if name == "captured" else harness.dispatcher.inbox.taken["host"] + 1
            return wire.seal(wire.Spooled(name, next_, *event), key)
        return wire.seal(wire.HostReport(name, 0, claim), key)

    before, state = of_others(), harness.states()
    for _ in range(50):
        taken = harness.dispatcher.inbox.taken["captured"]
        messages: list[wire.Message] = []
        for _ in range(18):
            messages.append(forged(taken + 1))
            taken += isinstance(messages[-1], wire.Spooled) and messages[-1].host == "captured"
        harness.now += 0.1
        await harness.turn(*messages)
        assert of_others() == before
    assert harness.states() == state

    refused = 0
    for number in range(100):
        verb, attempt = dice.choice(list(wire.Verb)), dice.choice(attempts)
        order = wire.sign(wire.Order("host", attempt.job, attempt.number, number, verb), key)
        with pytest.raises(wire.BadOrderError):
            wire.verify(order, own.key, "host")
        refused += 1
    assert refused == 100

    view = decode(await harness.stream.view() or b"")
    residents = [resident for one in view.devices for resident in one.residents]
    assert len(residents) == 2
    assert [resident.memory_bytes for resident in residents] == [None, None]
