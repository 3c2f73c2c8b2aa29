"""Selection and order of the rows that may teach: invalid, copied and misdated ones."""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.learn.history.quarantine import (
    COPY,
    EMPTY,
    FAR_BELOW,
    IMPOSSIBLE,
    TOO_LARGE,
    UNREADABLE,
    TrainingSet,
    select_training_set,
)
from tests.learn.world import GIB, Work, rows

NOW = 1_000_000.0
WORK = Work("resnet50", 32, 60.0, 8 * GIB)
Row = tuple[JobRow, AttemptRow]


def row(number: int, *, at: float | None = None, work: Work = WORK, **actual: Any) -> Row:
    """Attempt `number`, submitted 60 s after the one before, ended 30 s later."""
    return rows(work, number, random.Random(number), at=60.0 * number if at is None else at, **actual)


def sort(found: list[Row], memory: dict[str, int] | None = None, now: float = NOW) -> TrainingSet:
    return select_training_set(found, {}, memory or {}, now)


def numbers(result: TrainingSet) -> list[int]:
    return [outcome.attempt[0] for outcome in result.outcomes if outcome.attempt]


@pytest.mark.parametrize(
    ("actual", "reason"),
    [
        ({"peak_memory_bytes": 1}, IMPOSSIBLE),
        ({"peak_memory_bytes": 2**50}, IMPOSSIBLE),
        ({"peak_memory_bytes": math.nan}, IMPOSSIBLE),
        ({"peak_memory_bytes": 100 * GIB}, TOO_LARGE),
        ({"peak_memory_bytes": 10**300}, IMPOSSIBLE),
        ({"peak_utilization_pct": -5.0}, IMPOSSIBLE),
        ({"peak_utilization_pct": "nan"}, IMPOSSIBLE),
        ({"slowdown": 0.01, "partner_kinds": ["x"]}, IMPOSSIBLE),
        ({"slowdown": 1e6, "partner_kinds": ["x"]}, IMPOSSIBLE),
        ({"slowdown": math.nan, "partner_kinds": ["x"]}, IMPOSSIBLE),
        ({"peak_memory_bytes": None, "peak_utilization_pct": None}, EMPTY),
        ({"device_type": None}, UNREADABLE),
        ({"peak_memory_bytes": 2 * 2**20}, FAR_BELOW),
    ],
)
def test_invalid_rows_are_left_out_and_counted_by_reason(actual: dict[str, Any], reason: str):
    result = sort([*(row(n) for n in range(1, 9)), row(9, **actual)], {"GPU": 80 * GIB})
    assert dict(result.left_out) == {reason: 1}
    assert numbers(result) == list(range(1, 9))


def test_low_readings_are_kept_when_they_are_frequent():
    found = [row(n, **({"peak_memory_bytes": 2**26} if n % 3 == 0 else {})) for n in range(1, 10)]
    assert not sort(found).left_out


def test_high_readings_are_never_left_out():
    found = [*(row(n) for n in range(1, 9)), row(9, peak_memory_bytes=79 * GIB)]
    assert not sort(found, {"GPU": 80 * GIB}).left_out


def test_duplicate_attempt_counts_once():
    found = [row(n) for n in range(1, 6)]
    result = sort([*found, *found])
    assert (numbers(result), dict(result.left_out)) == ([1, 2, 3, 4, 5], {COPY: 5})


def renumbered(one: Row, number: int, shift: float = 0.0) -> Row:
    job, attempt = one
    started, ended = (attempt.started_at or 0.0) + shift, (attempt.ended_at or 0.0) + shift
    changed = msgspec.structs.replace(attempt, job=number, started_at=started, ended_at=ended)
    return msgspec.structs.replace(job, id=number), changed


def test_copies_under_new_numbers_count_once():
    found = [row(n) for n in range(1, 6)]
    assert dict(sort([*found, *(renumbered(one, 100 + n) for n, one in enumerate(found))]).left_out) == {COPY: 5}


def test_copies_with_other_times_are_recognised_by_measured_windows():
    windows = {"segments": [{"windows": 9, "rate_sum": 91.7, "rate_square_sum": 934.219, "partners": []}]}
    job, attempt = row(1)
    one = job, msgspec.structs.replace(attempt, measurement=windows)
    assert dict(sort([one, renumbered(one, 2, shift=5000.0)]).left_out) == {COPY: 1}


def test_two_jobs_with_equal_measurements_are_both_kept():
    same = {"peak_memory_bytes": GIB, "peak_utilization_pct": 50.0}
    assert not sort([row(n, **same) for n in range(1, 6)]).left_out


def test_attempts_with_a_wrong_clock_are_ordered_by_number():
    """Jobs 5 to 7 were submitted and run while the clock stood an hour ahead, job 12 while it stood at 1970."""
    found = [
        row(n, at=60.0 * n + (3600.0 if 5 <= n <= 7 else 0.0) + (-60.0 * n if n == 12 else 0.0)) for n in range(1, 40)
    ]
    result = sort(found, now=60.0 * 41)
    assert numbers(result) == list(range(1, 40))
    assert result.misdated == 4
    ends = [outcome.ended_at for outcome in result.outcomes]
    assert ends == sorted(ends)


def test_impossible_end_time_is_replaced_and_drops_the_duration():
    found = [row(n) for n in range(1, 11)]
    for n, change in ((3, {"ended_at": 1.0}), (6, {"ended_at": 9e12})):
        job, attempt = found[n]
        found[n] = job, msgspec.structs.replace(attempt, **change)
    result = sort(found, now=60.0 * 12)
    assert numbers(result) == list(range(1, 11))
    assert result.misdated == 2
    assert [n for n, one in zip(numbers(result), result.outcomes, strict=True) if one.duration_s is None] == [4, 7]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from(["fine", "future", "backwards", "1970", "copy", "nan", "byte"]), max_size=25))
def test_every_row_is_either_kept_or_counted(faults: list[str]):
    found: list[Row] = []
    for n, fault in enumerate(faults, start=1):
        job, attempt = row(
            n, **{"nan": {"peak_memory_bytes": math.nan}, "byte": {"peak_memory_bytes": 1}}.get(fault, {})
        )
        times = {
            "future": {"ended_at": 9e15},
            "backwards": {"ended_at": 0.0},
            "1970": {"started_at": 1.0, "ended_at": 2.0},
        }
        found.append((job, msgspec.structs.replace(attempt, **times.get(fault, {}))))
        if fault == "copy":
            found.append((job, attempt))
    result = sort(found)
    assert len(result.outcomes) + sum(result.left_out.values()) == len(found)
    assert all(math.isfinite(one.ended_at) and one.ended_at <= NOW for one in result.outcomes)
    assert len(set(numbers(result))) == len(result.outcomes)
