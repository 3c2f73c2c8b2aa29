"""What a restarted dispatcher knows of attempts that were being stopped."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from gpuq.adapters.store.row_types import Commit, Entry, JobChange
from gpuq.core.state.actions import OpenToPartners
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.booking import BookingRequest
from gpuq.core.state.device import HostId
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.quota import Account, Quota, QuotaScope, accounts
from gpuq.core.state.validate import validate
from gpuq.core.state.verdict import Rule
from gpuq.daemon.restore import restore
from gpuq.messages.codec import plain
from gpuq.messages.submission import ArrayTasks
from tests.daemon.harness import Harness, measured, two_that_share
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


async def test_an_idle_job_that_was_opened_to_partners_stays_open(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    attempt = AttemptId(job, 1)
    before = harness.dispatcher.state.attempts[attempt]
    assert not before.opened
    opening = OpenToPartners(attempt, GIB)
    assert apply(harness.dispatcher.state, opening, harness.now)
    harness.dispatcher.recorder.note(opening, harness.dispatcher.state)
    harness.submit()  # what else makes a cycle commit
    await harness.turn()
    harness.start()
    after = harness.dispatcher.state.attempts[attempt]
    assert (after.opened, after.promised) == (True, (GIB,)), "what it gave up may be promised to others by now"


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
    recorder = harness.dispatcher.recorder
    recorder.note(OpenToPartners(attempt, GIB), harness.dispatcher.state)
    harness.lease.commit(recorder.take())
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
        "never_satisfied": harness.submit(after=(f"fail:{first}",), hold=True),
        "started": harness.submit(after=(f"start:{first}-{second}", f"any:{second}")),
    }
    await harness.live(world, 6)
    assert harness.dispatcher.state.index.waiting == {}
    world.end(AttemptId(first, 1))
    await harness.live(world, 6)
    before = harness.dispatcher.state
    assert before.jobs[after["ok"]].state is JobState.RUNNING
    assert harness.states()[after["never_satisfied"]] == "CANCELLED"
    assert harness.store.jobs(ids=[after["never_satisfied"]])[0].reason == (
        f"it waited for fail:{first}, which can never hold any more"
    )
    harness.start()
    restored = harness.dispatcher.state
    assert restored.index.waiting == {}
    assert [str(one) for one in restored.jobs[after["started"]].after] == [f"any:{second}"]
    for job in ("ok", "fail", "later", "in turn", "started"):
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
    job = harness.submit(begin_at=harness.wall + 1000)
    await harness.live(world, 6)
    assert harness.store.jobs(ids=[job])[0].waits.not_before == pytest.approx(harness.wall + 994, abs=5)
    harness.store.add_request("edit", job, "ada", harness.wall, {"edit": {"begin_at": harness.wall + 100}})
    await harness.live(world, 1)
    assert harness.store.jobs(ids=[job])[0].waits.not_before == pytest.approx(harness.wall + 99)
    assert harness.store.jobs(ids=[job])[0].record.submission.begin_at == pytest.approx(harness.wall + 99)
    harness.now += 100
    await harness.live(world, 6)
    assert harness.states()[job] == "RUNNING"


async def test_an_edited_job_is_the_same_after_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device())
    running, waiting = harness.submit(time_limit_s=3600.0), harness.submit(name="night", singleton=True)
    await harness.live(world, 4)
    changes = {"priority": 5, "share": "never", "gpu_memory": GIB, "begin_at": harness.now + 100, "name": "x"}
    for job, edit in ((running, {"time_limit_s": 60.0, "notify": ["end"]}), (waiting, changes)):
        harness.store.add_request("edit", job, "ada", harness.wall, {"edit": edit})
    await harness.live(world, 2)
    assert harness.dispatcher.state.jobs[waiting].not_before == changes["begin_at"]
    harness.store.add_request("edit", waiting, "ada", harness.wall, {"edit": {"reset": ["begin_at"]}})
    await harness.live(world, 2)
    kept = dict(harness.dispatcher.state.jobs)
    harness.start()
    restored = harness.dispatcher.state.jobs
    assert restored[waiting] == kept[waiting]
    assert (restored[running].time_limit_s, restored[running].state) == (60.0, JobState.RUNNING)

    await harness.live(world, 60)
    assert harness.states()[running] == "TIMEOUT"
    ended = harness.store.job(running)
    assert ended is not None
    assert ended.reason == "it ran longer than its limit of 60 s"


async def test_a_reservation_ends_with_an_edit_also_over_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0"), a_device("gpu1"))
    harness.submit()
    await harness.live(world, 3)
    waiting = harness.submit(gpus=2)
    await harness.live(world, 3, seconds=harness.limits.patience_s)
    assert waiting in harness.dispatcher.state.reservations
    harness.store.add_request("edit", waiting, "ada", harness.now, {"edit": {"begin_at": harness.now + 1000}})
    await harness.turn()
    assert waiting not in harness.dispatcher.state.reservations
    assert waiting not in restore(harness.store, harness.now).reservations


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


async def test_a_restarted_dispatcher_knows_who_stands_still_for_whom(harness: Harness) -> None:
    world = World(harness.store, a_device())
    older, newer = await two_that_share(harness, world)
    rows = [
        msgspec.structs.replace(row, launch={**row.launch, "pauses": [list(older)]}) if row.job == newer.job else row
        for row in harness.store.live_attempts()
    ]
    assert [row.job for row in rows] == [older.job, newer.job]
    harness.store.live_attempts = lambda: rows  # type: ignore[method-assign]
    restored = restore(harness.store, harness.now)
    assert restored.attempts[older].paused_for == newer
    assert restored.attempts[older].paused_at == restored.attempts[newer].launched_at
    validate(restored)


async def test_a_job_whose_partner_had_ended_before_a_restart_still_runs_alone_after_it_ran_out_of_memory(
    harness: Harness,
) -> None:
    world = World(harness.store, a_device())
    older, newer = await two_that_share(harness, world)
    assert world.running() == [older, newer]
    world.end(newer, measurement=measured(10, partner=older))
    await harness.live(world, 3)
    harness.start()

    world.end(older, Ending.OUT_OF_MEMORY, 1, measured(10, partner=newer))
    await harness.live(world, 4)

    assert (harness.dispatcher.state.jobs[older.job].alone, harness.states()[older.job]) == (True, "RUNNING")


async def test_a_job_that_started_and_waits_again_has_started_also_after_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device())
    first = harness.submit(retry=("any:1",))
    second = harness.submit(after=(f"start:{first}",), hold=True)
    await harness.live(world, 3)
    assert harness.dispatcher.state.jobs[second].after == ()
    world.end(AttemptId(first, 1), code=1)
    await harness.live(world, 2)
    assert harness.states()[first] == "PENDING"
    harness.start()
    assert harness.dispatcher.state.jobs[second].after == ()


async def test_a_start_by_a_clock_that_is_behind_is_not_before_its_launch_after_a_restart(harness: Harness) -> None:
    """Else the job would have run for ten minutes by then, and a limit that was made shorter since would end it at once."""
    world = World(harness.store, a_device(), clock=lambda: harness.wall - 600)
    job = harness.submit()
    await harness.live(world, 3)
    attempt = harness.dispatcher.state.attempts[AttemptId(job, 1)]
    assert attempt.started_at is not None
    harness.store.add_request("edit", job, "ada", harness.wall, {"edit": plain(JobEdit(time_limit_s=300.0))})
    await harness.live(world, 2)

    harness.start()
    assert harness.dispatcher.state.attempts[attempt.id].started_at == attempt.launched_at
    await harness.live(world, 3)
    assert harness.states() == {job: "RUNNING"}


async def test_a_verdict_by_a_rule_of_a_later_release_does_not_keep_a_dispatcher_from_taking_over(
    harness: Harness,
) -> None:
    world = World(harness.store, a_device())
    runs, waits = harness.submit(), harness.submit("other.py", share="never")
    await harness.live(world, 3)
    assert harness.states() == {runs: "RUNNING", waits: "PENDING"}
    later = {"admitted": True, "rule": "Later", "device": "gpu0", "numbers": []}
    rows = [
        msgspec.structs.replace(row, launch={**row.launch, "verdict": later}) for row in harness.store.live_attempts()
    ]
    harness.store.live_attempts = lambda: rows  # type: ignore[method-assign]
    entry = Entry(seq=harness.store.last_seq() + 1, at=harness.now, name="Launch", body=rows[0].launch, jobs=(runs,))
    pending = JobChange(harness.dispatcher.state.jobs[waits], {**later, "admitted": False})
    harness.lease.commit(Commit(entries=[entry], jobs=[pending]))

    harness.start()
    await harness.live(world, 3)
    assert harness.dispatcher.state.verdicts[waits].rule is Rule.EXCLUSIVE
    assert harness.states() == {runs: "RUNNING", waits: "PENDING"}


async def test_a_takeover_reads_each_entry_of_the_journal_once(harness: Harness) -> None:
    """It is searched back from its end, and most entries are not what is looked for."""
    world = World(harness.store, a_device())
    harness.submit()
    await harness.live(world, 3)
    first = harness.store.last_seq() + 1
    names = ("LeaveUnpaused", *["Exited"] * 9)
    later = [Entry(seq=n, at=0.0, name=names[n % 10], body={"kind": f"kind{n}"}) for n in range(first, first + 12_000)]
    harness.lease.commit(Commit(entries=later))
    read: list[int] = []
    journal = harness.store.journal

    def reading(*, names: set[str], **page: int) -> list[Entry]:
        found = journal(names=names, **page)
        read.extend(entry.seq for entry in found if entry.name == "LeaveUnpaused")
        return found

    harness.store.journal = reading  # type: ignore[method-assign,assignment]
    assert len(restore(harness.store, harness.now).unpausable) == 1200
    assert len(read) == len(set(read)) == 1200
