"""When a job's memory counts as level: after its start, and never while it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from gpuq_workers.measuring.level import GROWTH, LEAST_STEPS, MemoryLevel
from hypothesis import given
from hypothesis import strategies as st

LEAST_S = 600.0


def level_at(memory: Callable[[int], float], seconds: int, steps_per_s: float = 5.0) -> Iterator[tuple[int, float]]:
    """(second, peak so far) of each look, one in ten seconds, at which the memory counts as level."""
    level, peak = MemoryLevel(), 0.0
    for at in range(0, seconds, 10):
        peak, steps = max(peak, memory(at)), int(at * steps_per_s)
        level.look(int(peak), at, steps)
        if level.level_s(at, steps, LEAST_S) is not None:
            yield at, peak


def test_memory_is_level_ten_minutes_after_the_last_rise_and_after_as_long_as_the_rises_took() -> None:
    assert next(level_at(lambda at: 4e9, 2000))[0] == 600
    assert next(level_at(lambda at: 2e9 + min(at, 100) * 2e7, 2000))[0] == pytest.approx(700, abs=20)
    assert next(level_at(lambda at: 2e9 + min(at, 900) * 2e6, 4000))[0] == pytest.approx(1800, abs=30)


def test_a_slow_step_makes_the_wait_longer() -> None:
    assert next(level_at(lambda at: 4e9, 20_000, steps_per_s=0.05))[0] == LEAST_STEPS / 0.05


def test_a_first_validation_that_needs_more_ends_the_level_at_once_until_it_is_proven_again() -> None:
    found = [at for at, _ in level_at(lambda at: 4e9 if at < 3600 else 5e9, 9000)]
    assert found[0] == 600
    assert next(at for at in found if at >= 3600) == 7200


def test_a_batch_that_grows_is_level_in_between_and_never_by_what_it_has_not_shown() -> None:
    batches = level_at(lambda at: 1e9 * 2 ** (at // 3600), 15_000)
    assert all(peak == 1e9 * 2 ** (at // 3600) for at, peak in batches)


@given(st.floats(0.02, 10.0), st.integers(0, 600))
def test_a_leak_is_no_level_once_it_shows(growth_per_hour: float, begins: int) -> None:
    """Whatever its rate, memory that grows steadily is two GROWTHs higher at most when it last counts as level."""
    found = [peak for _, peak in level_at(lambda at: 4e9 * (1 + growth_per_hour * max(at - begins, 0) / 3600), 30_000)]
    assert max(found, default=0.0) <= 4e9 * ((1 + GROWTH) ** 2 + growth_per_hour * 30 / 3600)


def test_a_job_without_steps_or_memory_is_never_level() -> None:
    assert not list(level_at(lambda at: 4e9, 20_000, steps_per_s=0.0))
    assert not list(level_at(lambda at: 0.0, 20_000))
