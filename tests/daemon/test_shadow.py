"""Shadow mode: every job runs alone, and the record knows what would have shared."""

from __future__ import annotations

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import AttemptId
from gpuq.daemon.shadow import Shadow, exclusively
from tests.daemon.harness import Harness, measured
from tests.support.nouns import a_device
from tests.support.world import World


def in_shadow(harness: Harness) -> None:
    """As `gpuq.daemon.main` does it where the settings say `shadow`."""
    parts = harness.dispatcher.parts
    parts.limits = exclusively(Limits())
    parts.shadow = Shadow.of(Limits(), parts.learner.answer, harness.store, harness.dispatcher.state)


async def known_kind(harness: Harness, world: World) -> None:
    """A job has run alone, for 1000 seconds, so that those like it may share."""
    first = harness.submit()
    await harness.live(world, 3)
    world.end(AttemptId(first, 1), measurement=measured(10), at=1000)
    await harness.live(world, 2)


async def test_a_job_that_could_have_joined_waits_and_its_first_chance_is_on_record(harness: Harness) -> None:
    in_shadow(harness)
    world = World(harness.store, a_device())
    await known_kind(harness, world)
    resident, waits = harness.submit(), harness.submit()

    await harness.live(world, 6)

    assert harness.states()[resident] == "RUNNING"
    assert harness.states()[waits] == "PENDING"
    (chance,) = harness.store.chances()
    assert (chance.job, chance.beside) == (waits, AttemptId(resident, 1))
    assert chance.rule in ("Fits", "KnownPair")
    assert chance.newcomer is not None
    assert chance.newcomer >= 1.0
    assert chance.newcomer_upper is not None
    assert chance.free_at == pytest.approx(chance.at + 1000 * chance.newcomer, rel=0.05)


async def test_only_one_would_have_joined_and_who_had_a_chance_is_nobodys_partner_later(harness: Harness) -> None:
    in_shadow(harness)
    world = World(harness.store, a_device())
    await known_kind(harness, world)
    resident, second, third = (harness.submit() for _ in range(3))
    await harness.live(world, 6)
    assert [chance.job for chance in harness.store.chances()] == [second]

    world.end(AttemptId(resident, 1), measurement=measured(10))
    await harness.live(world, 6)

    assert harness.states()[second] == "RUNNING"
    assert harness.states()[third] == "PENDING"
    assert [chance.job for chance in harness.store.chances()] == [second], "it would have been gone by now"


async def test_a_restart_forgets_no_chance(harness: Harness) -> None:
    in_shadow(harness)
    world = World(harness.store, a_device())
    await known_kind(harness, world)
    for _ in range(3):
        harness.submit()
    await harness.live(world, 6)
    before = harness.store.chances()

    harness.start()
    in_shadow(harness)
    await harness.live(world, 6)

    assert len(before) == 1
    assert harness.store.chances() == before


async def test_new_kinds_and_jobs_that_may_not_share_count_no_chance(harness: Harness) -> None:
    in_shadow(harness)
    world = World(harness.store, a_device())
    await known_kind(harness, world)
    harness.submit()
    harness.submit(share="never")
    harness.submit("new.py")
    await harness.live(world, 6)
    assert harness.store.chances() == []


async def test_without_shadow_mode_nothing_is_noted(harness: Harness) -> None:
    world = World(harness.store, a_device())
    await known_kind(harness, world)
    jobs = [harness.submit() for _ in range(3)]
    await harness.live(world, 6)
    assert [harness.states()[job] for job in jobs] == ["RUNNING", "RUNNING", "PENDING"]
    assert harness.store.chances() == []


async def test_the_place_is_open_again_once_the_first_would_have_ended(harness: Harness) -> None:
    in_shadow(harness)
    world = World(harness.store, a_device())
    await known_kind(harness, world)
    _, second, third = (harness.submit() for _ in range(3))
    await harness.live(world, 6)
    harness.now += 1200
    await harness.live(world, 3)
    assert [chance.job for chance in harness.store.chances()] == [second, third]
