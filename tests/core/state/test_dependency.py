"""What is left of a dependency as the jobs that it is on end."""

from __future__ import annotations

import pytest

from gpuq.core.state.dependency import Dependency, left_of, left_of_each
from gpuq.states import JobState

COMPLETED, FAILED, CANCELLED = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED


@pytest.mark.parametrize("text", ["ok:12", "any:3-9", "fail:1", "start:4"])
def test_a_dependency_is_written_as_it_is_read(text: str) -> None:
    assert str(Dependency.parse(text)) == text


@pytest.mark.parametrize("text", ["ok", "ok:", "ok:0", "after:3", "ok:3-2", "ok:3\n", "3", "ok:3-4-5"])
def test_what_is_no_dependency_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"dependency|backwards"):
        Dependency.parse(text)


@pytest.mark.parametrize(
    ("text", "ended", "left"),
    [
        ("ok:1", {1: COMPLETED}, ""),
        ("ok:1", {1: CANCELLED}, "ok:1"),
        ("any:1", {1: CANCELLED}, ""),
        ("any:1", {}, "any:1"),
        ("fail:1", {1: FAILED}, ""),
        ("fail:1", {1: COMPLETED}, "fail:1"),
        ("ok:1-3", {1: COMPLETED, 3: COMPLETED}, "ok:1-3"),
        ("ok:1-3", {1: COMPLETED, 2: COMPLETED, 3: COMPLETED}, ""),
        ("ok:1-3", {2: FAILED}, "ok:2"),
        ("any:1-2", {1: FAILED, 2: COMPLETED}, ""),
        ("fail:1-3", {2: FAILED}, "any:1-3"),
        ("fail:1-2", {1: COMPLETED, 2: FAILED}, ""),
        ("fail:1-2", {1: COMPLETED, 2: COMPLETED}, "fail:1-2"),
        ("start:1-2", {1: CANCELLED}, "start:1-2"),
        ("start:1-2", {1: CANCELLED, 2: FAILED}, ""),
    ],
)
def test_ok_wants_all_jobs_to_succeed_and_fail_at_least_one_not_to(
    text: str, ended: dict[int, JobState], left: str
) -> None:
    assert " ".join(map(str, left_of([Dependency.parse(text)], ended))) == left


def test_what_many_tasks_wait_for_is_looked_through_once() -> None:
    looked: list[object] = []

    class Ended(dict[int, JobState]):
        def __contains__(self, job: object) -> bool:
            looked.append(job)
            return super().__contains__(job)

    after = (Dependency.parse("ok:1-100"),)
    found = left_of_each([after] * 100, Ended(dict.fromkeys(range(1, 100), COMPLETED)))
    assert found == {after: after}
    assert len(looked) == 100
