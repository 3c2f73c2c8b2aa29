"""The fence: only the dispatcher that leads commits, whatever the others do."""

from __future__ import annotations

import pytest

from gpuq.errors import Conflict
from tests.daemon.harness import Harness
from tests.support.nouns import a_device
from tests.support.world import World


async def test_a_stale_dispatcher_commits_nothing_even_without_a_journal_entry(harness: Harness) -> None:
    """Its state lacks the job, so the cancel changes nothing in it, and the cycle would only delete the request."""
    world = World(harness.store, a_device())
    stale = harness.dispatcher
    await harness.turn()
    harness.start()
    job = harness.submit(hold=True)
    await harness.live(world, 2)
    harness.store.add_request("cancel", job, "ada", harness.now, {})

    with pytest.raises(Conflict):
        await stale.cycle([], read_requests=True)

    assert [request.verb for request in harness.store.requests(10)] == ["cancel"]
    await harness.live(world, 2)
    assert harness.states() == {job: "CANCELLED"}
