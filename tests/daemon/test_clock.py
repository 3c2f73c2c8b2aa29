"""The wall clock may be set at any moment: nothing that is measured in seconds comes late, or early."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.booking import BookingRequest
from gpuq.core.state.job import JobId, JobState
from gpuq.daemon.clock import SteadyClock
from gpuq.messages.live import decode
from gpuq.messages.wire import Acknowledgement, genuine, verify
from tests.daemon.harness import Harness
from tests.support.nouns import a_device
from tests.support.world import World

_HOUR_S = 3600.0


def test_the_clock_counts_on_while_the_wall_clock_is_set_and_says_by_how_much() -> None:
    wall, elapsed = [1000.0], [50.0]
    clock = SteadyClock(lambda: wall[0], lambda: elapsed[0])
    assert (clock(), clock.wall_offset()) == (1000.0, 0.0)
    wall[0], elapsed[0] = 1010.2 - _HOUR_S, 60.0
    assert clock() == 1010.0
    assert clock.wall_offset() == pytest.approx(0.2 - _HOUR_S)
    wall[0] = 1010.2
    assert clock.wall_offset() == 0.0, "the clocks only drifted apart"


async def history(folder: Path, seed: int, *, steps: bool) -> list[tuple[float, str]]:
    """What happened in two minutes, and when by a clock that never steps: orders sent, states of jobs, reservations.

    Half of the orders are lost, and each of two hosts is cut off now and then. With `steps` the wall clock is set by an hour ten
    times; the hosts' and the submitters' clocks go with it.
    """
    chance, steps_chance = Random(seed), Random(seed)
    harness = Harness(folder)
    hosts = [
        World(harness.store, a_device(f"gpu{n}", host=f"host{n}"), host=f"host{n}", clock=lambda: harness.wall)
        for n in range(2)
    ]
    stepping_at = {steps_chance.uniform(0, 120) for _ in range(10)} if steps else set()
    cut_until = [0.0, 0.0]
    found: list[tuple[float, str]] = []
    states: dict[int, str] = {}
    for second in range(120):
        harness.now += 1.0
        harness.wall_offset += sum(
            steps_chance.choice((-_HOUR_S, _HOUR_S)) for at in stepping_at if second <= at < second + 1
        )
        if chance.random() < 0.2:
            harness.submit(f"train{second}.py")
        if chance.random() < 0.1 and states:
            harness.store.add_request("cancel", chance.choice(list(states)), "ada", harness.wall, {})
        heard = []
        for n, world in enumerate(hosts):
            if chance.random() < 0.03:
                cut_until[n] = second + 20
            if world.running() and chance.random() < 0.1:
                world.end(world.running()[0], at=harness.wall)
            if second >= cut_until[n]:
                raw = await harness.stream.acknowledged(world.host)
                acknowledged = genuine(raw or b"", Acknowledgement, world.host, world.key)
                heard += world.messages(acknowledged.seq if acknowledged else 0)
        await harness.turn(*heard)
        for n, world in enumerate(hosts):
            for _, signed in harness.orders.sent.pop(world.host, []):
                order = verify(signed, world.key, world.host)
                found.append((harness.now, f"{order.verb} {order.attempt_id}"))
                if second >= cut_until[n] and chance.random() < 0.5:
                    world.follow(order)
        changed = {job: state for job, state in harness.states().items() if states.get(job) != state}
        found += [(harness.now, f"{job} {state}") for job, state in changed.items()]
        states.update(changed)
    harness.store.close()
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_comes_late_while_the_wall_clock_is_set_back_and_forth(tmp_path: Path, seed: int) -> None:
    undisturbed = await history(tmp_path / "undisturbed", seed, steps=False)
    assert len(undisturbed) > 40
    assert await history(tmp_path / "stepping", seed, steps=True) == undisturbed


async def test_a_step_back_while_the_dispatcher_is_down_delays_nothing(harness: Harness) -> None:
    world = World(harness.store, a_device(), clock=lambda: harness.wall)
    harness.now += 2 * _HOUR_S
    job = harness.submit()
    await harness.turn(*world.messages(0))
    await harness.turn(*world.messages(0))
    assert harness.store.claim(AttemptId(job, 1), "host", "home", "boot-1", harness.wall), (
        "the worker dies right after this"
    )
    harness.wall_offset -= _HOUR_S
    harness.start()

    await harness.live(world, 14)

    assert world.starts == [AttemptId(job, 2)], "the first attempt was revoked ten seconds after the restart"


def queue(harness: Harness) -> list[tuple[float, JobId]]:
    """(time of submission, job), the first to start first."""
    return sorted((job.submitted_at, job.id) for job in harness.dispatcher.state.index.waiting.values())


@pytest.mark.parametrize("step_s", [-_HOUR_S, _HOUR_S])
async def test_jobs_wait_from_their_submission_whatever_the_clock_says(harness: Harness, step_s: float) -> None:
    """As where the API runs on another host as well."""
    world = World(harness.store, a_device())
    await harness.live(world, 1)
    first = harness.submit()
    await harness.live(world, 2)
    harness.wall_offset += step_s
    second, second_at = harness.submit(), harness.now
    await harness.live(world, 1)
    third, third_at = harness.submit(), harness.now
    await harness.live(world, 1)

    assert harness.states()[first] == "RUNNING"
    assert [job for _, job in queue(harness)] == [second, third]
    assert [at for at, _ in queue(harness)] == pytest.approx([second_at, third_at], abs=1)


async def test_jobs_keep_their_order_over_a_step_back_and_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device())
    harness.submit()
    await harness.live(world, 3)
    before = harness.submit()
    harness.wall_offset -= _HOUR_S
    after = harness.submit()
    await harness.live(world, 1)
    harness.now += _HOUR_S / 2
    harness.start()

    assert [job for _, job in queue(harness)] == [before, after]
    assert all(at <= harness.wall for at, _ in queue(harness))


async def test_records_and_the_live_view_have_wall_time(harness: Harness) -> None:
    world = World(harness.store, a_device(), clock=lambda: harness.wall)
    harness.wall_offset += _HOUR_S
    job = harness.submit()
    await harness.live(world, 4)
    (row,) = harness.store.jobs()
    (attempt,) = harness.store.live_attempts()
    view = decode(await harness.stream.view() or b"")
    resident = view.resident(job)

    assert resident is not None
    recorded: list[float | None] = [
        row.state_since,
        attempt.launched_at,
        attempt.started_at,
        resident.started_at,
        view.at,
    ]
    recorded += [device.read_at for device in view.devices] + [harness.journal()[-1].at]
    assert recorded == pytest.approx([harness.wall] * len(recorded), abs=5)


async def test_how_long_a_job_ran_is_learnt_by_its_hosts_clock_alone(harness: Harness) -> None:
    ahead_s = 7.0
    world = World(harness.store, a_device(), clock=lambda: harness.wall + ahead_s)
    job = harness.submit()
    await harness.live(world, 3)
    started_at = harness.store.live_attempts()[0].started_at
    await harness.live(world, 30)
    world.end(AttemptId(job, 1), at=harness.wall + ahead_s)
    ends = []
    ends_of = harness.dispatcher.recorder.ends
    harness.dispatcher.recorder.ends = lambda: ends.extend(found := ends_of()) or found  # type: ignore[method-assign]
    await harness.live(world, 2)

    assert [end["started_at"] for _, end in ends] == [started_at]


async def test_a_reservation_is_meant_by_the_wall_clock(harness: Harness) -> None:
    """Also where that was set since the dispatcher began, as on a machine that gets the time from the network once it is up."""
    world = World(harness.store, a_device())
    harness.wall_offset = _HOUR_S
    await harness.live(world, 2)
    wanted = BookingRequest("ann", "ann", 1, harness.wall, harness.wall + 600)
    booking = harness.store.add_booking(wanted, harness.wall)
    await harness.live(world, 1)
    job = harness.submit()
    await harness.live(world, 3)
    waits = harness.store.job(job)
    assert waits is not None
    assert waits.verdict is not None
    assert (waits.state, waits.verdict["rule"]) == (JobState.PENDING, "Booked")
    numbers = dict(waits.verdict["numbers"])
    assert (numbers["from_at"], numbers["until_at"]) == (booking.from_at, booking.until_at)

    harness.now += 600
    await harness.live(world, 3)
    assert harness.states() == {job: "RUNNING"}
