"""`gpuq host`: list, drain, resume, lost."""

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
    assert one.split() == ["node1", "ok", "8", "1", "2026-11-22T10:00:00Z"]
    assert other.split() == ["node2", "drained", "8", "0", "not", "yet", "new", "driver"]


def test_drain_says_how_many_jobs_go_on(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/hosts/node1/drain", {"host": "node1", "asked": "drain", "jobs": [7]})
    done = gpuq("host", "drain", "node1", "--why", "new driver")
    assert (done.code, done.out) == (0, "No new jobs start on node1. What runs there goes on: 1 job.\n")
    assert api.asked("POST", "/api/v1/hosts/node1/drain")[0].body == {"why": "new driver"}


@pytest.mark.parametrize("words", [("drain",), ("list", "node1"), ("resume", "node1", "--why", "x")])
def test_words_that_make_no_sense_are_refused(gpuq: Command, words: tuple[str, ...]) -> None:
    assert gpuq("host", *words).code == 2
