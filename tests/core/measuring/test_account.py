"""The slowdown account: what a run may still lose to partners and pauses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.core.measuring.account import slowdown_account, slowed_s
from gpuq.core.measuring.slowdown import Rate, Rates

HOUR = 3600.0


def rate(mean: float) -> Rate:
    return Rate(mean, 4, 0.0)


def test_ten_hours_of_work_at_a_budget_of_15_percent_may_lose_an_hour_and_a_half():
    assert slowdown_account(1.15, 10 * HOUR, 0.0, 0.0).left_s == pytest.approx(1.5 * HOUR)
    after = slowdown_account(1.15, 11.5 * HOUR, HOUR, 0.5 * HOUR)
    assert after.earned_s == pytest.approx(1.5 * HOUR)
    assert after.left_s == pytest.approx(0, abs=1e-6)


def test_partners_and_pauses_draw_on_one_account():
    lost_at_once = slowdown_account(1.2, HOUR, 300.0, 0.0).left_s
    assert slowdown_account(1.2, HOUR, 100.0, 200.0).left_s == pytest.approx(lost_at_once)


@pytest.mark.parametrize(("slowed", "paused"), [(-10.0, 0.0), (0.0, -10.0)])
def test_a_loss_below_zero_earns_nothing(slowed: float, paused: float):
    found = slowdown_account(1.2, HOUR, slowed, paused)
    assert (found.earned_s, found.left_s) == (pytest.approx(0.2 * HOUR), pytest.approx(0.2 * HOUR))


@pytest.mark.parametrize(("slowed", "paused"), [(None, 0.0), (0.0, None)])
def test_a_loss_that_is_not_known_leaves_the_account_unknown(slowed: float | None, paused: float | None):
    found = slowdown_account(1.15, HOUR, slowed, paused)
    assert (found.earned_s, found.left_s) == (None, None)


@given(st.floats(1, 5), st.floats(1, 1e7), st.floats(0, 1), st.floats(0, 1))
def test_a_run_with_something_left_is_within_its_budget(budget: float, ran_s: float, slowed: float, paused: float):
    slowed_part, paused_part = slowed * ran_s / 2, paused * ran_s / 2
    left = slowdown_account(budget, ran_s, slowed_part, paused_part).left_s
    assert left is not None
    work = ran_s - slowed_part - paused_part
    if left > 1e-6 * ran_s:
        assert ran_s <= budget * work
    if left < -1e-6 * ran_s:
        assert ran_s > budget * work


def test_the_time_lost_to_a_partner_follows_from_both_rates():
    assert slowed_s(100.0, Rates(rate(10.0), rate(8.0))) == pytest.approx(20)
    assert slowed_s(100.0, Rates(rate(10.0), rate(11.0))) == 0, "noise earns nothing"
    assert slowed_s(0.0, Rates(None, None)) == 0, "it had no partner"
    assert slowed_s(100.0, Rates(None, rate(8.0))) is None
    assert slowed_s(100.0, Rates(rate(10.0), None)) is None
