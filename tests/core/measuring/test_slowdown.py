"""Slowdowns and their intervals, against values worked out by hand or drawn from known distributions."""

from __future__ import annotations

import math
import random

import pytest

from gpuq.core.measuring.measurement import Measurement, Segment
from gpuq.core.measuring.slowdown import Basis, Rate, packing_saving, rates, slowdown, slowdowns, student_quantile
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.messages.codec import decoded

PARTNER = AttemptId(JobId(2), 1)
OTHER = AttemptId(JobId(3), 1)


def segment(values: list[float], *partners: AttemptId) -> Segment:
    steps = round(sum(values) * 5)
    return Segment(partners, 5.0 * len(values), steps, len(values), sum(values), sum(v * v for v in values))


def measured(alone: list[float], shared: list[float]) -> Measurement:
    return Measurement(segments=(segment(alone), segment(shared, PARTNER)))


def test_the_rates_are_the_means_of_the_windows():
    both = rates(measured([10.0, 12.0], [5.0, 7.0]))
    assert both.alone_rate == pytest.approx(11)
    assert both.shared_rate == pytest.approx(6)
    assert both.alone is not None
    assert both.alone.variance == pytest.approx(2)


def test_half_the_speed_is_a_slowdown_of_two():
    found = slowdown(measured([10.0, 10.0], [5.0, 5.0]))
    assert found is not None
    assert (found.value, found.low, found.high, found.basis) == (2, 2, 2, Basis.WITHIN_ATTEMPT)


def test_the_interval_follows_the_written_formula():
    found = slowdown(measured([9.0, 10.0, 11.0], [4.0, 5.0, 6.0]))
    assert found is not None
    spread = 1 / (3 * 100) + 1 / (3 * 25)
    freedom = spread**2 / ((1 / 300) ** 2 / 2 + (1 / 75) ** 2 / 2)
    assert 2 < freedom < 3
    assert found.high == pytest.approx(2 * math.exp(4.303 * math.sqrt(spread)))
    assert found.low == pytest.approx(2 / math.exp(4.303 * math.sqrt(spread)))


@pytest.mark.parametrize("windows", [4, 20])
def test_the_interval_holds_the_truth_about_95_times_in_100(windows: int):
    chance = random.Random(7)
    hits = 0
    for _ in range(1000):
        alone = [chance.gauss(10, 1) for _ in range(windows)]
        shared = [chance.gauss(8, 1) for _ in range(windows)]
        found = slowdown(measured(alone, shared))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1.25 <= found.high
    assert 925 <= hits <= 990


def test_a_single_window_gives_a_value_without_an_interval():
    found = slowdown(measured([10.0], [5.0, 6.0]))
    assert found is not None
    assert found.value == pytest.approx(10 / 5.5)
    assert found.low is None
    assert found.high is None


def test_windows_alone_that_disagree_come_after_the_kind():
    """As of a training that loads data for most of one of two windows."""
    two = measured([10.0, 1.0], [8.0, 8.0])
    kind = Rate.of([10.0, 10.1])
    assert [found.basis for found in slowdowns(two, kind)] == [Basis.KIND, Basis.WITHIN_ATTEMPT]
    agreeing = slowdowns(measured([10.0, 9.8], [8.0, 8.0]), kind)
    assert [found.basis for found in agreeing] == [Basis.WITHIN_ATTEMPT, Basis.KIND]


@pytest.mark.parametrize("measurement", [measured([], [5.0]), measured([10.0], []), Measurement()])
def test_nothing_to_compare_with_is_unknown(measurement: Measurement):
    assert slowdown(measurement) is None


def test_the_kinds_rate_stands_in_when_the_attempt_was_never_alone():
    found = slowdown(measured([], [5.0, 5.5]), Rate.of([10.0, 11.0]))
    assert found is not None
    assert found.value == pytest.approx(2)
    assert found.basis is Basis.KIND


def test_one_window_alone_yields_to_the_kinds_rate_but_two_do_not():
    kind = Rate.of([20.0, 20.0])
    one, two = slowdown(measured([10.0], [5.0]), kind), slowdown(measured([10.0, 10.0], [5.0]), kind)
    assert one is not None
    assert two is not None
    assert (one.value, one.basis) == (4, Basis.KIND)
    assert (two.value, two.basis) == (2, Basis.WITHIN_ATTEMPT)


