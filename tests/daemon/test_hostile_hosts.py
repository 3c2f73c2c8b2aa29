"""A captured host signs whatever it likes: no value in its reports and events stops the dispatcher, or harms another host."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuq.adapters.store import open_store
from gpuq.core.measuring.measurement import Measurement, Segment
from gpuq.core.measuring.slowdown import Rate, Rates
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import HostId, Vitals
from gpuq.core.state.events import Exited, HostReported, ResidentReport, Started
from gpuq.core.state.job import JobId, KindId
from gpuq.daemon.outcome import outcome_of
from gpuq.home import host_key
from gpuq.messages import reported, wire
from gpuq.messages.codec import plain
from gpuq.messages.outcome import outcome_from_json
from tests.daemon.harness import Harness
from tests.support.nouns import a_device, a_reading
from tests.support.sqlite_record import make_record
from tests.support.world import KEY, World

HOSTILE: list[Any] = [
    -1,
    0,
    -0.5,
    2**31,
    2**53,
    2**63,
    -(2**63),
    2**64,
    10**30,
    -(10**30),
    1e300,
    -1e300,
    1e-300,
    None,
    True,
    "",
    "x" * 5000,
    "a\0b",
    "\ud800".encode(errors="surrogatepass").decode(errors="replace"),
    "../../etc",
    [],
    [[]],
    {},
    [1] * 5000,
    ["x" * 100] * 5000,
    "NaN",
    "1e999",
    "-inf",
]
KEY_OF_CAPTURED = host_key(KEY, "captured")


def report() -> Any:
    """Everything that a report may have."""
    device = a_device("own", host="captured", index="0", sharing="mps")
    vitals = Vitals(100.0, 5.0, 60.0, 50.0, 40.0, ("power",), ((79, 1),))
    rates = Rates(Rate(5.0, 3, 0.1), Rate(4.0, 3, 0.1), Rate(5.0, 2, 0.1))
    resident = ResidentReport(
        attempt=AttemptId(JobId(2), 1),
        started_at=5.0,
        memory_bytes=5,
        utilization_pct=50.0,
        steps=5,
        rate=1.0,
        rates=rates,
    )
    reading = a_reading(1.0, used_memory=5, unwell=None, vitals=vitals, processes_visible=True)
    return plain(
        HostReported(HostId("captured"), "boot", 1.0, (device,), ((device.id, reading),), (resident,), "instance")
    )


def events() -> list[tuple[str, Any]]:
    """An event of each kind."""
    attempt = AttemptId(JobId(2), 1)
    segments = (Segment((), 30.0, 150, 6, 30.0, 150.0), Segment((attempt,), 30.0, 150, 6, 30.0, 150.0))
    measurement = Measurement(50.0, 5, 150, 1.0, segments, (attempt,), 5.0, 4.0, foreign_load=0.5, held_back=0.5)
    return [
        ("Started", plain(Started(attempt, 5.0, 42, "/log"))),
        ("Exited", plain(Exited(attempt, 9.0, Ending.EXITED, 0, "", measurement, None, "instance"))),
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value within this one."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


def spoiled(body: Any, dice: random.Random) -> Any:
    """The body with hostile values in one to three places."""
    body = msgspec.json.decode(msgspec.json.encode(body))
    for _ in range(dice.randrange(1, 4)):
        *way, last = dice.choice([place for place in places(body) if place])
        parent = body
        for key in way:
            parent = parent[key]
        parent[last] = copy.copy(dice.choice(HOSTILE))
    return body


async def survive(folder: Path, seed: int, reports: int) -> None:
    """Send spoiled reports of a host that has a job, then a spoiled end; other hosts go on, also after a restart."""
    dice = random.Random(seed)
    harness = Harness(folder, open_store(make_record(folder / "gpuq.db")))
    own = World(harness.store, a_device("gpu0"))
    captured = World(harness.store, a_device("own", host="captured"), host="captured")
    job = harness.submit()
    await harness.live(own, 3)
    harness.submit("other.py")
    await harness.live(captured, 3)
    messages: list[wire.Message] = [wire.HostReport("captured", 0, spoiled(report(), dice)) for _ in range(reports)]
    for name, body in events():
        seq = harness.dispatcher.inbox.taken["captured"] + 1
        messages += [wire.Spooled("captured", seq + number, name, spoiled(body, dice)) for number in range(5)]
    for number, message in enumerate(messages):
        harness.now += 0.2
        try:
            sent = wire.decode(wire.encode(wire.seal(message, KEY_OF_CAPTURED)))
        except ValueError:
            continue
        await harness.dispatcher.cycle([(f"{number + 1}-1", sent)], read_requests=number % 10 == 0)
    own.end(AttemptId(job, 1))
    await harness.live(own, 4)
    assert harness.states()[job] == "COMPLETED"
    harness.start()
    third = harness.submit("third.py")
    await harness.live(own, 4)
    assert harness.states()[third] == "RUNNING"
    harness.store.close()


async def test_reports_of_a_captured_host_stop_nothing(tmp_path: Path) -> None:
    await survive(tmp_path, 1, reports=100)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
async def test_100_000_reports_of_a_captured_host_stop_nothing(tmp_path: Path, seed: int) -> None:
    await survive(tmp_path, seed, reports=1000)


def test_an_end_counts_whatever_is_said_of_its_measurement() -> None:
    """And what comes of it can be computed and stored."""
    dice, device, kinds = random.Random(1), a_device(), {JobId(2): KindId("k")}
    _, (name, body) = events()
    for _ in range(400):
        part = dice.choice(["measurement", "reason", "memory_cause"])
        end = reported.event(name, {**body, part: spoiled({part: body[part]}, dice)[part]})
        assert isinstance(end, Exited)
        outcome = outcome_of(end.measurement, device, kinds, Rate(5.0, 3, 0.1), end.memory_cause)
        assert outcome_from_json(msgspec.json.encode(outcome)) is not None


@pytest.mark.parametrize(
    "change",
    [{"exit_code": 2**40}, {"exit_code": -1}, {"at": 1e300}, {"at": "NaN"}, {"attempt": [2**70, 1]}, {"ending": "x"}],
    ids=str,
)
def test_an_end_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    _, (name, body) = events()
    with pytest.raises(ValueError):  # noqa: PT011 - the words are msgspec's
        reported.event(name, {**body, **change})


@pytest.mark.parametrize(("at", "taken_as"), [(-3600.0, 0.0), (5.5, 5.5), (1e15, 4_102_444_800.0)])
def test_a_start_and_an_end_count_although_the_clock_of_their_host_is_wrong(at: float, taken_as: float) -> None:
    assert [reported.event(name, {**body, "at": at}).at for name, body in events()] == [taken_as, taken_as]


@pytest.mark.parametrize("total_memory", [0, -1, 2**61, 10**30])
def test_a_report_of_a_device_that_cannot_be_is_refused(total_memory: int) -> None:
    body = report()
    body["devices"][0]["total_memory"] = total_memory
    with pytest.raises(ValueError, match="total_memory"):
        reported.report(body)


def test_a_message_beyond_a_mebibyte_is_no_message() -> None:
    message = wire.HostReport("captured", 0, {"x": ["y" * 1000] * 1100})
    with pytest.raises(ValueError, match="not a message: it has"):
        wire.decode(wire.encode(message))
