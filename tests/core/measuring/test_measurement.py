"""When a rate that was measured beside foreign load still counts as the job's own."""

from __future__ import annotations

import pytest

from gpuq.core.measuring.measurement import Segment


@pytest.mark.parametrize(
    ("foreign", "held_back_s", "own"), [(False, 0.0, True), (True, 0.0, True), (True, 4.4, True), (True, 4.6, False)]
)
def test_a_rate_is_the_jobs_own_unless_others_took_more_than_a_little_of_its_time(
    foreign: bool, held_back_s: float, own: bool
):
    segment = Segment((), 50.0, 500, 10, 100.0, 1000.0, foreign=foreign, held_back_s=held_back_s)
    assert segment.is_own_rate is own
