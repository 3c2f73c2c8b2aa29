"""`gpuq host`: add, list, drain, resume, lost, forget, rotate."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Command, FakeApi

HOST = {
    "name": "node1",
    "state": "ok",
    "drained": None,
    "reported_at": "2026-11-22T10:00:00Z",
    "devices": 8,
    "jobs": [7],
}


def test_the_list_says_what_each_host_does(gpuq: Command, api: FakeApi) -> None:
    drained = {**HOST, "name": "node2", "state": "drained", "drained": "new driver", "reported_at": None, "jobs": []}
    api.on("GET", "/api/v1/hosts", [HOST, drained])
    header, one, other = gpuq("host").out.splitlines()
    assert header.split() == ["HOST", "STATE", "DEVICES", "JOBS", "REPORTED", "WHY"]
    assert one.split() == ["node1", "ok", "8", "1", "2026-11-22", "10:00:00"]
    assert other.split() == ["node2", "drained", "8", "0", "not", "yet", "new", "driver"]


def test_a_host_that_can_start_no_job_is_not_ok(gpuq: Command, api: FakeApi) -> None:
    cannot = {
        "why": "it cannot reach the record: it does not answer.",
        "since_at": "2026-11-22T09:58:30.000Z",
        "again_at": None,
    }
    api.on("GET", "/api/v1/hosts", [{**HOST, "state": "failing", "no_starts": cannot}])
    _, line = gpuq("host", COLUMNS="200").out.splitlines()
    assert line.split()[:2] == ["node1", "failing"]
    assert line.endswith("it cannot reach the record: it does not answer, since 2026-11-22 09:58:30")
    assert "it cannot reach" in gpuq("host", COLUMNS="80").out, "where it is cut, the cause comes first"


def test_lost_says_when_jobs_with_a_lease_end(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/hosts/node1/lost", {"host": "node1", "asked": "lost", "jobs": [7, 8]})
    done = gpuq("host", "lost", "node1")
    assert done.out == "What ran on node1 ends as NODE_FAIL, with --requeue once its lease is over: 2 jobs.\n"


def test_drain_says_how_many_jobs_go_on(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/hosts/node1/drain", {"host": "node1", "asked": "drain", "jobs": [7]})
    done = gpuq("host", "drain", "node1", "--why", "new driver")
    assert (done.code, done.out) == (0, "No new jobs start on node1. What runs there goes on: 1 job.\n")
    assert api.asked("POST", "/api/v1/hosts/node1/drain")[0].body == {"why": "new driver"}


@pytest.mark.parametrize("words", [("drain",), ("add",), ("list", "node1"), ("resume", "node1", "--why", "x")])
def test_words_that_make_no_sense_are_refused(gpuq: Command, words: tuple[str, ...]) -> None:
    assert gpuq("host", *words).code == 2


# --- add, forget, rotate -----------------------------------------------------------------------------------------------

ADDED = {"host": "node2", "command": "printf %b ... | python3 -", "expires_at": "2026-11-22T11:00:00Z"}


def test_add_prints_the_command_alone_and_the_hint_apart(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/hosts/node2/add", ADDED)
    done = gpuq("host", "add", "node2")
    assert (done.code, done.out) == (0, f"{ADDED['command']}\n")
    assert "on node2 as root, once, before 2026-11-22 11:00:00" in done.err
    assert gpuq("host", "add", "node2", "--json").json == ADDED


@pytest.mark.parametrize(
    ("verb", "says"),
    [("forget", "node1 and its devices are removed"), ("rotate", "node1 makes a new key")],
)
def test_forget_and_rotate_say_what_happens(gpuq: Command, api: FakeApi, verb: str, says: str) -> None:
    api.on("POST", f"/api/v1/hosts/node1/{verb}", {"host": "node1", "asked": verb, "jobs": []})
    done = gpuq("host", verb, "node1")
    assert (done.code, says in done.out) == (0, True)
