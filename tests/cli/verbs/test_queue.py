"""`gpuq queue`: the columns that say how long something still takes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gpuq.cli.verbs import queue
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply, Request


def cell(gpuq: Command, api: FakeApi, column: str, job: dict[str, Any]) -> str:
    """What stands in a right-aligned column of the job's row."""
    api.on("GET", "/api/v1/jobs", {"jobs": [job], "next": None})
    header, row, *_ = gpuq("queue", COLUMNS="200").out.splitlines()
    end = header.index(column) + len(column)
    return row[:end].rpartition("  ")[2].strip()


@pytest.mark.parametrize(
    ("ran_s", "left"),
    [(600.0, "~50m"), (5400.0, "<30m"), (7500.0, "overdue 5m")],
    ids=["before the median", "before the 90th percentile", "after it"],
)
def test_left_says_overdue_and_by_how_much(gpuq: Command, api: FakeApi, ran_s: float, left: str) -> None:
    forecast = {**samples.FORECAST, "duration_p50_s": 3610.0, "duration_p90_s": 7210.0}
    job = samples.running(42, started_at_unix=time.time() - ran_s, forecast=forecast)
    assert cell(gpuq, api, "LEFT", job) == left


def test_left_counts_from_the_median_where_there_is_no_90th_percentile(gpuq: Command, api: FakeApi) -> None:
    forecast = {**samples.FORECAST, "duration_p50_s": 3.0, "duration_p90_s": None}
    job = samples.running(42, started_at_unix=time.time() - 130.0, forecast=forecast)
    assert cell(gpuq, api, "LEFT", job) == "overdue 2m"


@pytest.mark.parametrize(
    ("p50_s", "p90_s", "start"),
    [(3010.0, 9000.0, "~50m"), (-30.0, 1210.0, "<20m"), (-30.0, -20.0, "soon"), (-900.0, -290.0, "overdue 5m")],
)
def test_start_says_overdue_and_by_how_much(
    gpuq: Command, api: FakeApi, p50_s: float, p90_s: float, start: str
) -> None:
    expected = {"p50_unix": time.time() + p50_s, "p90_unix": time.time() + p90_s}
    job = samples.job(7, reason="Resources", expected_start=expected)
    assert cell(gpuq, api, "START", job) == start


def test_a_waiting_job_without_an_estimate_has_no_start(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(7, expected_start=None)], "next": None})
    assert "START" not in gpuq("queue", COLUMNS="200").out


def test_another_users_job_without_its_command_has_a_line(gpuq: Command, api: FakeApi) -> None:
    hidden = samples.running(7, owner="bob", name=None, kind=None, command=[])
    api.on("GET", "/api/v1/jobs", {"jobs": [hidden], "next": None})
    api.on("GET", "/api/v1/gpus", [])
    line = next(line for line in gpuq("queue", "-a").out.splitlines() if " 7 " in f" {line} ")
    assert "(not shown)" in line


def an_array(number: int, states: dict[str, int], **changes: Any) -> dict[str, Any]:
    given = {"id": number, "name": "sweep", "tasks": "0-9", "count": 10, "at_once": 2, "states": states, "reason": None}
    return {**given, "first": {}, "expected_start": None, **changes}


def test_a_job_that_ends_while_the_list_is_read_is_in_it_once(gpuq: Command, api: FakeApi) -> None:
    before, after = [samples.running(7), samples.running(8)], [samples.ended(7, "COMPLETED", 0), samples.running(8)]
    looks = iter([before, after])

    def listed(request: Request) -> Reply:
        wanted = request.query["state"].split(",")
        return Reply({"jobs": [job for job in next(looks) if job["state"] in wanted], "next": None})

    api.on("GET", "/api/v1/jobs", listed)
    done = gpuq("queue", "--all")
    assert done.out.splitlines()[-1] == "1 running, 1 completed", done.out


def test_an_array_is_one_line_with_the_counts_of_its_tasks(gpuq: Command, api: FakeApi) -> None:
    array = an_array(12, {"COMPLETED": 3, "FAILED": 1, "RUNNING": 2, "PENDING": 4}, reason="ArrayLimit")
    api.on("GET", "/api/v1/jobs", {"jobs": [], "arrays": [array], "next": None})
    done = gpuq("queue")
    assert done.out.splitlines() == [
        "ARRAY  NAME   TASKS  DONE  RUN  WAIT  FAIL  REASON",
        "12     sweep  0-9%2  4/10    2     4     1  ArrayLimit",
        "",
        "2 running, 4 waiting, 3 completed, 1 failed",
    ]
    assert api.asked("GET", "/api/v1/jobs")[-1].query["tasks"] == "together"
    gpuq("queue", "-r")
    assert "tasks" not in api.asked("GET", "/api/v1/jobs")[-1].query


