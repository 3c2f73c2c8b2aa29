"""`gpuq show`: everything about one job."""

from __future__ import annotations

import pytest

from gpuq.cli.verbs import show
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi


def test_several_stand_below_one_another(gpuq: Command, api: FakeApi) -> None:
    for job in (3, 5):
        api.on("GET", f"/api/v1/jobs/{job}", samples.ended(job, "COMPLETED", 0))
    lines = gpuq("show", "3", "5").out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("job ")] == ["3", "5"]
    assert lines[next(i for i, line in enumerate(lines) if line.startswith("job 5")) - 1] == ""
    assert [job["id"] for job in gpuq("show", "3,5", "--json").json] == [3, 5]
    assert gpuq("show", "3", "--json").json["id"] == 3
    assert "2 jobs are named, and this takes one." in gpuq("show", "--plot", "3", "5").err


def test_show_has_every_part(gpuq: Command, api: FakeApi) -> None:
    actual = {**samples.NO_ACTUAL, "peak_utilization_pct": 57.0, "slowdown": 1.06, "alone_rate": 12.5, "partners": [43]}
    job = samples.ended(42, "FAILED", 2, actual=actual, partners=[], max_slowdown=1.15, time_limit_s=3600.0)
    api.on("GET", "/api/v1/jobs/42", job)
    out = gpuq("show", "42").out
    for part in (
        "job 42",
        "FAILED",
        "exit code",
        "cpu0",
        "57%",
        "6%",
        "12.5 steps/s",
        "9.8 GiB",
        "12 attempts of",
        "15% at most",
    ):
        assert part in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert gpuq("show", "42", "--json").json == job


@pytest.mark.parametrize("ended", [False, True])
def test_show_says_why_no_steps_are_counted(gpuq: Command, api: FakeApi, ended: bool) -> None:
    why = "no Python with the step counter has started in it; `python -I`, -E and -S keep the counter out"
    uncounted = {"steps": None, "not_counted": why}
    if ended:
        job = samples.ended(42, "COMPLETED", 0, actual={**samples.NO_ACTUAL, **uncounted})
    else:
        job = samples.running(42, live={"memory_bytes": None, "utilization_pct": None, "rate": None, **uncounted})
    api.on("GET", "/api/v1/jobs/42", job)
    out = gpuq("show", "42").out
    assert f"not counted: {why}" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize(
    ("device_type", "load", "much"), [("cpu-2", 0.52, "0.5 cores of the device"), ("T4", 0.3, "30% of the device")]
)
def test_show_says_what_foreign_load_has_spoiled(
    gpuq: Command, api: FakeApi, device_type: str, load: float, much: str
) -> None:
    spoiled = {"foreign_load": load, "utilization_is_bound": True, "disturbed_rate": 4.2, "device_type": device_type}
    actual = {**samples.NO_ACTUAL, "peak_utilization_pct": 99.0, **spoiled}
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0, actual=actual))
    out = gpuq("show", "42").out
    output = " ".join(out.split())
    assert f"other processes kept {much} busy" in output
    assert "its utilisation is only known to be at most what is shown" in output
    assert "at most 99%" in output
    assert "4.2 steps/s" in output
    assert all(len(line) <= 80 for line in out.splitlines())


def test_show_is_silent_on_foreign_load_that_changed_nothing(gpuq: Command, api: FakeApi) -> None:
    actual = {**samples.NO_ACTUAL, "foreign_load": 0.5, "utilization_is_bound": False, "disturbed_rate": None}
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0, actual=actual))
    assert "other processes" not in gpuq("show", "42").out


def test_show_says_of_how_many_processes_the_steps_are(gpuq: Command, api: FakeApi) -> None:
    actual = {**samples.NO_ACTUAL, "steps": 120, "step_processes": 2}
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0, actual=actual))
    assert "120 (the most of any of its 2 processes that step)" in gpuq("show", "42").out


def test_show_lists_attempts_when_there_was_more_than_one(gpuq: Command, api: FakeApi) -> None:
    attempt = {
        "number": 1,
        "device": "box/cpu0",
        "started_at": "2026-11-20T22:30:00Z",
        "ended_at": "2026-11-20T22:31:00Z",
    }
    attempts = [{**attempt, "ending": "out of memory", "exit_code": 1}, {**attempt, "number": 2}]
    api.on("GET", "/api/v1/jobs/42", samples.running(42, attempts=attempts))
    out = gpuq("show", "42").out
    assert "out of memory" in out
    assert "2026-11-20 22:30:00  1:00" in out


def test_show_of_a_job_without_forecast_and_measurement(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs/1", samples.job(1, name=None))
    assert "nothing is known of this kind yet" in gpuq("show", "1").out


def test_show_says_what_a_slowdown_rests_on_and_what_else_says(gpuq: Command, api: FakeApi) -> None:
    actual = {
        **samples.NO_ACTUAL,
        "slowdown": 1.06,
        "slowdown_basis": "measured by blinks",
        "slowdown_otherwise": [{"basis": "kind's alone rate", "value": 1.1, "low": None, "high": None}],
        "blink": "7 times",
        "partners": [43],
    }
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0, actual=actual, blink=True))
    out = gpuq("show", "42").out
    assert "6% measured by blinks, 10% against its kind alone" in out
    assert "7 times" in out
    assert "measured by blinks" in out


