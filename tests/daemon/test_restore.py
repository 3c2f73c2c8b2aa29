"""What a restarted dispatcher knows of attempts that were being stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.adapters.store.contract import Commit, JobChange
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.booking import BookingRequest
from gpuq.core.state.device import HostId
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.quota import Account, Quota, QuotaScope, accounts
from gpuq.core.state.verdict import Rule
from gpuq.daemon.restore import restore
from gpuq.messages.codec import plain
from gpuq.messages.submission import ArrayTasks
from tests.daemon.harness import Harness
from tests.support.nouns import GIB, a_device
from tests.support.world import World


async def test_restart_keeps_the_reason_of_a_stop_under_way(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    harness.store.add_request("cancel", job, "ada", harness.now, {})
    await harness.turn()
    attempt = AttemptId(job, 1)
    assert harness.dispatcher.state.attempts[attempt].stopping is StopReason.CANCELLED
    harness.start()
    assert harness.dispatcher.state.attempts[attempt].stopping is StopReason.CANCELLED
    assert harness.dispatcher.state.jobs[job].state is JobState.COMPLETING


@pytest.mark.parametrize("cancel_requested", [False, True])
async def test_reason_is_the_stored_one_also_where_a_cancel_came_later(
    harness: Harness, cancel_requested: bool
) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    attempt = AttemptId(job, 1)
    assert harness.store.live_attempts()[0].stop_reason is None
    completing = replace(
        harness.dispatcher.state.jobs[job], state=JobState.COMPLETING, cancel_requested=cancel_requested
    )
    harness.lease.commit(Commit(jobs=[JobChange(completing)], stopped=[(attempt, StopReason.PREEMPTED)]))
    restored = restore(harness.store, harness.now)
    assert restored.attempts[attempt].stopping is StopReason.PREEMPTED


async def test_a_drained_host_stays_drained_over_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device())
    await harness.live(world, 2)
    harness.store.add_request("drain", None, "ann", harness.now, {"host": "host", "why": "new driver"})
    await harness.turn()
    harness.start()
    assert harness.dispatcher.state.drained == {HostId("host"): "new driver"}
    job = harness.submit()
    await harness.live(world, 3)
    assert harness.dispatcher.state.jobs[job].state is JobState.PENDING
    harness.store.add_request("resume", None, "ann", harness.now, {"host": "host"})
    await harness.live(world, 3)
    assert harness.dispatcher.state.jobs[job].state is JobState.RUNNING
    assert harness.store.drained() == {}


async def test_bookings_survive_a_restart_and_are_made_and_cancelled_once(harness: Harness) -> None:
    world = World(harness.store, a_device())
    await harness.live(world, 2)
    begins, ends = harness.now, harness.now + 3600
    booking = harness.store.add_booking(BookingRequest("ann", "ann", 1, begins, ends), harness.now)
    harness.start()
    assert harness.dispatcher.state.bookings == {booking.id: booking}, "it holds before its request was handled"
    job = harness.submit()
    await harness.live(world, 3)
    waits = harness.store.job(job)
    assert waits is not None
    assert (waits.state, (waits.verdict or {}).get("rule")) == (JobState.PENDING, "Booked")
    harness.store.cancel_booking(booking.id, "ann", harness.now)
    await harness.live(world, 3)
    assert harness.dispatcher.state.jobs[job].state is JobState.RUNNING
    harness.start()
    assert (harness.dispatcher.state.bookings, harness.store.requests(9)) == ({}, [])


async def test_what_was_opened_to_partners_stays_open_over_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    attempt = AttemptId(job, 1)
    harness.lease.commit(Commit(opened=[(attempt, GIB)]))
    assert harness.store.live_attempts()[0].opened_memory == GIB
    restored = restore(harness.store, harness.now).attempts[attempt]
    assert (restored.opened, restored.shares, restored.promised) == (True, True, (GIB,))


async def test_quotas_and_the_use_within_their_window_survive_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device())
    ended = harness.submit(project="nlp")
    await harness.live(world, 3)
    world.end(AttemptId(ended, 1))
    quota = Quota(Account(QuotaScope.PROJECT, "nlp"), device_hours=0.0)
    harness.store.add_request("quota", None, "root", harness.now, {"quota": plain(quota)})
    await harness.live(world, 3)
    before = harness.dispatcher.state
    harness.start()
    after = harness.dispatcher.state
    assert after.quotas == {quota.account: quota}
    assert after.served.keys() == before.served.keys() == {*accounts("ada", "nlp")}
    refused = harness.submit(project="nlp")
    await harness.live(world, 3)
    assert after.verdicts[refused].rule is Rule.DEVICE_HOURS_QUOTA
    harness.start()
    assert harness.dispatcher.state.jobs[refused].project == "nlp"
    harness.store.add_request("remove_quota", None, "root", harness.now, {"account": plain(quota.account)})
    await harness.live(world, 3)
    assert harness.dispatcher.state.jobs[refused].state is JobState.RUNNING
    assert harness.store.quotas() == []


async def test_the_tasks_of_an_array_are_taken_in_and_are_there_after_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device(), a_device("gpu1"))
    first = harness.submit(array=ArrayTasks(tasks="5-7", at_once=1, params={"lr": ("1", "2", "3")}))
    await harness.live(world, 3)
    assert world.running() == [AttemptId(first, 1)], "the limit of the array, with two devices"

    before = {job.id: job for job in harness.dispatcher.state.jobs.values()}
    assert [(job.array, job.most_at_once) for job in before.values()] == [(first, 1)] * 3
    harness.start()
    assert restore(harness.store, harness.now).jobs == before

    world.end(AttemptId(first, 1))
    await harness.live(world, 3)
    assert world.running() == [AttemptId(JobId(first + 1), 1)]
    second = harness.store.job(JobId(first + 1))
    assert second is not None
    assert second.record.submission.env == {"lr": "2", "GPUQ_ARRAY_ID": str(first), "GPUQ_ARRAY_TASK": "6"}


async def test_jobs_go_on_waiting_for_what_they_waited_for_over_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0"), a_device("gpu1"))
    first, second = harness.submit(name="a"), harness.submit(name="a")
    after = {
        "ok": harness.submit(after=(f"ok:{first}",)),
        "fail": harness.submit(after=(f"fail:{first}-{second}", f"any:{second}")),
        "later": harness.submit(begin_at=harness.now + 500),
        "in turn": harness.submit(name="a", singleton=True),
        "doomed": harness.submit(after=(f"fail:{first}",), hold=True),
    }
    await harness.live(world, 6)
    assert harness.dispatcher.state.index.waiting == {}
    world.end(AttemptId(first, 1))
    await harness.live(world, 6)
    before = harness.dispatcher.state
    assert before.jobs[after["ok"]].state is JobState.RUNNING
    assert harness.states()[after["doomed"]] == "CANCELLED"
    assert harness.store.jobs(ids=[after["doomed"]])[0].reason == (
        f"it waited for fail:{first}, which can never hold any more"
    )
    harness.start()
    restored = harness.dispatcher.state
    assert restored.index.waiting == {}
    for job in ("ok", "fail", "later", "in turn"):
        assert replace(restored.jobs[after[job]], since=0, had_partner=False) == replace(
            before.jobs[after[job]], since=0, had_partner=False
        )
    world.end(AttemptId(second, 1), code=1)
    world.end(AttemptId(after["ok"], 1))
    await harness.live(world, 6)
    assert {harness.states()[after[job]] for job in ("fail", "in turn")} == {"RUNNING"}
    for job in ("fail", "in turn"):
        world.end(AttemptId(after[job], 1))
    await harness.live(world, 6)
    assert harness.states()[after["later"]] == "PENDING"
    harness.now += 500
    await harness.live(world, 6)
    assert harness.states()[after["later"]] == "RUNNING"


async def test_a_start_is_meant_by_the_wall_clock(harness: Harness) -> None:
    world = World(harness.store, a_device())
    harness.wall_offset = 3600.0
    job = harness.submit(begin_at=harness.wall + 100)
    await harness.live(world, 6)
    assert harness.store.jobs(ids=[job])[0].waits.not_before == pytest.approx(harness.wall + 94, abs=5)
    harness.now += 100
    await harness.live(world, 6)
    assert harness.states()[job] == "RUNNING"


async def test_retries_and_a_raised_promise_are_counted_over_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit(retry=("oom:1", "exit=75:2"))
    await harness.live(world, 4)
    world.end(AttemptId(job, 1), code=75)
    await harness.live(world, 2)
    harness.start()
    waiting = harness.dispatcher.state.jobs[job]
    assert (waiting.state, waiting.eligible, waiting.retried) == (JobState.PENDING, False, (0, 1))
    assert harness.store.jobs(ids=[job])[0].reason == "retry 1 of 2 after exit code 75, in 10 s"
    await harness.live(world, 14)
    world.end(AttemptId(job, 2), Ending.OUT_OF_MEMORY, 1)
    await harness.live(world, 2)
    raised = harness.dispatcher.state.jobs[job]
    assert (raised.declared_memory, raised.alone, raised.retried) == (int(24 * GIB * 0.9), True, (1, 1))
    harness.start()
    assert harness.dispatcher.state.jobs[job].declared_memory == raised.declared_memory
    await harness.live(world, 26)
    world.end(AttemptId(job, 3), Ending.OUT_OF_MEMORY, 1)
    await harness.live(world, 2)
    assert harness.states()[job] == "OUT_OF_MEMORY"
