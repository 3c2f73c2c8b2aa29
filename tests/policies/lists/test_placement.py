"""Placements: two devices are busy with different residents and a newcomer has to choose."""

from __future__ import annotations

from gpuq.core.state.events import Submitted
from gpuq.core.state.forecast import PairCost
from gpuq.core.state.job import KindId
from gpuq.policies.lists import placement
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.order import ARRIVAL
from gpuq.policies.lists.placement import Placement
from tests.support.nouns import a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook


def two_busy(where: Placement, *spare: str) -> Playbook:
    play = Playbook(policy=list_scheduler(ARRIVAL, placement=where))
    play.forecast("a", a_forecast(50, 4)).forecast("b", a_forecast(30, 2)).forecast("new", a_forecast(20, 2))
    play.happen(a_report(a_device("gpu0"), a_device("gpu1")))
    play.happen(Submitted(a_job(1, kind="a")), Submitted(a_job(2, kind="b"))).settle()
    devices = (a_device(name) for name in ("gpu0", "gpu1", *spare))
    assert play.launched() == {1: "gpu0", 2: "gpu1"}
    return play.happen(a_report(*devices))


def pair(play: Playbook, beside: str, newcomer: float, resident: float) -> None:
    cost = PairCost(KindId(beside), newcomer, newcomer, resident, resident)
    play.forecast("new", a_forecast(20, 2, pairs=(cost,), pairs_known=True), beside=(beside,))


def test_packed_without_pair_costs_joins_the_least_loaded() -> None:
    assert two_busy(placement.packed).happen(Submitted(a_job(3, kind="new"))).settle().launched()[3] == "gpu1"


def test_packed_joins_the_highest_work_rate_even_if_more_loaded() -> None:
    play = two_busy(placement.packed)
    pair(play, "a", 1.02, 1.02)
    pair(play, "b", 1.14, 1.14)

    assert play.happen(Submitted(a_job(3, kind="new"))).settle().launched()[3] == "gpu0"


def test_packed_takes_an_idle_device_first() -> None:
    play = two_busy(placement.packed, "gpu2")
    pair(play, "a", 1.0, 1.0)
    assert play.happen(Submitted(a_job(3, kind="new"))).settle().launched()[3] == "gpu2"


def test_best_fit_takes_the_fullest_before_the_idle_device() -> None:
    play = two_busy(placement.best_fit, "gpu2").happen(Submitted(a_job(3, kind="new"))).settle()

    assert play.launched()[3] == "gpu0"


def test_best_fit_counts_an_unknown_job_as_a_whole_device() -> None:
    play = two_busy(placement.best_fit, "gpu2").happen(Submitted(a_job(3, kind="stranger"))).settle()

    assert play.launched()[3] == "gpu2"
