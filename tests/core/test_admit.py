"""The rules of admission, one by one, with the numbers they give."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.admit import Place, admit, fits_ever
from gpuq.core.attempt import Attempt, AttemptId
from gpuq.core.device import DeviceId, HostId
from gpuq.core.forecast import UNKNOWN, Forecast, PairCost
from gpuq.core.job import JobId, KindId, Sharing
from gpuq.core.limits import Limits
from gpuq.core.verdict import Rule, Verdict
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading

LIMITS = Limits()


def a_partner(utilization: float = 40, gib: float = 4, **changes: object) -> Attempt:
    values = {
        "id": AttemptId(JobId(9), 1),
        "kind": KindId("partner"),
        "host": HostId("host"),
        "devices": (DeviceId("gpu0"),),
        "promised": (int(gib * GIB),),
        "shares": True,
        "launched_at": 0.0,
        "forecast": a_forecast(utilization, gib),
        **changes,
    }
    return Attempt(**values)  # type: ignore[arg-type]


def judge(forecast: Forecast, *partners: Attempt, **changes: object) -> Verdict:
    job = a_job(1, **{k: v for k, v in changes.items() if k not in {"reading", "reserved"}})
    place = Place(a_device(), partners, changes.get("reading", a_reading()), bool(changes.get("reserved")))  # type: ignore[arg-type]
    return admit(job, forecast, place, LIMITS)


def test_an_unknown_job_gets_an_idle_device_to_itself() -> None:
    verdict = judge(UNKNOWN)

    assert (verdict.admitted, verdict.rule) == (True, Rule.FIRST_RUN_EXCLUSIVE)


def test_a_known_job_gets_an_idle_device() -> None:
    assert judge(a_forecast()).rule is Rule.IDLE


def test_two_that_fit_share_and_the_numbers_are_told() -> None:
    verdict = judge(a_forecast(50), a_partner(50))

    assert (verdict.admitted, verdict.rule) == (True, Rule.FITS)
    assert dict(verdict.numbers)["committed_pct"] == 50


def test_a_sum_of_utilisations_just_above_the_limit_is_refused() -> None:
    verdict = judge(a_forecast(50.1), a_partner(50))

    assert (verdict.admitted, verdict.rule) == (False, Rule.PREDICTED_LOAD)
    assert dict(verdict.numbers)["sum_pct"] == pytest.approx(100.1)


@pytest.mark.parametrize(("gib", "admitted"), [(17.5, True), (17.7, False)])
def test_memory_must_fit_with_headroom(gib: float, admitted: bool) -> None:
    # 24 GiB less a tenth less the partner's 4 leaves 17.6.
    verdict = judge(a_forecast(10, gib), a_partner(10, 4))

    assert verdict.admitted is admitted
    assert verdict.rule is (Rule.FITS if admitted else Rule.PREDICTED_MEMORY)


def test_a_resident_that_outgrew_its_promise_counts_with_what_it_really_uses() -> None:
    grown = replace(a_partner(10, 4), live_memory=20 * GIB)

    assert judge(a_forecast(10, 4), grown).rule is Rule.PREDICTED_MEMORY


def test_a_resident_still_ramping_up_counts_with_its_promise() -> None:
    ramping = replace(a_partner(10, 16), live_memory=GIB)

    assert judge(a_forecast(10, 8), ramping).rule is Rule.PREDICTED_MEMORY


def test_foreign_memory_counts() -> None:
    reading = a_reading(used_memory=14 * GIB, foreign_memory=14 * GIB)

    assert judge(a_forecast(10, 8), reading=reading).admitted
    assert judge(a_forecast(10, 11), reading=reading, declared_memory=11 * GIB).rule is Rule.PREDICTED_MEMORY
    assert judge(a_forecast(10, 8), a_partner(10, 1), reading=reading).rule is Rule.PREDICTED_MEMORY


def test_an_unknown_job_keeps_off_a_device_with_foreign_processes() -> None:
    reading = a_reading(used_memory=6 * GIB, foreign_memory=6 * GIB)

    assert judge(UNKNOWN, reading=reading).rule is Rule.FOREIGN_PROCESS


def test_foreign_load_counts_and_an_unknown_foreign_load_blocks_sharing() -> None:
    busy = a_reading(used_memory=GIB, foreign_memory=GIB, foreign_utilization_pct=30.0)
    unknown = a_reading(used_memory=GIB, foreign_memory=GIB, foreign_utilization_pct=None)

    assert judge(a_forecast(40, 1), a_partner(40, 1), reading=busy).rule is Rule.PREDICTED_LOAD
    assert judge(a_forecast(40, 1), a_partner(40, 1), reading=unknown).rule is Rule.FOREIGN_PROCESS


@pytest.mark.parametrize("missing", ["used_memory", "foreign_memory"])
def test_a_reading_that_could_not_be_taken_admits_nobody(missing: str) -> None:
    assert judge(a_forecast(), reading=a_reading(**{missing: None})).rule is Rule.STALE_READING
    assert judge(UNKNOWN, reading=None).rule is Rule.STALE_READING


def test_unknown_never_shares() -> None:
    assert judge(UNKNOWN, a_partner()).rule is Rule.FIRST_RUN_EXCLUSIVE
    measured_now = a_partner(shares=False, forecast=UNKNOWN)
    assert judge(a_forecast(), measured_now).rule is Rule.FIRST_RUN_EXCLUSIVE


def test_whoever_must_not_share_does_not() -> None:
    assert judge(a_forecast(), a_partner(), sharing=Sharing.NEVER).rule is Rule.EXCLUSIVE
    assert judge(a_forecast(), a_partner(), alone=True).rule is Rule.EXCLUSIVE
    assert judge(a_forecast(), a_partner(shares=False)).rule is Rule.EXCLUSIVE


def test_a_full_device_is_full() -> None:
    others = a_partner(10, 1), a_partner(10, 1, id=AttemptId(JobId(8), 1))

    assert judge(a_forecast(10, 1), *others).rule is Rule.RESOURCES


def test_a_device_kept_for_a_long_waiting_job_takes_nobody_else() -> None:
    assert judge(a_forecast(10, 1), a_partner(10, 1), reserved=True).rule is Rule.RESERVED


def measured(newcomer: float | None, resident: float | None, **changes: bool) -> Forecast:
    cost = PairCost(KindId("partner"), newcomer, newcomer, resident, resident, **changes)
    return a_forecast(30, 2, pairs=(cost,))


def test_a_measured_slowdown_is_held_against_each_ones_budget() -> None:
    assert judge(measured(1.1, 1.1), a_partner(30, 2)).admitted
    assert judge(measured(1.3, 1.0), a_partner(30, 2)).rule is Rule.SLOWDOWN_BUDGET
    assert judge(measured(1.0, 1.3), a_partner(30, 2)).rule is Rule.SLOWDOWN_BUDGET
    assert judge(measured(1.3, 1.0), a_partner(30, 2), max_slowdown=1.5).admitted
    assert judge(measured(1.0, 1.3), a_partner(30, 2, max_slowdown=1.5)).admitted


def test_an_unmeasured_pair_is_left_to_the_plain_rule() -> None:
    assert judge(measured(None, None), a_partner(30, 2)).admitted


def test_a_pair_that_ran_out_of_memory_is_not_tried_again() -> None:
    assert judge(measured(1.0, 1.0, unsafe=True), a_partner(30, 2)).rule is Rule.UNSAFE_PAIR


def test_a_declared_need_overrides_the_forecast() -> None:
    assert judge(a_forecast(10, 1), a_partner(10, 4), declared_memory=20 * GIB).rule is Rule.PREDICTED_MEMORY
    assert judge(a_forecast(10, 20), a_partner(10, 4), declared_memory=GIB).admitted


def test_what_can_never_fit_is_told_with_the_missing_number() -> None:
    verdict = fits_ever(80 * GIB, 1, [a_device(gib=24), a_device("gpu1", gib=40)])

    assert verdict is not None
    assert dict(verdict.numbers)["missing_bytes"] == 40 * GIB
    assert fits_ever(40 * GIB, 1, [a_device(gib=40)]) is None, "an exact fit fits"
    assert fits_ever(80 * GIB, 1, []) is None, "no device is known yet"