def test_the_shared_side_can_be_limited_to_one_set_of_partners():
    measurement = Measurement(
        segments=(segment([10.0, 10.0]), segment([5.0, 5.0], PARTNER), segment([8.0, 8.0], OTHER))
    )
    beside_one = slowdown(measurement, beside=[PARTNER])
    beside_any = slowdown(measurement)
    assert beside_one is not None
    assert beside_any is not None
    assert beside_one.value == 2
    assert beside_any.value == pytest.approx(10 / 6.5)
    assert slowdown(measurement, beside=[PARTNER, OTHER]) is None


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (60, 2.0003)])
def test_students_quantile_matches_the_tables(freedom: float, quantile: float):
    assert student_quantile(freedom) == pytest.approx(quantile, abs=2e-3)


def test_the_packing_saving_of_two_equal_jobs():
    assert packing_saving(100, [100, 100]) == pytest.approx(0.5)
    assert packing_saving(220, [100, 100]) == pytest.approx(-0.1)
    assert packing_saving(10, []) is None


# --- blinks ----------------------------------------------------------------------------------------------------------


def blinks(windows: list[tuple[int, float]], *partners: AttemptId) -> Segment:
    """Of (steps, seconds) per pause."""
    values = [steps / seconds for steps, seconds in windows]
    steps, seconds = sum(steps for steps, _ in windows), sum(seconds for _, seconds in windows)
    return Segment(partners, seconds, steps, len(windows), sum(values), sum(v * v for v in values), blink=True)


def test_the_slowdown_by_blinks_comes_first_and_other_estimates_follow():
    paused = blinks([(8, 0.8), (8, 0.8)], PARTNER)
    measurement = Measurement(segments=(segment([12.0, 12.0]), segment([5.0, 5.0], PARTNER), paused))
    found = list(slowdowns(measurement, Rate.of([15.0, 15.0])))
    assert [(one.basis, round(one.value, 9)) for one in found] == [
        (Basis.BLINK, 2.0),
        (Basis.WITHIN_ATTEMPT, 2.4),
        (Basis.KIND, 3.0),
    ]
    assert slowdown(measurement) == found[0]


def test_a_single_blink_yields_to_what_is_known_better():
    measurement = Measurement(segments=(segment([5.0, 5.0], PARTNER), blinks([(8, 0.8)], PARTNER)))
    assert [one.basis for one in slowdowns(measurement, Rate.of([10.0, 10.0]))] == [Basis.KIND, Basis.BLINK]
    only = slowdown(measurement)
    assert only is not None
    assert (only.basis, only.low) == (Basis.BLINK, None)


def test_the_rate_of_blinks_is_all_steps_over_all_seconds():
    """One window that held no step, and one that held two in a row: 2 steps in 2 s, whatever the mean of the rates is."""
    seen = rates(Measurement(segments=(blinks([(0, 1.5), (2, 0.5)], PARTNER),)))
    assert seen.shared is None
    assert seen.blinked is not None
    assert (seen.blinked.mean, seen.blinked.count) == (1.0, 2)
    assert seen.alone_rate == 1.0, "of a job that never ran alone"


def test_blinks_say_nothing_of_other_partners():
    measurement = Measurement(segments=(segment([5.0, 5.0], OTHER), blinks([(8, 0.8), (8, 0.8)], PARTNER)))
    assert slowdown(measurement, beside=[OTHER]) is None
    assert rates(measurement, beside=[OTHER]).blinked is None


@pytest.mark.parametrize("spread", [0.02, 0.2])
def test_the_interval_of_blinks_holds_the_truth_about_95_times_in_100(spread: float):
    chance = random.Random(3)
    hits = 0
    for _ in range(600):
        windows = [(round(chance.gauss(80, 80 * spread)), 0.8) for _ in range(8)]
        shared = segment([chance.gauss(80, 5) for _ in range(30)], PARTNER)
        found = slowdown(Measurement(segments=(blinks(windows, PARTNER), shared)))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1.25 <= found.high
    assert 550 <= hits <= 595


def test_measurements_from_before_there_were_blinks_are_read():
    old = {
        "segments": [
            {"partners": [[2, 1]], "seconds": 5.0, "steps": 5, "windows": 1, "rate_sum": 1, "rate_square_sum": 1}
        ]
    }
    (read,) = decoded(old, Measurement).segments
    assert not read.blink
