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


def a_task(of: int, number: int, *after: str, state: str = "PENDING", name: str = "train.py") -> dict[str, object]:
    return {**a_job(of + number, name, *after, state=state), "array": of, "task": number}


ARRAYS = """\
12_0-2 train.py  COMPLETED
└─ corr 42_0-2 evaluate.py  PENDING
12_[3,5-9] train.py  RUNNING
├─ corr 42_[3,5-9] evaluate.py  PENDING
│  └─ ok 52_0-8:2 plot 0 …  PENDING
└─ ok 60 merge.py  PENDING
12_4 train.py  RUNNING
├─ any 30 clean.py  PENDING
├─ corr 42_4 evaluate.py  PENDING
│  └─ ok 52_0-8:2 plot 0 …  PENDING
└─ ok 60 merge.py  PENDING
"""


def test_tasks_that_are_alike_are_one_line(gpuq: Command, api: FakeApi) -> None:
    ended = [a_task(12, number, state="COMPLETED") for number in range(3)]
    live = [
        *(a_task(12, number, state="RUNNING") for number in range(3, 10)),
        a_job(30, "clean.py", "any:16"),
        *(a_task(42, number, f"ok:{12 + number}", name="evaluate.py") for number in range(10)),
        *({**a_task(52, 2 * place, "ok:45-51", name=f"plot {place}"), "id": 52 + place} for place in range(5)),
        a_job(60, "merge.py", "ok:15-21"),
    ]
    api.on("GET", "/api/v1/jobs", *({"jobs": some, "next": None} for some in (live, ended)))
    assert gpuq("graph").out == ARRAYS


def test_an_array_of_ten_thousand_is_one_line(gpuq: Command, api: FakeApi) -> None:
    live = [*(a_task(1, number) for number in range(10_000)), a_job(10_001, "merge.py", "ok:1-10000")]
    api.on("GET", "/api/v1/jobs", {"jobs": live, "next": None})
    assert gpuq("graph").out == "1_0-9999 train.py  PENDING\n└─ ok 10001 merge.py  PENDING\n"
    graph = gpuq("graph", "--json").json
    assert graph["jobs"][0] == {"id": "1_0-9999", "name": "train.py", "state": "PENDING"}
    assert graph["edges"] == [{"from": "1_0-9999", "to": "10001", "type": "ok"}]


def test_tasks_that_run_one_at_a_time_are_a_line_for_each_state(gpuq: Command, api: FakeApi) -> None:
    live = [
        {**a_task(12, number, state="RUNNING" if number == 0 else "PENDING"), "singleton": True} for number in range(9)
    ]
    live[5]["state"] = "HELD"
    api.on("GET", "/api/v1/jobs", {"jobs": live, "next": None})
    assert gpuq("graph").out.splitlines() == [
        "12_0 train.py  RUNNING",
        "└─ singleton 12_[1-4,6-8] train.py  PENDING",
        "   └─ singleton 12_5 train.py  HELD",
        "      └─ singleton 12_[1-4,6-8] train.py  PENDING …",
    ]
