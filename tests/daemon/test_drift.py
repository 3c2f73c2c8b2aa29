"""Between nights: an attempt that ends counts with the next forecast, and a kind that drifts is noticed at once."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId
from gpuq.messages.live import LiveView
from tests.daemon.harness import Harness
from tests.support.nouns import GIB, a_device
from tests.support.world import World


async def run_once(harness: Harness, world: World, gib: float) -> dict[str, object]:
    """Submit the same work again, let it run alone and end; the forecast it was launched with."""
    job = harness.submit()
    await harness.live(world, 3)
    world.end(AttemptId(job, 1), measurement=Measurement(40.0, int(gib * GIB), 100, 1.0))
    await harness.live(world, 2)
    forecast: dict[str, object] = harness.store.attempts(job)[0].launch["attempt"]["forecast"]
    return forecast


async def picture(harness: Harness) -> LiveView:
    raw = await harness.stream.view()
    assert raw is not None
    return msgspec.json.decode(raw, type=LiveView)


async def test_what_ended_a_moment_ago_is_in_the_next_forecast(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    world = World(harness.store, a_device())
    first = await run_once(harness, world, 2.0)
    second = await run_once(harness, world, 3.0)
    third = await run_once(harness, world, 3.0)
    assert first["peak_memory_bytes"] is None
    assert second["peak_memory_bytes"] == 2 * GIB
    assert third["peak_memory_bytes"] == 3 * GIB
    assert third["evidence"] == "own history, 2 runs"


async def test_a_kind_that_drifts_is_shown_and_widened_and_a_restart_remembers_it(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    world = World(harness.store, a_device())
    for gib in (1.0, 1.6, 2.6, 4.2):
        forecast = await run_once(harness, world, gib)
    drift = (await picture(harness)).drift
    assert drift is not None
    assert (drift.promised, drift.kinds_watched, drift.kinds_in_alarm) == (0.95, 1, 1)
    assert drift.overall.attempts == 3
    assert drift.overall.memory_coverage == 0.0
    assert forecast["widened"] != 1.0
    widened = drift.kinds[0].widened
    assert widened > 1.2

    harness.start()
    await harness.live(world, 2)
    assert (await picture(harness)).drift == drift
    again = await run_once(harness, world, 4.2)
    assert again["widened"] == widened
    assert "widened" in str(again["evidence"])
