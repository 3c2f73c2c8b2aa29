"""Placements: two devices are busy with different residents and a newcomer has to choose."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.state.device import Device
from gpuq.core.state.events import Submitted
from gpuq.core.state.forecast import UNKNOWN, Forecast, PairCost, Question
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


SMALL, LARGE = a_device("small", 4, type="T4"), a_device("large", 16, type="A100")


def known_to_need(gib: float, small_knows: bool, where: Placement, *busy: Device) -> Playbook:
    """A job that was measured on the large type of device; of the small type, nothing or the same is forecast."""
    play = Playbook(policy=list_scheduler(ARRIVAL, placement=where)).forecast("a", a_forecast(30, 2))
    known = a_forecast(20, gib, pairs_known=True)

    def answers(questions: Iterable[Question]) -> dict[Question, Forecast]:
        found = Playbook.answers(play, questions)
        news = {q: known if small_knows or q.device_type == "A100" else UNKNOWN for q in found if q.kind == "new"}
        return found | news

    play.known = ForecastTable(answers)
    for number, device in enumerate(busy, 1):
        play.happen(a_report(device), Submitted(a_job(number, kind="a"))).settle()
    return play.happen(a_report(SMALL, LARGE))


@pytest.mark.parametrize("where", [placement.packed, placement.best_fit])
@pytest.mark.parametrize("small_knows", [True, False])
def test_a_device_that_is_smaller_than_the_jobs_known_need_is_taken_last(where: Placement, small_knows: bool) -> None:
    play = known_to_need(8, small_knows, where).happen(Submitted(a_job(9, kind="new"))).settle()
    assert play.launched()[9] == "large"

    play = known_to_need(8, small_knows, where, LARGE).happen(Submitted(a_job(9, kind="new"))).settle()
    assert play.launched()[9] == "large", "beside its resident"

    play = known_to_need(15, small_knows, where, LARGE).happen(Submitted(a_job(9, kind="new"))).settle()
    assert play.launched()[9] == "small", "there is no other, and a forecast may be wrong"


def test_a_job_that_fits_both_types_takes_the_first() -> None:
    play = known_to_need(3, True, placement.packed).happen(Submitted(a_job(9, kind="new"))).settle()
    assert play.launched()[9] == "small"


def test_a_gang_takes_the_host_whose_devices_are_large_enough() -> None:
    play = known_to_need(8, False, placement.packed)
    for host, gib, kind in (("a", 4, "T4"), ("b", 16, "A100")):
        play.happen(a_report(*(a_device(f"{host}{n}", gib, host, kind) for n in range(2)), host=host))
    play.happen(Submitted(a_job(9, kind="new", device_count=2))).settle()
    assert play.launched()[9] == "b0"


def test_best_fit_takes_the_fullest_before_the_idle_device() -> None:
    play = two_busy(placement.best_fit, "gpu2").happen(Submitted(a_job(3, kind="new"))).settle()

    assert play.launched()[3] == "gpu0"


def test_best_fit_counts_an_unknown_job_as_a_whole_device() -> None:
    play = two_busy(placement.best_fit, "gpu2").happen(Submitted(a_job(3, kind="stranger"))).settle()

    assert play.launched()[3] == "gpu2"
