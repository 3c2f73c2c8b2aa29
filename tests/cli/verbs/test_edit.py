"""`gpuq edit`: what it says of the jobs it changed."""

from __future__ import annotations

from tests.cli import samples
from tests.cli.conftest import Command, FakeApi


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
    jobs = [
        samples.job(41, position=2, priority=9),
        samples.job(42, position=1, priority=4),
        samples.job(43, position=3),
    ]
    api.on("GET", "/api/v1/jobs", {"jobs": jobs, "next": None})
    answer = {"dry_run": False, "done": True, "refused": [], "missing": [], "unchanged": [], "undo": []}
    api.on("POST", "/api/v1/jobs/edit", {**answer, "jobs": {"PENDING": [43]}})
    for ids, priority in ((["43"], 5), (["42"], 10)):
        assert gpuq("edit", *ids, "--next").code == 0
        assert api.asked("POST", "/api/v1/jobs/edit")[-1].body["edit"] == {"priority": priority}
    assert gpuq("edit", "43", "--next", "--priority", "3").code == 2
    api.on("GET", "/api/v1/jobs", {"jobs": [jobs[0]], "next": None})
    done = gpuq("edit", "41", "--next")
    assert (done.code, "No other job waits." in done.err) == (6, True)
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(42, position=1, priority=1000), jobs[2]], "next": None})
    done = gpuq("edit", "43", "--next")
    assert (done.code, "Job 42 waits with the highest priority, 1000." in done.err) == (6, True)


def test_without_a_terminal_no_editor_is_started_unless_one_is_named(api: FakeApi, gpuq: Command) -> None:
    api.on("GET", "/api/v1/jobs/42", samples.job(42, begin_at_unix=None, deadline_at_unix=None, notify=None))
    done = gpuq("edit", "42")
    assert (done.code, done.err) == (
        2,
        "gpuq: there is nothing to change.\n  Name a value, as in --priority 5; an editor needs a terminal.\n",
    )
    assert "The editor `false` ended with 1" in gpuq("edit", "42", EDITOR="false").err
