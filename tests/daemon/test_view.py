"""The live picture: what the dispatcher shows of residents and of those who wait, as the API reads it."""

from __future__ import annotations

import msgspec
import pytest

from gpuq.core.measuring.slowdown import Rate, Rates
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.quota import Account, Quota, QuotaScope
from gpuq.messages.codec import plain
from gpuq.messages.live import LiveView, ResidentStatus
from tests.daemon.harness import Harness, two_that_share
from tests.support.nouns import a_device
from tests.support.world import World


async def view(harness: Harness) -> LiveView:
    raw = await harness.stream.view()
    assert raw is not None
    return msgspec.json.decode(raw, type=LiveView)


def resident(picture: LiveView, attempt: AttemptId) -> ResidentStatus:
    found = picture.resident(attempt.job)
    assert found is not None
    return found


async def test_the_resident_that_was_there_first_has_a_live_slowdown_too(harness: Harness) -> None:
    world = World(harness.store, a_device(index="3"))
    older, newer = await two_that_share(harness, world)
    world.rates = {
        older: Rates(alone=Rate(10.0, 6, 0.01), shared=Rate(8.0, 4, 0.01)),
        newer: Rates(alone=None, shared=Rate(5.0, 4, 0.01)),
    }
    await harness.live(world, 2)
    picture = await view(harness)
    assert [device.index for device in picture.devices] == ["3"]
    suffers, came = resident(picture, older), resident(picture, newer)
    assert (suffers.slowdown, suffers.slowdown_basis) == (1.25, "within attempt")
    assert (came.slowdown, came.slowdown_basis) == (2.0, "kind's alone rate"), "it never was alone"


async def test_what_a_job_may_still_lose_is_shown_once_the_cost_of_its_partners_is_measured(harness: Harness) -> None:
    world = World(harness.store, a_device())
    older, newer = await two_that_share(harness, world)
    world.numbers = {older: {"slowed_s": 0.5}, newer: {"slowed_s": None}}
    await harness.live(world, 2)
    picture = await view(harness)
    known, unknown = (resident(picture, attempt).slowdown_account for attempt in (older, newer))
    assert known is not None
    assert known.budget == 1.15
    assert known.left_s == pytest.approx(known.earned_s - 0.5)
    assert unknown is not None
    assert (unknown.slowed_s, unknown.earned_s, unknown.left_s) == (None, None, None)


async def test_expected_slowdown_is_shown_for_both_jobs_of_a_pair_and_for_no_job_alone(harness: Harness) -> None:
    world = World(harness.store, a_device())
    older, newer = await two_that_share(harness, world)
    picture = await view(harness)
    expected = [resident(picture, attempt).expected_slowdown for attempt in (older, newer)]
    pair = harness.dispatcher.state.attempts[newer].forecast.pairs[0]
    assert expected == [pair.resident, pair.newcomer]
    assert None not in expected
    assert [resident(picture, attempt).slowdown for attempt in (older, newer)] == [None, None], (
        "nothing is measured yet"
    )
    world.end(newer)
    await harness.live(world, 3)
    alone = resident(await view(harness), older)
    assert (alone.expected_slowdown, alone.slowdown, alone.partners) == (None, None, ())


async def test_the_use_of_accounts_with_a_quota_is_shown(harness: Harness) -> None:
    world = World(harness.store, a_device())
    account = Account(QuotaScope.USER, "ada")
    harness.submit(project="nlp")
    harness.store.add_request("quota", None, "root", harness.now, {"quota": plain(Quota(account, running_devices=4))})
    await harness.live(world, 4)
    [use] = (await view(harness)).uses
    assert (use.scope, use.name, use.devices) == ("user", "ada", 1)
    assert use.device_hours > 0
