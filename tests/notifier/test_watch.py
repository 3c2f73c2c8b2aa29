"""Which messages a look at a user's jobs gives rise to."""

from __future__ import annotations

from typing import Any

from gpuq.notifier.watch import Announced, Notification, Watch

ALL = ("all:slack",)


def job(state: str, attempt: int = 1, job_id: int = 7, **more: Any) -> dict[str, Any]:
    started = None if state in {"PENDING", "HELD", "STARTING"} else "2026-11-22T10:00:00Z"
    return {"id": job_id, "name": "train.py", "state": state, "attempt": attempt, "started_at": started, **more}


def look(watch: Watch, *jobs: dict[str, Any], rules: tuple[str, ...] = ALL) -> list[Notification]:
    return list(watch.look(jobs, rules, ["slack", "mail"], 1000.0))


def titles(watch: Watch, *jobs: dict[str, Any], rules: tuple[str, ...] = ALL) -> list[str]:
    return [message.title.removeprefix("gpuq: job 7 (train.py) ") for message in look(watch, *jobs, rules=rules)]


def test_each_step_is_announced_once() -> None:
    watch = Watch(last=0)
    assert titles(watch, job("PENDING", 0)) == []
    assert titles(watch, job("STARTING")) == []
    assert titles(watch, job("RUNNING")) == ["has started"]
    assert titles(watch, job("RUNNING")) == []
    assert titles(watch, job("FAILED", exit_code=3)) == ["FAILED with exit code 3"]
    assert (watch.jobs, watch.last) == ({}, 7)


def test_a_job_that_ran_between_two_looks_is_announced_in_full() -> None:
    assert titles(Watch(last=0), job("COMPLETED")) == ["has started", "COMPLETED"]


def test_jobs_are_announced_in_their_order_and_tasks_by_the_id_that_the_command_shows() -> None:
    found = look(
        Watch(last=0), *(job("COMPLETED", job_id=30 - n, array=20, task=10 - n) for n in range(3)), rules=("end:slack",)
    )
    assert [message.title for message in found] == [f"gpuq: job 20_{n} (train.py) COMPLETED" for n in (8, 9, 10)]


def test_an_end_after_which_a_job_waits_again_is_none() -> None:
    watch = Watch(last=0, jobs={7: Announced(begun=1)})
    assert titles(watch, job("PREEMPTED")) == []
    assert titles(watch, job("PENDING")) == ["waits again"]
    assert titles(watch, job("RUNNING", 2)) == ["has started"]
    assert titles(watch, job("PREEMPTED", 2)) == []
    assert titles(watch, job("PREEMPTED", 2)) == ["PREEMPTED"], "at the second look it is its end"


def test_idle_devices_are_announced_once_until_they_are_used() -> None:
    watch, idle = Watch(last=0, jobs={7: Announced(begun=1)}), {"warned_of_idleness": True, "idle_s": 2100.0}
    [message] = look(watch, job("RUNNING", live=idle))
    assert message.title.endswith("uses none of its devices")
    assert "uses none of its devices for: 35m" in message.body
    assert titles(watch, job("RUNNING", live=idle), job("RUNNING", live=None)) == []
    assert titles(watch, job("RUNNING", live=idle), rules=("idle:slack",)) == ["uses none of its devices"]
    assert titles(watch, job("CANCELLED")) == ["CANCELLED"]


def test_a_failure_is_an_end_and_a_cancellation_is_no_failure() -> None:
    def sent(state: str, rule: str) -> list[str]:
        return [message.target for message in look(Watch(last=0), job(state), rules=(rule,))]

    assert sent("FAILED", "end:slack") == sent("FAILED", "fail:slack") == sent("FAILED", "end,fail:slack") == ["slack"]
    assert (sent("COMPLETED", "fail:slack"), sent("CANCELLED", "fail:slack")) == ([], [])
    assert (sent("COMPLETED", "end:slack"), sent("TIMEOUT", "fail:slack")) == (["slack"], ["slack"])
    assert sent("COMPLETED", "end") == ["slack", "mail"], "without targets all of them"


def test_rules_of_a_job_go_before_the_default() -> None:
    watch = Watch(last=0)
    assert [m.target for m in look(watch, job("COMPLETED", notify=["end:mail"]))] == ["mail"]
    assert look(watch, job("COMPLETED", job_id=8, notify=[])) == [], "`--notify none`"


def test_what_happened_before_the_first_look_is_not_announced() -> None:
    watch = Watch()
    watch.begin(7, [job("RUNNING"), job("PENDING", 2, job_id=5), job("STARTING", 1, job_id=6)])
    assert look(watch, job("RUNNING"), job("PENDING", 2, job_id=5)) == []
    assert [m.title for m in look(watch, job("RUNNING", job_id=6))] == ["gpuq: job 6 (train.py) has started"]
    assert [m.title for m in look(watch, job("RUNNING", 3, job_id=5))] == ["gpuq: job 5 (train.py) has started"]


def test_the_message_has_the_facts_and_no_control_characters() -> None:
    facts = {
        "name": "evil\x1b[31m", "submitted_at_unix": 0.0, "started_at_unix": 60.0, "ended_at_unix": 7260.0, "host": "h1",
        "device_names": ["gpu3"], "reason": "x" * 2000, "actual": {"slowdown": 1.08},
    }  # fmt: skip
    [message] = look(Watch(last=0), job("FAILED", **facts), rules=("end:slack",))
    assert "\x1b" not in message.title + message.body
    lines = message.body.splitlines()
    assert lines[:4] == ["waited: 1m", "ran: 2h00m", "on: gpu3 of h1", "slowed by sharing: 8%"]
    assert len(message.body) < 700
