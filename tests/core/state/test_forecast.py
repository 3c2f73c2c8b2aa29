"""Forecasts: the saving of a pair, the evidence of several, and the forecast of a gang."""

from __future__ import annotations

import pytest

from gpuq.core.state.forecast import LEARNED, MEASURED, PARTLY, RULE, UNKNOWN, Forecast, PairCost, combined
from gpuq.core.state.job import KindId
from tests.support.nouns import a_forecast


def pair(
    newcomer: float | None = 1.2, resident: float | None = 1.2, beside: str = "b", evidence: str = MEASURED
) -> PairCost:
    return PairCost(KindId(beside), newcomer, newcomer, resident, resident, evidence=evidence)


@pytest.mark.parametrize(
    ("newcomer", "resident", "saving"), [(1.0, 1.0, 0.5), (2.0, 2.0, 0.0), (3.0, 3.0, -0.5), (None, 1.0, None)]
)
def test_the_packing_saving_of_a_pair(newcomer: float | None, resident: float, saving: float | None) -> None:
    assert pair(newcomer, resident).saving == (None if saving is None else pytest.approx(saving))


def test_the_evidence_of_several_pairs_is_the_weakest() -> None:
    assert Forecast(pairs=tuple(pair(evidence=e) for e in (MEASURED, PARTLY, LEARNED))).pair_evidence == PARTLY
    assert Forecast(pairs=(pair(), pair(evidence=RULE))).pair_evidence == RULE
    assert UNKNOWN.pair_evidence is None


def test_sharing_needs_both_utilisation_and_memory() -> None:
    assert a_forecast(50, 4).known
    assert not a_forecast(None, 4).known
    assert not a_forecast(50, None).known


def test_the_likeliest_utilisation_is_the_bound_where_there_is_nothing_better() -> None:
    assert a_forecast(50, 4).likeliest_utilization_pct == 50
    assert a_forecast(50, 4, expected_utilization_pct=30.0).likeliest_utilization_pct == 30


def test_a_gang_is_as_slow_as_on_its_slowest_device_and_beside_all_partners() -> None:
    fast = a_forecast(50, 4, expected_slowdown=1.1, upper_slowdown=1.6, pairs=(pair(beside="b"),))
    slow = a_forecast(50, 4, expected_slowdown=1.3, upper_slowdown=1.4, pairs=(pair(beside="c"), pair(beside="b")))
    together = combined([fast, slow])
    assert (together.expected_slowdown, together.upper_slowdown) == (1.3, 1.6)
    assert [cost.beside for cost in together.pairs] == ["b", "c"]
    assert combined([fast, fast]) is fast
