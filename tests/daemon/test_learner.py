"""The dispatcher's forecasts, and that the API shows the same."""

from __future__ import annotations

import pytest

from gpuq.api.models import ShelfModels
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.forecast import Question
from gpuq.core.state.job import KindId
from gpuq.messages.live import decode
from gpuq.settings import Learning
from tests.daemon.harness import Harness, measured
from tests.support.nouns import GIB, a_device
from tests.support.world import World


async def test_api_shows_the_forecast_that_the_dispatcher_decides_with(harness: Harness) -> None:
    """Also while both follow what ends: alone, beside a kind, and after memory bounds failed so often that they are widened."""
    device = a_device(sharing="mps")
    world = World(harness.store, device)
    models = ShelfModels(harness.store, harness.folder / "models", Learning(), lambda: harness.now)
    widened = 1.0
    for gib in (2.0, 2.1, 2.0, 9.0, 9.0, 9.0, 9.0, 9.0):
        job = harness.submit()
        await harness.live(world, 3)
        world.end(AttemptId(job, 1), measurement=measured(10, gib=gib))
        await harness.live(world, 3)
        row = harness.store.job(job)
        assert row is not None
        kind = KindId(row.record.kind)
        for beside in ((), (kind,)):
            question = Question(row.record.signature, kind, device.type, beside, device.sharing)
            decided_with = harness.dispatcher.parts.learner.answer([question])[question]
            [shown] = models.explained_forecasts(row.record.kind, row.record.features, [(device, beside)])
            assert shown.forecast == decided_with
            assert decided_with.known
            widened = max(widened, decided_with.widened)


async def test_the_second_of_two_long_jobs_joins_the_first_once_its_memory_is_level(harness: Harness) -> None:
    """And the API says so; after a restart they go on, and when memory grows again the kind is unknown."""
    device = a_device()
    world = World(harness.store, device)
    models = ShelfModels(harness.store, harness.folder / "models", Learning(), lambda: harness.now)
    first, second = harness.submit(), harness.submit()
    await harness.live(world, 3)
    attempt = AttemptId(first, 1)
    assert harness.states() == {first: "RUNNING", second: "PENDING"}
    numbers = {"memory_bytes": 3 * GIB, "peak_memory_bytes": 3 * GIB, "peak_utilization_pct": 40.0}
    world.numbers[attempt] = {**numbers, "level_s": 600.0}
    await harness.live(world, 3)
    assert harness.states() == {first: "RUNNING", second: "RUNNING"}
    state = harness.dispatcher.state
    assert [state.attempts[AttemptId(job, 1)].promised[0] // GIB for job in (first, second)] == [4, 4]
    row = harness.store.job(second)
    assert row is not None
    models.watch(decode(await harness.stream.view() or b""))
    [shown] = models.explained_forecasts(row.record.kind, row.record.features, [(device, ())])
    assert shown.forecast.evidence == "own history, 1 run that goes on, memory level so far"

    harness.start()
    assert harness.dispatcher.state.attempts[attempt].shares
    await harness.live(world, 3)
    assert harness.dispatcher.state.attempts[attempt].forecast.known
    world.numbers[attempt] = {**numbers, "peak_memory_bytes": 5 * GIB, "level_s": None}
    await harness.live(world, 3)
    question = Question(row.record.signature, KindId(row.record.kind), device.type)
    assert not harness.dispatcher.parts.learner.answer([question])[question].known
    assert harness.states() == {first: "RUNNING", second: "RUNNING"}


async def test_restarted_dispatcher_forecasts_as_before(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    world.end(AttemptId(job, 1), measurement=measured(10))
    await harness.live(world, 3)
    row = harness.store.job(job)
    assert row is not None
    question = Question(row.record.signature, KindId(row.record.kind), "A")
    before = harness.dispatcher.parts.learner
    harness.start()
    after = harness.dispatcher.parts.learner
    after.register(job, row.record)
    assert after.answer([question]) == before.answer([question])
    assert after.alone_rate(question.kind, "A") == before.alone_rate(question.kind, "A") is not None


async def test_what_is_kept_of_jobs_that_have_ended_is_bounded(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dispatcher that runs for months does not grow with the jobs that it has seen."""
    monkeypatch.setattr("gpuq.daemon.learner._ARCHIVED_KEPT", 2)
    world = World(harness.store, a_device())
    learner = harness.dispatcher.parts.learner
    for number in range(5):
        job = harness.submit(f"{number}.py")
        await harness.live(world, 3)
        harness.now += 100
        world.end(AttemptId(job, 1), measurement=measured(10), at=harness.now)
        await harness.live(world, 3)
    assert list(learner.kinds) == [job - 1, job]
    assert len(learner._features) == 2
    assert [number for number, _ in learner._served._seen] == [job - 1, job], "those of the last two minutes"


async def test_an_end_in_the_future_does_not_hide_the_ends_that_follow(harness: Harness) -> None:
    """As its host recorded it before the wall clock was set back by an hour."""
    world = World(harness.store, a_device())
    models = ShelfModels(harness.store, harness.folder / "models", Learning(), lambda: harness.now)
    seen = []
    for end_s in (3600.0, 1.0):
        job = harness.submit()
        await harness.live(world, 3)
        world.end(AttemptId(job, 1), measurement=measured(10), at=harness.now + end_s)
        await harness.live(world, 3)
        [shown] = models.explained_forecasts("ada:~/train.py", {}, [(a_device(), ())])
        seen.append(shown.runs)
    assert seen == [1, 2]
