"""`gpuq graph`: who waits for whom."""

from __future__ import annotations

import pytest

from tests.cli import samples
from tests.cli.conftest import Command, FakeApi

TREE = """\
jobs 3-5
└─ any 14 clean.py  PENDING
   └─ ok 15 merge.py  PENDING
9 prepare.py  COMPLETED
└─ ok 12 train.py  RUNNING
   ├─ any 13 evaluate.py  PENDING
   │  └─ ok 15 merge.py  PENDING
   ├─ fail 14 clean.py  PENDING …
   └─ singleton 16 train.py  PENDING
"""


def a_job(number: int, name: str, *after: str, state: str = "PENDING", singleton: bool = False) -> dict[str, object]:
    return {**samples.job(number), "name": name, "state": state, "after": list(after), "singleton": singleton}


@pytest.fixture
def jobs(api: FakeApi) -> None:
    live = [
        a_job(12, "train.py", "ok:9", state="RUNNING"),
        a_job(13, "evaluate.py", "any:12"),
        a_job(14, "clean.py", "fail:12", "any:3-5"),
        a_job(15, "merge.py", "ok:13", "ok:14"),
        a_job(16, "train.py", singleton=True),
        a_job(17, "other.py"),
    ]
    ended = [a_job(9, "prepare.py", state="COMPLETED")]
    api.on("GET", "/api/v1/jobs", *({"jobs": some, "next": None} for some in (live, ended)))


def test_below_a_job_stand_those_that_wait_for_it(gpuq: Command, api: FakeApi, jobs: None) -> None:
    assert gpuq("graph").out == TREE


def test_json_has_jobs_and_edges(gpuq: Command, api: FakeApi, jobs: None) -> None:
    graph = gpuq("graph", "--json").json
    assert {"from": "3-5", "to": "14", "type": "any"} in graph["edges"]
    assert {"id": "9", "name": "prepare.py", "state": "COMPLETED"} in graph["jobs"]


def test_dot_is_a_graph_of_graphviz(gpuq: Command, api: FakeApi, jobs: None) -> None:
    lines = gpuq("graph", "--dot").out.splitlines()
    assert (lines[0], lines[-1]) == ("digraph gpuq {", "}")
    assert '  "12" -> "13" [label="any"];' in lines


def test_a_job_without_edges_is_in_no_graph(gpuq: Command, api: FakeApi, jobs: None) -> None:
    done = gpuq("graph", "17")
    assert (done.code, done.out) == (0, "")
    assert "None of these waits for another one." in done.err


def test_a_job_that_there_is_not_is_an_error(gpuq: Command, api: FakeApi, jobs: None) -> None:
    done = gpuq("graph", "99")
    assert (done.code, "There is no job 99" in done.err) == (3, True)
