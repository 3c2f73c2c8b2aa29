"""The dispatcher's own rule, asked about forecasts alone."""

from __future__ import annotations

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.forecast import UNKNOWN, Forecast, PairCost
from gpuq.core.state.job import KindId
from gpuq.learn.training.sharing import would_share


def small(level: float, *pairs: PairCost) -> Forecast:
    return Forecast(peak_utilization_pct=level, peak_memory_bytes=1, upper_memory_bytes=2, pairs=pairs)


def test_light_pair_shares_and_heavy_or_unknown_pair_does_not():
    limits = Limits()
    assert would_share("a", small(40), "b", small(50), limits)
    assert not would_share("a", small(66), "b", small(50), limits)
    assert not would_share("a", UNKNOWN, "b", small(50), limits)
    assert not would_share("a", small(40), "b", UNKNOWN, limits)


def test_slowdown_over_the_budget_of_either_job_prevents_sharing():
    limits = Limits(max_slowdown=1.15)
    for newcomer, resident, together in ((1.1, 1.1, True), (1.2, 1.0, False), (1.0, 1.2, False)):
        cost = PairCost(KindId("b"), newcomer, newcomer, resident, resident)
        assert would_share("a", small(40, cost), "b", small(50), limits) is together
