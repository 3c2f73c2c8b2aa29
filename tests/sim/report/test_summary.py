"""Several seeds as one."""

from __future__ import annotations

from gpuq.sim.report.figures import figures
from gpuq.sim.report.summary import ratio, summarise
from tests.sim.report.samples import alone, together


def test_medians_and_ranges_over_seeds_in_the_order_in_which_candidates_came() -> None:
    runs = [alone(seed=1), alone(seed=2), *(together(s, seed=n) for n, s in enumerate((1.5, 1.1, 1.2), 1))]
    fifo, packed = summarise(map(figures, runs))
    assert [fifo.policy, packed.policy] == ["exclusive-fifo", "packed"]
    assert packed.median.seeds == (1, 2, 3)
    assert packed.median.completion_mean_s == 3600 * 1.2
    assert (packed.low.slowdown_worst, packed.high.slowdown_worst) == (1.1, 1.5)
    assert packed.median.energy_kwh is None, "no seed knew it"


def test_ratio_with_an_unknown_value_is_none() -> None:
    assert ratio(3, 2) == 1.5
    assert ratio(None, 2) is ratio(3, None) is ratio(3, 0) is None
