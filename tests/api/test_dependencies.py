"""What a request's submissions wait for; `test_submit.py` has what callers see of it."""

from __future__ import annotations

import pytest

from gpuq.adapters.store.row_types import Selection
from gpuq.api import dependencies
from gpuq.core.state.job import JobId, JobState
from gpuq.errors import Conflict, NotFound, NotPermitted
from gpuq.messages.submission import Submission
from tests.support.memory_store import MemoryStore


class Jobs(MemoryStore):
    """A store with these jobs of `ann`, and others of `bob`. `selected` has what was asked for."""

    def __init__(self, mine: dict[int, JobState], others: dict[int, JobState] | None = None) -> None:
        super().__init__()
        self.mine, self.others, self.selected = mine, others or {}, list[Selection]()

    def select(self, selection: Selection) -> dict[JobId, JobState]:
        self.selected.append(selection)
        assert selection.ids is not None
        found = self.mine if selection.owner == "ann" else {**self.mine, **self.others}
        return {
            JobId(job): state
            for job, state in found.items()
            if any(first <= job <= last for first, last in selection.ids)
        }


def waiting(*after: str) -> Submission:
    return Submission(command=("true",), cwd="/", after=after)


PENDING = JobState.PENDING


@pytest.mark.parametrize(
    ("after", "error", "sentence"),
    [
        ("any:1-4", None, ""),
        ("any:1-5", NotFound, "There is no job 5"),
        ("any:6-9", NotFound, "There is no job 9"),
        ("any:3-6", NotFound, "There is no job 5"),
        ("any:7", NotPermitted, "Job 7, which `any:7` waits for, belongs to another user"),
        ("any:6-8", NotPermitted, "Job 7"),
        ("any:6", None, ""),
    ],
)
def test_each_job_of_a_range_has_to_be_there_and_the_callers(
    after: str, error: type[Exception] | None, sentence: str
) -> None:
    store = Jobs(dict.fromkeys((1, 2, 3, 4, 6, 8), PENDING), {7: PENDING})
    if error is None:
        assert dependencies.resolved(store, [waiting(after)], "ann") == [waiting(after)]
        return
    with pytest.raises(error, match=sentence):
        dependencies.resolved(store, [waiting(after)], "ann")


def test_ranges_that_overlap_are_asked_for_once() -> None:
    store = Jobs(dict.fromkeys(range(1, 101), PENDING))
    wanted = [
        waiting(*(f"any:{first}-{100 - first}" for first in range(start, start + 5))) for start in range(1, 41, 5)
    ]
    assert dependencies.resolved(store, wanted, None) == wanted
    assert [one.ids for one in store.selected] == [((1, 99),)]


def test_the_dependencies_of_a_request_are_on_so_many_jobs_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal ones count once: each of a thousand jobs may wait for the same array."""
    monkeypatch.setattr(dependencies, "MOST_IN_REQUEST", 20)
    store = Jobs(dict.fromkeys(range(1, 11), PENDING))
    same = [waiting("ok:1-10", "any:1-10")] * 100
    assert dependencies.resolved(store, same, None) == same
    with pytest.raises(Conflict, match="of this request are on more than 20 jobs"):
        dependencies.resolved(store, [waiting("ok:1-10"), waiting("any:1-10", "ok:2")], None)