def test_show_has_energy_and_marks_a_memory_bound(gpuq: Command, api: FakeApi) -> None:
    actual = {"energy_joules": 360_000.0, "idle_joules": 90_000.0, "peak_memory_bytes": 60 * 2**30}
    job = samples.running(42, actual={**samples.NO_ACTUAL, **actual, "peak_memory_is_bound": True})
    api.on("GET", "/api/v1/jobs/42", job)
    out = gpuq("show", "42").out
    assert "energy: 100 Wh, 25 Wh of it what the device takes idle" in out
    api.on("GET", "/api/v1/jobs/42", {**job, "actual": {**job["actual"], "energy_joules": 3.6e6, "idle_joules": None}})
    assert "energy: 1 kWh\n" in gpuq("show", "42").out
    assert "needs at most" in out


def test_show_says_that_a_job_used_no_device(gpuq: Command, api: FakeApi) -> None:
    actual = {**samples.NO_ACTUAL, "peak_memory_bytes": 0, "peak_utilization_pct": 0.0}
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0, actual=actual))
    assert "none of its processes was on its device while it ran: it may need none" in gpuq("show", "42").out
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "FAILED", 1, actual=actual))
    assert "it may need none" not in gpuq("show", "42").out, "it may have failed on its way there"


def test_show_does_not_repeat_the_exit_code_as_the_reason(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "FAILED", 1, reason="ended with exit code 1"))
    assert "reason" not in gpuq("show", "42").out
    failed = samples.ended(42, "FAILED", 1, reason="ended with exit code 1: ConnectionError: no route to host")
    api.on("GET", "/api/v1/jobs/42", failed)
    out = gpuq("show", "42").out
    assert "  reason            ConnectionError: no route to host\n" in out
    assert "ended with" not in out
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0, reason="ended with exit code 0"))
    assert "ended with" not in gpuq("show", "42").out


def test_show_has_the_slowdown_of_now_and_the_devices_name_and_id(gpuq: Command, api: FakeApi) -> None:
    live = {**samples.running(42)["live"], "slowdown": 1.36, "slowdown_basis": "within attempt"}
    uuid = "GPU-01000100-0000-0000-0000-000000000003"
    api.on("GET", "/api/v1/jobs/42", samples.running(42, live=live, device=uuid, devices=[uuid], device_names=["gpu3"]))
    out = gpuq("show", "42").out
    assert "slowdown now      36% against its time alone, 4% expected\n" in out
    assert f"gpu3 ({uuid})" in out


def test_show_says_for_which_job_it_stands_still(gpuq: Command, api: FakeApi) -> None:
    live = {**samples.running(42)["live"], "paused_for": 43}
    api.on("GET", "/api/v1/jobs/42", samples.running(42, live=live))
    assert "paused for        job 43\n" in gpuq("show", "42").out


def test_show_has_what_a_job_may_still_lose_to_others(gpuq: Command, api: FakeApi) -> None:
    account = {"budget": 1.15, "earned_s": 5400.0, "slowed_s": 600.0, "paused_s": 0.0, "left_s": 4800.0}
    for changed, shown in (
        ({}, "1:20:00 left of 1:30:00 (budget 15%), 10:00 lost to partners"),
        ({"slowed_s": 5460.0, "left_s": -60.0}, "1:00 over of 1:30:00 (budget 15%), 1:31:00 lost to partners"),
        (
            {"earned_s": None, "slowed_s": None, "left_s": None},
            "not known (budget 15%): its partners' cost is not measured",
        ),
    ):
        live = {**samples.running(42)["live"], "slowdown_account": {**account, **changed}}
        api.on("GET", "/api/v1/jobs/42", samples.running(42, live=live))
        assert f"slowdown account  {shown}\n" in gpuq("show", "42").out


def test_show_says_that_it_is_not_known_when_a_job_starts(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs/1", samples.job(1, position=3))
    assert "starts            unknown, there is no estimate yet\n" in gpuq("show", "1").out


@pytest.mark.parametrize(
    ("device_type", "why"), [("cpu-2", "its processes share memory"), ("T4", "the framework took most of the device")]
)
def test_show_says_why_the_measured_memory_is_only_a_bound(
    gpuq: Command, api: FakeApi, device_type: str, why: str
) -> None:
    bound = {"peak_memory_bytes": 2**33, "peak_memory_is_bound": True, "device_type": device_type}
    api.on("GET", "/api/v1/jobs/42", samples.ended(42, "COMPLETED", 0, actual={**samples.NO_ACTUAL, **bound}))
    out = gpuq("show", "42").out
    assert why in out
    assert "only what the job needs at most" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines())


def test_a_job_with_a_snapshot_says_how_to_run_its_files_again() -> None:
    copy, tree = "/home/ana/.local/state/gpuq/snapshots/3f2a91c07b64d8e5/nlp", "/home/ana/nlp"
    job = samples.job(
        42,
        snapshot="3f2a91c07b64d8e5",
        snapshot_folder=copy,
        snapshot_taken_from=tree,
        command=["/usr/bin/python3", f"{copy}/src/train.py", "--name", "a b"],
        cwd=f"{copy}/src",
        script=f"{tree}/src/train.py",
        name="train.py",
        gpus=2,
        time_limit_s=5400.0,
        requeue_on_node_fail=True,
        interactive="terminal",
    )
    lines = show.screen(job, 80, colour=False)
    assert lines[lines.index("run again") + 1] == (
        "  cd /home/ana/nlp/src && gpuq submit --from-snapshot 3f2a91c07b64d8e5 --name train.py --gpus 2 --time 1h30m "
        "--requeue --pty --python /usr/bin/python3 train.py --name 'a b'"
    )
    assert "run again" not in show.screen(samples.job(43), 80, colour=False)


def test_a_job_that_is_to_be_queued_again_says_so(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs/1", samples.job(1, requeue_on_node_fail=True))
    assert "asked for         to be queued again if its host fails" in gpuq("show", "1").out
