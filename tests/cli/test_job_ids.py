"""Jobs named by id, by how recently they were submitted, and by name."""

from __future__ import annotations

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

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        assert (path, query["owner"]) == ("/api/v1/jobs", "me")
        ended = {None: (False, True), "waiting,active": (False,), "ended": (True,)}[query["state"]]
        jobs = [job for job in self.jobs if (job["state"] in ENDED) in ended]
        begin = query["after"] or 0
        end = begin + min(2, query["limit"])
        return {"jobs": jobs[begin:end], "next": end if end < len(jobs) else None}


def client(*jobs: tuple[int, str, str]) -> HttpClient:
    return cast(HttpClient, Listing(*jobs))


SOME = client((9, "b", "PENDING"), (7, "a", "COMPLETED"), (6, "a", "RUNNING"), (4, "a", "FAILED"), (2, "c", "FAILED"))


def test_ids_are_numbers_ranges_and_lists_and_need_no_request() -> None:
    no_requests = cast(HttpClient, None)
    assert job_ids.several(no_requests, ["42", "44-46", "1,2", "45"]) == [42, 44, 45, 46, 1, 2]
    assert job_ids.ranges(no_requests, ["3-900000,7"]) == [(3, 900_000), (7, 7)]


def test_at_is_the_job_submitted_last_and_a_number_behind_it_counts_back() -> None:
    assert job_ids.several(SOME, ["@", "@~1", "@~4"]) == [9, 7, 2]
    assert job_ids.several(SOME, ["@-1", "@-2", "@-5"]) == [9, 7, 2], "from the end, as Python counts"


def test_a_name_is_its_newest_job_and_one_that_has_not_ended_goes_first() -> None:
    assert [job_ids.one(SOME, name) for name in ("a", "b", "c")] == [6, 9, 2]
    assert job_ids.ranges(SOME, ["a,b"], only_one=True) == [(6, 6), (9, 9)]


def test_a_name_that_several_unfinished_jobs_have_is_refused_where_jobs_are_changed() -> None:
    twins = client((3, "a", "PENDING"), (2, "a", "RUNNING"))
    with pytest.raises(BadInput, match=r"2 of your jobs that have not ended are called `a`: 3, 2\."):
        job_ids.ranges(twins, ["a"], only_one=True)
    assert job_ids.one(twins, "a") == 3


@pytest.mark.parametrize("word", ["d", "@~5", "4.2", "\u0664"])
def test_what_no_job_is_called_is_not_found(word: str) -> None:
    with pytest.raises(NotFound):
        job_ids.one(SOME, word)


@pytest.mark.parametrize("word", ["", "4-", "-4", "5-4", "1-1000000", "@1", "@~", "@~x", "9" * 30])
def test_what_is_no_name_of_a_job_is_refused(word: str) -> None:
    with pytest.raises(BadInput):
        job_ids.several(SOME, [word])


def test_a_verb_for_one_job_takes_no_range() -> None:
    with pytest.raises(BadInput, match="names 2 jobs"):
        job_ids.one(SOME, "4-5")