def test_a_whole_array_that_is_named_is_its_line_and_a_part_is_its_tasks(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/arrays", {"arrays": [an_array(12, {"HELD": 10})]})
    assert "0/10" in gpuq("queue", "12").out
    assert api.asked("GET", "/api/v1/jobs") == []
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.running(14, array=12, task=2)], "next": None})
    assert "12_2" in gpuq("queue", "12_2").out
    assert api.asked("GET", "/api/v1/jobs")[-1].query["ids"] == "14"


def test_an_expected_start_that_was_not_checked_has_a_question_mark(gpuq: Command, api: FakeApi) -> None:
    now = time.time()
    start = {"p50_unix": now + 2880, "p90_unix": now + 9000, "checked": False}
    array = an_array(12, {"PENDING": 3}, expected_start=start)
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(45, expected_start=start)], "arrays": [array], "next": None})
    assert gpuq("queue").out.count("~48m?") == 2


def test_names_kinds_and_projects_are_asked_for_in_the_list(gpuq: Command, api: FakeApi) -> None:
    array = an_array(12, {"PENDING": 3})
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(42, name="sweep-42")], "arrays": [array], "next": None})

    def asked(*words: str) -> dict[str, str]:
        assert gpuq("queue", *words).code == 0
        return {name: text for name, text in api.asked("GET", "/api/v1/jobs")[-1].query.items() if name in wanted}

    tasks = {"jobs": [samples.job(15, name="sweep-3", array=12, task=3)], "arrays": [], "next": None}
    of_tasks = {"jobs": [samples.job(42, name="sweep-3")], "arrays": [array], "next": None}
    api.on("GET", "/api/v1/jobs", lambda request: Reply(tasks if "array" in request.query else of_tasks))
    assert [line.split()[0] for line in gpuq("queue", "--name", "sweep-3").out.splitlines()[1:3]] == ["12_3", "42"]
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(42, name="sweep-42")], "arrays": [array], "next": None})
    wanted = {"name", "kind", "project", "tasks", "limit"}
    assert asked("--name", "sweep*") == {"name": "sweep*", "tasks": "together", "limit": "1000"}
    assert asked("--name", "sweep*", "-n", "2") == {"name": "sweep*", "tasks": "together", "limit": "2"}
    assert asked("--kind", "*:eval.py", "-P", "vis*") == {"kind": "*:eval.py", "project": "vis*", "limit": "1000"}
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(42, name="eval"), samples.job(43, name="x")], "next": None})
    ids = [job["id"] for job in gpuq("queue", "--name", "e*", "--json").json]
    assert ids == [42], "a gpuq of the previous release does not filter"
    assert [job["id"] for job in gpuq("queue", "42", "43", "--name", "e*", "--json").json] == [42]


def test_an_empty_list_says_where_there_might_be_jobs(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [], "next": None})
    ended = "`--all` lists those that ended, too."
    for words, sentence in (
        ((), f"No jobs wait or run; {ended}"),
        (("--name", "x"), f"No such jobs wait or run; {ended}"),
        (("-u", "ann"), f"No such jobs wait or run; {ended}"),
        (("-a",), "No jobs."),
        (("-a", "--name", "x"), "No such jobs."),
        (("-s", "FAILED"), "No such jobs."),
    ):
        assert gpuq("queue", *words).err == f"{sentence}\n", words


def test_a_utilisation_that_is_only_a_bound_says_so(gpuq: Command, api: FakeApi) -> None:
    actual = {**samples.NO_ACTUAL, "peak_utilization_pct": 61.0, "utilization_is_bound": True}
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.ended(5, "COMPLETED", 0, actual=actual)], "next": None})
    header, line = gpuq("queue", "--all").out.splitlines()
    assert "UTIL" in header
    assert "≤61%" in line.split()


def test_the_jobs_of_one_user_are_listed(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [], "next": None})
    for words, owner in (((), "me"), (("-u", "all"), "all"), (("--user", "ann"), "ann")):
        assert gpuq("queue", *words).code == 0
        assert api.asked("GET", "/api/v1/jobs")[-1].query["owner"] == owner


@pytest.mark.parametrize(("peak", "shown"), [(0.3, "0%"), (0.6, "≤1%"), (54.0, "≤54%"), (None, None)])
def test_a_bound_that_rounds_to_nothing_is_no_bound(peak: float | None, shown: str | None) -> None:
    actual = {**samples.NO_ACTUAL, "peak_utilization_pct": peak, "utilization_is_bound": True}
    lines = queue.table([samples.job(42, state="COMPLETED", actual=actual)], 200, time.time())
    assert (shown in lines[1].split()) if shown else ("UTIL" not in lines[0] or "%" not in lines[1])
