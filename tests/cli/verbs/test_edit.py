"""`gpuq edit`: what it says of the jobs it changed."""

from __future__ import annotations

from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply, Request


def test_the_command_that_takes_a_change_back_names_ids(api: FakeApi, gpuq: Command) -> None:
    array = {"id": 20, "count": 3, "tasks": "0-2", "name": "sweep"}
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(24)], "arrays": [], "next": None})
    api.on("GET", "/api/v1/arrays", {"arrays": [array]})
    answer = {"dry_run": False, "done": True, "refused": [], "missing": [], "unchanged": []}
    undo = {"where": {"ids": [[20, 20], [22, 24]]}, "edit": {"priority": 0}}
    api.on("POST", "/api/v1/jobs/edit", {**answer, "jobs": {"PENDING": [20, 22, 23, 24]}, "undo": [undo]})

    done = gpuq("edit", "@", "20_0,20_2", "23", "--priority", "9")

    assert done.err.splitlines()[-1] == "  To take it back: gpuq edit 20_0 22-24 --priority 0"


def test_next_is_a_priority_above_that_of_the_first_other_job(api: FakeApi, gpuq: Command) -> None:
    jobs = {
        41: samples.job(41, position=2, priority=9),
        42: samples.job(42, position=1, priority=4),
        43: samples.job(43, position=3),
    }

    def listed(request: Request) -> Reply:
        asked = [int(one) for one in request.query["ids"].split(",")]
        return Reply({"jobs": [jobs[one] for one in asked if one in jobs], "next": None})

    def wait(*order: int) -> None:
        api.on("GET", "/api/v1/queue", {"waiting": order, "source": "redis"})

    wait(*range(1000, 1020), 42, 41, 43)  # those that have started since then
    api.on("GET", "/api/v1/jobs", listed)
    answer = {"dry_run": False, "done": True, "refused": [], "missing": [], "unchanged": [], "undo": []}
    api.on("POST", "/api/v1/jobs/edit", {**answer, "jobs": {"PENDING": [43]}})
    for ids, priority in ((["43"], 5), (["42"], 10)):
        assert gpuq("edit", *ids, "--next").code == 0
        assert api.asked("POST", "/api/v1/jobs/edit")[-1].body["edit"] == {"priority": priority}
    assert gpuq("edit", "43", "--next", "--priority", "3").code == 2
    wait(41)
    done = gpuq("edit", "41", "--next")
    assert (done.code, "No other job waits." in done.err) == (6, True)
    wait(42, 43)
    jobs[42] = samples.job(42, position=1, priority=1000)
    done = gpuq("edit", "43", "--next")
    assert (done.code, "Job 42 waits with the highest priority, 1000." in done.err) == (6, True)


def test_of_a_whole_array_those_tasks_change_that_still_can_when_the_request_comes(api: FakeApi, gpuq: Command) -> None:
    api.on("GET", "/api/v1/arrays", {"arrays": [{"id": 20, "count": 4, "tasks": "0-3", "name": "sweep"}]})
    answer = {"dry_run": True, "done": True, "missing": [], "unchanged": [], "undo": []}
    look = {
        **answer,
        "jobs": {"PENDING": [21, 22], "HELD": [23]},
        "refused": [{"ids": [20], "state": "RUNNING", "why": "runs"}],
    }
    changed = {**answer, "dry_run": False, "jobs": {"PENDING": [22], "HELD": [23]}, "refused": []}
    api.on("POST", "/api/v1/jobs/edit", look, changed)
    done = gpuq("edit", "20", "--priority", "5")
    assert (done.code, done.err) == (0, "Job 20_2 changed.\nJob 20_3 changed.\n")
    where = api.asked("POST", "/api/v1/jobs/edit")[-1].body["where"]
    assert where == {"ids": [[21, 23]], "state": ["PENDING", "HELD"]}


def test_without_a_terminal_no_editor_is_started_unless_one_is_named(api: FakeApi, gpuq: Command) -> None:
    api.on("GET", "/api/v1/jobs/42", samples.job(42, begin_at_unix=None, deadline_at_unix=None, notify=None))
    done = gpuq("edit", "42")
    assert (done.code, done.err) == (
        2,
        "gpuq: there is nothing to change.\n  Name a value, as in --priority 5; an editor needs a terminal.\n",
    )
    assert "The editor `false` ended with 1" in gpuq("edit", "42", EDITOR="false").err
