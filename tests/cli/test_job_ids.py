"""Jobs named by id, by how recently they were submitted, and by name."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, cast

import pytest

from gpuq.cli import job_ids
from gpuq.cli.client import HttpClient
from gpuq.errors import BadInput, NotFound
from gpuq.states import ENDED


class Listing:
    """The list of the user's own jobs, the newest first, in pages of two."""

    def __init__(self, *jobs: tuple[int, str, str]) -> None:
        self.jobs = [{"id": number, "name": name, "state": state} for number, name, state in jobs]
        self.limits: list[int] = []
        self.is_old = False

    def close(self) -> None:
        pass

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        if path == "/api/v1/arrays":
            return {"arrays": [ARRAY] if "40" in query["ids"].split(",") else []}
        assert (path, query["owner"]) == ("/api/v1/jobs", "me")
        ended = {None: (False, True), "waiting,active": (False,), "ended": (True,)}[query.get("state")]
        jobs = [job for job in self.jobs if (job["state"] in ENDED) in ended]
        self.limits.append(query["limit"])
        if "name" in query and not self.is_old:
            named = [job for job in jobs if fnmatchcase(job["name"], query["name"])]
            task = {"id": 41, "name": "best", "state": "PENDING"}
            of_array = [task] * (query["name"] == "best" and False in ended)
            if "array" in query:
                return {"jobs": of_array, "next": None}
            arrays = [ARRAY] * (bool(of_array) or (query["name"] == ARRAY["name"] and True in ended))
            return {"jobs": named, "arrays": arrays, "next": None}
        begin = query.get("after") or 0
        end = begin + min(2, query["limit"])
        return {"jobs": jobs[begin:end], "next": end if end < len(jobs) else None}


def client(*jobs: tuple[int, str, str]) -> HttpClient:
    return cast(HttpClient, Listing(*jobs))


ARRAY = {"id": 40, "name": "sweep", "tasks": "0-8:2", "count": 5}
SOME = client((9, "b", "PENDING"), (7, "a", "COMPLETED"), (6, "a", "RUNNING"), (4, "a", "FAILED"), (2, "c", "FAILED"))


def ranges(*words: str, only_one: bool = False) -> list[tuple[int, int]]:
    return job_ids.named(SOME, words, only_one=only_one).ranges


def test_ids_are_numbers_ranges_and_lists() -> None:
    assert job_ids.several(SOME, ["42", "44-46", "1,2", "45"]) == [42, 44, 45, 46, 1, 2]
    assert job_ids.several(SOME, ["42,", "44"]) == job_ids.several(SOME, ["42, 44"]) == [42, 44]
    assert ranges("3-900000,7") == [(3, 900_000), (7, 7)]
    assert job_ids.named(cast(HttpClient, None), ["3-9"]).ranges == [(3, 9)], "only a single number may be an array"


def test_the_id_of_an_array_is_all_of_its_tasks_and_a_task_has_its_own_number() -> None:
    whole = job_ids.named(SOME, ["40,50"])
    assert (whole.ranges, whole.whole, whole.single_ids) == ([(40, 44), (50, 50)], {40}, [50])
    assert [whole.label(job) for job in (40, 44, 45)] == ["40_0", "40_8", "45"]
    assert job_ids.several(SOME, ["40_2", "40_3-6", "40_[0,7-9]"]) == [41, 42, 43, 40, 44]
    assert job_ids.one(SOME, "40_4") == 42
    assert job_ids.named(SOME, ["40"]).array == ARRAY
    assert job_ids.named(SOME, ["40", "41"]).array is None
    with pytest.raises(BadInput, match="40 is an array of 5 tasks, and this takes one job") as error:
        job_ids.one(SOME, "40")
    assert error.value.fix == "Name a task: 40_0."


@pytest.mark.parametrize(
    ("word", "sentence"),
    [("40_1", "Array 40 has no task 1."), ("7_1", "Job 7 is no array.")],
)
def test_a_task_that_is_not_there_is_named(word: str, sentence: str) -> None:
    with pytest.raises(NotFound) as error:
        job_ids.several(SOME, [word])
    assert error.value.message == sentence


def test_at_is_the_job_submitted_last_and_a_number_behind_it_counts_back() -> None:
    assert job_ids.several(SOME, ["@", "@~1", "@~4"]) == [9, 7, 2]
    assert job_ids.several(SOME, ["@-1", "@-2", "@-5"]) == [9, 7, 2], "from the end, as Python counts"


