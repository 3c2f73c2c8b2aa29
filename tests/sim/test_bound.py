"""The most that sharing could save, where it can be reckoned by hand; and that no schedule saves more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.scheduling.limits import Limits
from gpuq.sim.bound import possible_saving
from gpuq.sim.forecaster import Oracle
from gpuq.sim.report.figures import figures
from gpuq.sim.run import simulate
from gpuq.sim.scenario_builder import Scenario
from gpuq.sim.world import World
from tests.sim.small import GIB, HEAVY, LIGHT, NEVER_TOGETHER, PACKED, arrival, arrivals, trace, world

LIMITS = Limits(max_slowdown=1.2)
OTHERS = {("light", "light"): 1.1, ("light", "heavy"): 1.25, ("heavy", "light"): 1.0, ("heavy", "heavy"): 2.0}


def saving(*kinds: str, there: World | None = None, limits: Limits = LIMITS) -> float | None:
    return possible_saving(Scenario(arrivals(*kinds), there or world()), limits)


def test_two_that_slow_each_other_by_a_tenth_take_one_and_a_tenth_instead_of_two() -> None:
    assert saving("light", "light") == pytest.approx(1 - 1.1 / 2)


def test_job_without_a_partner_within_budget_saves_nothing() -> None:
    assert saving("heavy", "heavy", "light") == pytest.approx(1 - (2 + 1.1 / 2) / 3), "a light one could meet its like"
    assert saving("heavy", "heavy") == pytest.approx(0)


def test_a_looser_budget_allows_more() -> None:
    loose = replace(LIMITS, max_slowdown=1.25)
    assert saving("light", "heavy", "heavy", there=world(pairs=OTHERS), limits=loose) == pytest.approx(1 / 3)
    assert saving("light", "heavy", "heavy", there=world(pairs=OTHERS)) == pytest.approx(1 - (2 + 1.1 / 2) / 3)


def test_objective_saving_allows_pairs_by_their_saving() -> None:
    pays = Limits(max_slowdown=1.01, objective="saving", least_saving=0.4)
    assert saving("light", "light", limits=pays) == pytest.approx(1 - 1.1 / 2)
    assert saving("light", "light", limits=replace(pays, least_saving=0.5)) == pytest.approx(0)


def test_memory_keeps_apart_and_so_does_its_headroom() -> None:
    """Of 16 GiB each wants nearly a half, and no run wants quite what another does."""
    half = world(light=replace(LIGHT, memory_bytes=int(7.4 * GIB)))
    assert saving("light", "light", there=half, limits=replace(LIMITS, memory_headroom=0.0)) == pytest.approx(0.45)
    assert saving("light", "light", there=half, limits=replace(LIMITS, memory_headroom=0.2)) == pytest.approx(0)


def test_those_that_cannot_be_together_are_never_a_pair() -> None:
    assert saving("light", "light", there=world(pairs=NEVER_TOGETHER)) == pytest.approx(0)


def test_bound_is_zero_for_one_resident_and_unknown_for_three() -> None:
    assert saving("light", "light", limits=replace(LIMITS, residents_per_device=1)) == 0
    assert saving("light", "light", limits=replace(LIMITS, residents_per_device=3)) is None


def test_without_jobs_there_is_no_share_of_their_time() -> None:
    assert saving() is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["light", "heavy"]), st.integers(0, 300), st.integers(20, 400)),
        min_size=1,
        max_size=12,
    ),
    st.floats(1.0, 1.3),
)
@settings(max_examples=40, deadline=None)
def test_no_schedule_saves_more(jobs: list[tuple[str, int, int]], slowed: float) -> None:
    pairs = {**OTHERS, ("light", "light"): slowed}
    there = world(2, light=LIGHT, heavy=HEAVY, pairs=pairs)
    played = trace(*(arrival(n, kind, float(at), float(lasts)) for n, (kind, at, lasts) in enumerate(jobs, 1)))
    run = simulate(played, there, Oracle(there), replace(PACKED, limits=LIMITS))
    bound, saved = possible_saving(Scenario(played, there), LIMITS), figures(run).packing_saving
    assert bound is not None
    assert saved is not None
    assert saved <= bound + 1e-6
