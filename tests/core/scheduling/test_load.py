"""Up to which sum of utilisations may two jobs share, where nothing else is known of pairs?"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.load import most_load
from gpuq.core.state.events import Submitted
from gpuq.core.state.verdict import Rule
from tests.support.nouns import a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook


def two_jobs(utilization_pct: float, limits: Limits, *, pairs_by_load: bool) -> Playbook:
    """A job beside one that uses half of the device."""
    play = Playbook(limits).forecast("half", a_forecast(50, 1))
    play.forecast("new", replace(a_forecast(utilization_pct, 1), pairs_by_load=pairs_by_load))
    play.happen(a_report(a_device()), Submitted(a_job(1, kind="half"))).settle()
    return play.happen(Submitted(a_job(2, kind="new"))).settle()


@pytest.mark.parametrize(
    ("utilization_pct", "risk", "pairs_by_load", "shares"),
    [
        (50, 0.1, True, True),
        (51, 0.1, True, False),
        (51, 0.1, False, True),
        (51, 0.2, True, True),
        (64, 1.0, True, True),
        (66, 1.0, True, False),
    ],
)
def test_the_risk_limits_the_sum_where_nothing_but_the_loads_is_known(utilization_pct, risk, pairs_by_load, shares):
    play = two_jobs(utilization_pct, Limits(risk=risk), pairs_by_load=pairs_by_load)
    assert (2 in play.launched()) is shares
    assert shares or play.reason(2) is Rule.PREDICTED_LOAD


def test_a_larger_budget_or_risk_allows_a_higher_sum() -> None:
    assert most_load(1.15, 0.1) == pytest.approx(100.1, abs=0.05)
    assert most_load(1.05, 0.1) < most_load(1.15, 0.05) < most_load(1.15, 0.1) < most_load(1.3, 0.1)
    assert most_load(1.15, 1.0) == inf


def test_no_sum_has_a_risk_or_keeps_a_budget_below_those_that_are_distinguished() -> None:
    assert most_load(1.15, 0.005) == 0
    assert most_load(1.01, 0.1) == 0
