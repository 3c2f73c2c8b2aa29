"""Forecasts watched as attempts end: alarms that mean something, and bounds widened at once."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.state.forecast import Forecast, PairCost
from gpuq.core.state.job import KindId
from gpuq.learn.history.drift import MOST_SHOWN, Drift
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.serving.predictor import Predictor
from gpuq.settings import Learning
from tests.learn.world import DEVICE, GIB, Work, run

KIND = run(Work("a", 8, 50.0, GIB), 1, random.Random(1)).kind


def ended(number: int, ratio: float, *, model: str = "a", version: str | None = "v1", **changes: Any) -> Outcome:
    """An attempt that needed `ratio` times what it was promised."""
    outcome = run(Work(model, 8, 50.0, GIB), number, random.Random(number), peak_memory_bytes=round(GIB * ratio))
    foretold = Forecast(50.0, GIB // 2, GIB, model_version=version, **changes)
    return replace(outcome, forecast=foretold)


def test_bounds_that_hold_raise_no_alarm():
    drift = Drift(0.95)
    for n in range(100):
        drift.learn(ended(n, 1.1 if n % 25 == 0 else 0.8))
    report = drift.report()
    assert (report["kinds_watched"], report["kinds_in_alarm"]) == (1, 0)
    assert 0.9 < report["overall"]["memory_coverage"] < 1.0
    assert drift.widening(KIND, DEVICE) == 1.0


def test_one_failure_raises_no_alarm_and_two_in_a_row_do():
    drift = Drift(0.95)
    drift.learn(ended(1, 1.5))
    assert drift.widening(KIND, DEVICE) == 1.0
    drift.learn(ended(2, 1.3))
    assert drift.report()["kinds"][0]["alarm"]
    assert drift.widening(KIND, DEVICE) == 1.5
    assert drift.widening(KIND, "another type") == 1.0


def test_drift_is_judged_on_the_bound_before_widening():
    """Else the alarm would end because of its own remedy, and begin again."""
    drift = Drift(0.95)
    for n in range(2):
        drift.learn(ended(n, 1.5))
    widened = ended(3, 1.4)
    assert widened.forecast is not None
    drift.learn(replace(widened, forecast=replace(widened.forecast, upper_memory_bytes=round(1.5 * GIB), widened=1.5)))
    assert drift.report()["kinds"][0]["memory_coverage"] > 0
    assert drift.widening(KIND, DEVICE) == 1.5


def test_failures_of_an_older_model_do_not_count_against_a_new_one():
    drift = Drift(0.95)
    for n in range(4):
        drift.learn(ended(n, 1.5))
    drift.learn(ended(10, 0.9, version="v2"))
    assert drift.widening(KIND, DEVICE) == 1.0
    for n in range(5, 9):
        drift.learn(ended(n, 1.5, version="v1"))
    assert drift.widening(KIND, DEVICE) == 1.0


def test_attempts_without_a_forecast_are_not_scored():
    drift = Drift(0.95)
    outcome = ended(1, 2.0)
    drift.learn(replace(outcome, forecast=None))
    drift.learn(replace(outcome, forecast=Forecast()))
    drift.learn(replace(outcome, whole=False))
    assert drift.report()["kinds_watched"] == 0
    assert drift.report()["overall"]["memory_coverage"] is None


def test_slowdowns_are_scored_only_beside_the_predicted_partner():
    cost = PairCost(KindId("b"), 1.2, 1.3, None, None)
    drift = Drift(0.95)
    drift.learn(
        replace(
            ended(1, 0.8, expected_slowdown=1.2, upper_slowdown=1.3, pairs=(cost,)), slowdowns=(("b", 1.5, None, None),)
        )
    )
    drift.learn(
        replace(
            ended(2, 0.8, expected_slowdown=1.2, upper_slowdown=1.3, pairs=(cost,)), slowdowns=(("c", 9.0, None, None),)
        )
    )
    overall = drift.report()["overall"]
    assert round(overall["slowdown_error"], 6) == 0.2
    assert overall["slowdown_coverage"] == 0.0


def test_report_shows_the_worst_kinds_up_to_a_limit():
    drift = Drift(0.95)
    for n in range(200):
        drift.learn(ended(n, 1.4 if n % 50 == 7 else 0.9, model=f"net{chr(97 + n % 25)}{chr(97 + n // 25 % 4)}"))
    for n in range(200, 203):
        drift.learn(ended(n, 3.0, model="worst"))
    report = drift.report()
    assert len(report["kinds"]) == MOST_SHOWN < report["kinds_watched"]
    assert "worst" in report["kinds"][0]["kind"]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(0.1, 5.0), st.sampled_from("ab"), st.sampled_from(["v1", "v2"])), max_size=60))
def test_widening_is_at_least_1_and_survives_a_restart(seen: list[tuple[float, str, str]]):
    outcomes = [ended(n, ratio, model=model, version=version) for n, (ratio, model, version) in enumerate(seen)]
    one, other = Drift(0.95), Drift(0.95)
    for outcome in outcomes:
        one.learn(outcome)
        assert one.widening(outcome.kind, DEVICE) >= 1.0
    for outcome in outcomes:
        other.learn(outcome)
    assert one.report() == other.report()


def test_next_forecast_of_a_drifting_kind_is_widened():
    predictor = Predictor(History(), None, Learning())
    work = Work("a", 8, 50.0, GIB)
    chance = random.Random(3)
    for n in range(30):
        predictor.learn(run(work, n, chance))
    for n in range(30, 33):
        foretold = predictor.forecast_for(KIND, work.described()[2], DEVICE)
        needed = round(1.5 * (foretold.upper_memory_bytes or 0) / foretold.widened)
        predictor.learn(replace(run(work, n, chance, peak_memory_bytes=needed), forecast=foretold))
    after = predictor.forecast_for(KIND, work.described()[2], DEVICE)
    assert after.widened == pytest.approx(1.5)
    assert (after.upper_memory_bytes or 0) > 2 * GIB
    assert "widened" in after.evidence
