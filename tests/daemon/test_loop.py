"""The ring, turned by hand: what is submitted runs, what is asked is done, and the record always knows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gpuq.api.views import forecast_view
from gpuq.core.state.attempt import AttemptId, Ending, MemoryCause
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import JobId, JobState
from gpuq.daemon import loop
from gpuq.daemon.inbox import REQUESTS_AT_ONCE
from gpuq.daemon.journal import replay
from gpuq.messages.outcome import UNMEASURED
from gpuq.messages.wire import Message
from tests.daemon.harness import Harness, measured
from tests.support.nouns import a_device
from tests.support.world import World


async def test_a_submission_runs_and_the_record_knows_every_step(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    assert harness.states() == {job: "RUNNING"}

    world.end(AttemptId(job, 1), measurement=measured(10))
    await harness.live(world, 2)

    assert harness.states() == {job: "COMPLETED"}
    attempt = harness.store.attempts(job)[0]
    assert (attempt.exit_code, attempt.ending) == (0, "exited")
    assert attempt.actual is not None
    assert attempt.actual.alone_rate == pytest.approx(10)
    assert attempt.actual.slowdown is None


@pytest.mark.parametrize(("cause", "together"), [(MemoryCause.PARTNER, False), (MemoryCause.FOREIGN, True)])
async def test_who_ran_out_of_memory_beside_a_partner_waits_to_run_alone(
    harness: Harness, cause: MemoryCause, together: bool
) -> None:
    """The two kinds do not share again, unless a foreign process had taken the memory."""
    world = World(harness.store, a_device())
    first = harness.submit()
    await harness.live(world, 3)
    world.end(AttemptId(first, 1), measurement=measured(10))
    second, third = harness.submit(), harness.submit()
    await harness.live(world, 4)
    assert harness.states()[second] == harness.states()[third] == "RUNNING"

    seen = measured(9.8, partner=AttemptId(second, 1))
    world.end(AttemptId(third, 1), Ending.OUT_OF_MEMORY, 1, seen, memory_cause=cause)
    await harness.live(world, 3)
    ended = harness.store.attempts(third)[0]
    assert (ended.ending, (ended.actual or UNMEASURED).memory_cause) == ("out of memory", cause)
    assert harness.states()[third] == "PENDING"

    fourth = harness.submit()
    await harness.live(world, 3)
    assert harness.states()[third] == "PENDING", "the device is not its own yet"
    assert (harness.states()[fourth] == "RUNNING") is together


async def test_the_second_run_is_forecast_from_the_first_and_two_may_share(harness: Harness) -> None:
    world = World(harness.store, a_device())
    first = harness.submit()
    await harness.live(world, 3)
    world.end(AttemptId(first, 1), measurement=measured(10))
    second, third = harness.submit(), harness.submit()
    await harness.live(world, 4)
    assert harness.states()[second] == harness.states()[third] == "RUNNING"

    for job, partner in ((second, third), (third, second)):
        world.end(AttemptId(job, 1), measurement=measured(8, partner=AttemptId(partner, 1)))
    await harness.live(world, 3)

    actual = harness.store.attempts(second)[0].actual
    assert actual is not None
    assert actual.slowdown == pytest.approx(1.25)
    assert (actual.slowdown_low or 9) < 1.25 < (actual.slowdown_high or 0), (
        "one attempt alone is enough for an interval"
    )
    assert actual.partners == (third,)
    launch = harness.store.attempts(second)[0].launch
    assert launch["attempt"]["forecast"]["peak_utilization_pct"] >= 40
    assert harness.store.attempts(second)[0].features, "the features the forecast was made from stay beside it"

    fourth, fifth = harness.submit(), harness.submit()
    await harness.live(world, 4)
    waits = harness.store.job(fifth)
    assert waits is not None
    assert waits.state is JobState.PENDING
    assert waits.verdict is not None
    assert waits.verdict["rule"] == "SlowdownBudget", "1.25 was measured, 1.15 is allowed"
    assert harness.states()[fourth] == "RUNNING"


@pytest.mark.parametrize(("seconds", "watts"), [(100.0, 250.0), (19.0, None)])
async def test_forecast_of_the_second_run_has_the_measured_power_of_the_first(
    harness: Harness, seconds: float, watts: float | None
) -> None:
    """From what the host measured to the answer of the endpoint; what ran too briefly to be metered says nothing."""
    world = World(harness.store, a_device())
    first = harness.submit()
    await harness.live(world, 3)
    metered = replace(measured(10), energy_joules=250.0 * seconds, idle_joules=50.0 * seconds)
    world.end(AttemptId(first, 1), measurement=metered, at=seconds)
    second = harness.submit()
    await harness.live(world, 3)

    forecasts = [forecast_view(row.launch["attempt"]["forecast"], None) for row in harness.store.attempts(second)]
    assert [view.power_w for view in forecasts if view] == [watts]


async def test_what_sharing_cost_is_learned_for_the_way_the_device_is_shared(harness: Harness) -> None:
    world = World(harness.store, a_device(sharing="time-slicing"))
    first = harness.submit()
    await harness.live(world, 3)
    world.end(AttemptId(first, 1), measurement=measured(10))
    second, third = harness.submit(), harness.submit()
    await harness.live(world, 4)
    assert [device.sharing for device in harness.store.devices()] == ["time-slicing"]

    world.devices = (a_device(sharing="mps"),)  # MPS was started meanwhile: the next report says so
    await harness.live(world, 1)
    for job, partner in ((second, third), (third, second)):
        world.end(AttemptId(job, 1), measurement=measured(8, partner=AttemptId(partner, 1)))
    await harness.live(world, 3)
    fourth, fifth = harness.submit(), harness.submit()
    await harness.live(world, 4)

    outcomes = [harness.store.attempts(job)[0].actual or UNMEASURED for job in (first, second, third)]
    assert [outcome.sharing for outcome in outcomes] == [None, "mps", "mps"]
    assert [device.sharing for device in harness.store.devices()] == ["mps"]
    waits = harness.store.job(fifth)
    assert waits is not None
    assert waits.verdict is not None
    assert waits.verdict["rule"] == "SlowdownBudget", "1.25 was measured under MPS, 1.15 is allowed"

    harness.start()
    restored = harness.dispatcher.state
    assert [device.sharing for device in restored.devices.values()] == ["mps"]
    world.devices = (a_device(sharing="time-slicing"),)
    await harness.live(world, 4)
    assert harness.states()[fourth] == harness.states()[fifth] == "RUNNING", "of time slices nothing was measured"
    assert replay(harness.journal()).devices == harness.dispatcher.state.devices


async def test_the_journal_replayed_gives_the_same_state(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0"), a_device("gpu1"))
    jobs = [harness.submit(f"train{n % 3}.py") for n in range(7)]
    await harness.live(world, 6)
    for attempt in world.running():
        world.end(attempt, Ending.EXITED, 0, measured(10))
    await harness.live(world, 4)
    harness.store.add_request("hold", jobs[-1], "ada", harness.now, {})
    harness.store.add_request("cancel", jobs[4], "ada", harness.now, {})
    await harness.live(world, 4)
    harness.now += 1
    await harness.turn()
    harness.dispatcher.journal.flush()
    await harness.turn()

    replayed = replay(harness.journal())

    assert replayed == harness.dispatcher.state


def reason_of(harness: Harness, job: JobId) -> str | None:
    row = harness.store.job(job)
    assert row is not None
    return row.reason


async def test_the_reason_of_a_cancelled_job_says_who_cancelled_it(harness: Harness) -> None:
    world = World(harness.store, a_device())
    running, waiting = (harness.submit(f"{name}.py", share="never") for name in "ab")
    await harness.live(world, 4)
    assert harness.states() == {running: "RUNNING", waiting: "PENDING"}
    for job, by in ((running, "root"), (waiting, "ada")):
        harness.store.add_request("cancel", job, by, harness.now, {})
    await harness.live(world, 4)
    for attempt in world.running():
        world.end(attempt, Ending.STOPPED, 143)
    await harness.live(world, 4)
    assert (harness.states()[running], harness.states()[waiting]) == ("CANCELLED", "CANCELLED")
    assert [reason_of(harness, job) for job in (running, waiting)] == ["cancelled by root", "cancelled by ada"]


async def test_quiet_seconds_write_nothing(harness: Harness) -> None:
    world = World(harness.store, a_device())
    harness.submit()
    await harness.live(world, 4)
    lines = harness.store.last_seq()

    await harness.live(world, 50)

    assert harness.store.last_seq() == lines


async def test_the_waiting_queue_stands_in_redis_and_comes_back_when_flushed(harness: Harness) -> None:
    world = World(harness.store, a_device())
    jobs = [harness.submit(), harness.submit(priority=3), harness.submit()]
    await harness.live(world, 2)
    assert await harness.stream.waiting() == [jobs[0], jobs[2]]

    await harness.stream.set_waiting([])
    await harness.live(world, 2)

    assert await harness.stream.waiting() == [jobs[0], jobs[2]]


async def test_a_published_model_serves_at_once_and_a_rollback_to_none_too(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[None] = []
    monkeypatch.setattr(harness.dispatcher.parts.learner, "load_model", lambda: loads.append(None))
    harness.store.add_request("model", None, "the night", harness.now, {"version": "v0002"})
    await harness.turn()
    harness.store.add_request("model", None, "ada", harness.now, {"version": None})
    await harness.turn()

    assert len(loads) == 2


async def test_a_paused_dispatcher_starts_nothing_until_it_is_restarted(harness: Harness) -> None:
    world = World(harness.store, a_device())
    harness.store.add_request("pause", None, "gpuq up --stop-jobs", harness.now, {})
    job = harness.submit()
    await harness.live(world, 3)
    assert harness.states() == {job: "PENDING"}

    harness.start()
    await harness.live(world, 3)
    assert harness.states() == {job: "RUNNING"}


async def test_a_held_submission_waits(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit(hold=True)
    await harness.live(world, 3)
    assert harness.states() == {job: "HELD"}

    harness.store.add_request("release", job, "ada", harness.now, {})
    await harness.live(world, 3)
    assert harness.states() == {job: "RUNNING"}


async def test_a_batch_larger_than_one_read_is_taken_in_without_a_pause(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no second wake-up for the rest of the batch, and the next tick is an hour away."""
    monkeypatch.setattr(loop, "_TICK_S", 3600.0)
    first = harness.store.job(harness.submit())
    assert first is not None
    harness.store.add_jobs([first.record] * (2 * REQUESTS_AT_ONCE))

    turning = asyncio.create_task(harness.dispatcher.run())
    async with asyncio.timeout(60):
        while len(harness.dispatcher.state.jobs) <= 2 * REQUESTS_AT_ONCE:
            await asyncio.sleep(0.01)
    turning.cancel()

    assert harness.store.requests(1) == []


