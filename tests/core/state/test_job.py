"""Jobs: the states, and how many devices a job may be given."""

from __future__ import annotations

import pytest

from gpuq.core.state.job import ACTIVE, ENDED, WAITING, JobState
from tests.support.nouns import a_job


def test_each_state_is_either_waiting_or_active_or_ended() -> None:
    assert sorted([*WAITING, *ACTIVE, *ENDED]) == sorted(JobState)


@pytest.mark.parametrize(
    ("count", "most", "expected"), [(1, None, [1]), (2, None, [2]), (1, 3, [1, 2, 3]), (2, 2, [2]), (3, 1, [3])]
)
def test_a_job_may_have_from_its_count_to_its_most(count: int, most: int | None, expected: list[int]) -> None:
    assert list(a_job(device_count=count, most_devices=most).counts) == expected