def test_a_name_is_its_newest_job_and_one_that_has_not_ended_goes_first() -> None:
    assert [job_ids.one(SOME, name) for name in ("a", "b", "c")] == [6, 9, 2]
    assert ranges("a,b", only_one=True) == [(6, 6), (9, 9)]


def test_a_name_of_an_array_means_all_of_it_and_one_of_a_task_that_task() -> None:
    whole = job_ids.named(SOME, ["sweep"])
    assert (whole.ranges, whole.whole) == ([(40, 44)], {40})
    task = job_ids.named(SOME, ["best"])
    assert (task.ranges, task.whole) == ([(41, 41)], set())


def test_a_name_may_have_commas() -> None:
    sweep = client((5, "b", "PENDING"), (3, "lr=1,bs=2", "RUNNING"), (2, "a", "FAILED"))
    assert job_ids.several(sweep, ["lr=1,bs=2"]) == job_ids.several(sweep, ["lr=1,bs=2 "]) == [3]
    assert job_ids.several(sweep, ["a,b", "7,9"]) == [2, 5, 7, 9]
    with pytest.raises(NotFound, match="`lr=1` is not a job id"):
        job_ids.one(sweep, "lr=1,bs=3")


def test_a_name_is_no_pattern() -> None:
    starred = client((4, "b", "PENDING"), (3, "a*[1]", "PENDING"), (2, "ab1", "PENDING"))
    assert job_ids.one(starred, "a*[1]") == 3
    with pytest.raises(NotFound) as error:
        job_ids.one(starred, "a*")
    assert (
        error.value.fix == "`gpuq queue --name 'a*'` lists those that match; cancel, hold and release take --name, too."
    )
    with pytest.raises(NotFound, match="`all` is not a job id") as error:
        job_ids.one(starred, "all")
    assert "--all" in (error.value.fix or "")
    with pytest.raises(NotFound):
        job_ids.one(starred, "[" * 200)


def test_a_gpuq_of_the_previous_release_names_no_other_job() -> None:
    old = Listing((4, "b", "PENDING"), (3, "a", "PENDING"))
    old.is_old = True
    assert job_ids.one(cast(HttpClient, old), "a") == 3
    with pytest.raises(NotFound):
        job_ids.one(cast(HttpClient, old), "c")


def test_a_name_that_several_unfinished_jobs_have_is_refused_where_jobs_are_changed() -> None:
    twins = client((3, "a", "PENDING"), (2, "a", "RUNNING"))
    with pytest.raises(BadInput, match=r"2 of your jobs that have not ended are called `a`: 3, 2\."):
        job_ids.named(twins, ["a"], only_one=True)
    assert job_ids.one(twins, "a") == 3


@pytest.mark.parametrize("word", ["d", "@~5", "4.2", "\u0664"])
def test_what_no_job_is_called_is_not_found(word: str) -> None:
    with pytest.raises(NotFound):
        job_ids.one(SOME, word)


@pytest.mark.parametrize("word", ["", "4-", "-4", "5-4", "1-1000000", "@1", "@~", "@~x", "9" * 30])
def test_what_is_no_name_of_a_job_is_refused(word: str) -> None:
    with pytest.raises(BadInput):
        job_ids.several(SOME, [word])


def test_no_more_is_asked_for_than_is_needed() -> None:
    listing = Listing((9, "b", "PENDING"), (7, "a", "COMPLETED"))
    assert [job_ids.one(cast(HttpClient, listing), word) for word in ("@", "@~1")] == [9, 7]
    assert listing.limits == [1, 2]
    many = Listing(*((number, f"n{number}", "COMPLETED") for number in range(30, 0, -1)))
    assert job_ids.one(cast(HttpClient, many), "n10") == 10
    assert len(many.limits) == 2, "those that have not ended, and those that have"


def test_without_a_submission_the_error_says_how_to_make_one() -> None:
    with pytest.raises(NotFound, match="You have not submitted a job yet") as error:
        job_ids.one(client(), "@")
    assert "gpuq submit" in (error.value.fix or "")
    with pytest.raises(NotFound, match="You have submitted fewer than 3 jobs"):
        job_ids.one(client((1, "a", "RUNNING")), "@~2")


def test_the_api_gets_few_ranges() -> None:
    assert job_ids.named(SOME, ["7-9", "1,2", "8-12", "14"]).merged == [[1, 2], [7, 12], 14]


def test_a_verb_for_one_job_takes_no_range() -> None:
    with pytest.raises(BadInput, match="2 jobs are named"):
        job_ids.one(SOME, "4-5")