async def test_a_report_that_waited_in_the_inbox_is_as_old_as_its_id_says(harness: Harness) -> None:
    """By the clock of the Redis server, which differs from ours."""
    (report,) = World(harness.store, a_device()).messages(0)
    harness.stream.server.clock = lambda: harness.now + 5000
    await harness.stream.add(report)
    harness.now += 8

    working = [asyncio.create_task(harness.dispatcher.listener.listen()), asyncio.create_task(harness.dispatcher.run())]
    async with asyncio.timeout(60):
        while not harness.dispatcher.state.hosts:
            await asyncio.sleep(0.01)
    for task in working:
        task.cancel()

    state = harness.dispatcher.state
    assert state.hosts[HostId("host")].last_seen == pytest.approx(harness.now - 8)
    assert state.readings[DeviceId("gpu0")].at == pytest.approx(harness.now - 8)


async def test_the_rest_of_a_large_batch_is_fetched_also_while_hosts_talk(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = harness.store.job(harness.submit())
    assert first is not None
    harness.store.add_jobs([first.record] * (2 * REQUESTS_AT_ONCE))
    (report,) = World(harness.store, a_device()).messages(0)

    async def always_a_report(wait_s: float) -> list[tuple[str, Message]]:
        await asyncio.sleep(0)
        return [("1-1", report)]

    monkeypatch.setattr(loop, "_TICK_S", 3600.0)
    monkeypatch.setattr(harness.dispatcher.listener, "next_messages", always_a_report)
    turning = asyncio.create_task(harness.dispatcher.run())
    async with asyncio.timeout(60):
        while len(harness.dispatcher.state.jobs) <= 2 * REQUESTS_AT_ONCE:
            await asyncio.sleep(0)
    turning.cancel()

    assert harness.store.requests(1) == []
