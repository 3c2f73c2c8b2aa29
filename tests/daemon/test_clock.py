"""The wall clock may be set at any moment: nothing that is measured in seconds comes late, or early."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gpuq.core.state.attempt import AttemptId
from gpuq.daemon.clock import SteadyClock
from gpuq.messages.wire import verify
from tests.daemon.harness import Harness
from tests.support.nouns import a_device
from tests.support.world import KEY, World

_HOUR_S = 3600.0


def test_the_clock_counts_on_while_the_wall_clock_is_set_and_says_by_how_much() -> None:
    wall, elapsed = [1000.0], [50.0]
    clock = SteadyClock(lambda: wall[0], lambda: elapsed[0])
    assert (clock(), clock.step()) == (1000.0, 0.0)
    wall[0], elapsed[0] = 1010.2 - _HOUR_S, 60.0
    assert clock() == 1010.0
    assert clock.step() == pytest.approx(0.2 - _HOUR_S)
    wall[0] = 1010.2
    assert clock.step() == 0.0, "the clocks only drifted apart"


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
        harness.step += sum(steps_chance.choice((-_HOUR_S, _HOUR_S)) for at in stepping_at if second <= at < second + 1)
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
                heard += world.messages(await harness.stream.acknowledged(world.host) or 0)
        await harness.turn(*heard)
        for n, world in enumerate(hosts):
            for _, signed in harness.bell.sent.pop(world.host, []):
                order = verify(signed, KEY, world.host)
                found.append((harness.now, f"{order.verb} {order.attempt_id}"))
                if second >= cut_until[n] and chance.random() < 0.5:
                    world.follow(order)
        changed = {job: state for job, state in harness.states().items() if states.get(job) != state}
        found += [(harness.now, f"{job} {state}") for job, state in changed.items()]
        states.update(changed)
    harness.store.close()
    return found


@pytest.mark.parametrize("seed", range(8))
async def test_nothing_comes_late_while_the_wall_clock_is_set_back_and_forth(tmp_path: Path, seed: int) -> None:
    undisturbed = await history(tmp_path / "undisturbed", seed, steps=False)
    assert len(undisturbed) > 40
    assert await history(tmp_path / "stepping", seed, steps=True) == undisturbed
