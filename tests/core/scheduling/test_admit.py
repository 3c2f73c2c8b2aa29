"""The rules of admission, one by one, with the numbers they give."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.core.scheduling.admit import DeviceSnapshot, admit, fits_ever
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.forecast import BUDGETS, LEARNED, MEASURED, PARTLY, RULE, UNKNOWN, Forecast, PairCost
from gpuq.core.state.job import JobId, KindId, Sharing
from gpuq.core.state.verdict import Rule, Verdict
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
    job = a_job(1, **{k: v for k, v in changes.items() if k not in {"reading", "reserved_for"}})
    snapshot = DeviceSnapshot(a_device(), partners, changes.get("reading", a_reading()), changes.get("reserved_for"))  # type: ignore[arg-type]
    return admit(job, forecast, snapshot, LIMITS)


def test_an_unknown_job_gets_an_idle_device_to_itself() -> None:
    verdict = judge(UNKNOWN)

    assert (verdict.admitted, verdict.rule) == (True, Rule.FIRST_RUN_EXCLUSIVE)


def test_a_known_job_gets_an_idle_device() -> None:
    assert judge(a_forecast()).rule is Rule.IDLE


def test_two_jobs_that_fit_share_and_the_verdict_has_the_numbers() -> None:
    verdict = judge(a_forecast(50), a_partner(50))

    assert (verdict.admitted, verdict.rule) == (True, Rule.FITS)
    assert dict(verdict.numbers)["committed_pct"] == 50


def test_a_sum_of_utilisations_just_above_the_limit_is_refused() -> None:
    """At 115% each takes 1.15 times as long, if they share what there is: that is the budget."""
    verdict = judge(a_forecast(65.1), a_partner(50))

    assert judge(a_forecast(64.9), a_partner(50)).admitted
    assert (verdict.admitted, verdict.rule) == (False, Rule.PREDICTED_LOAD)
    assert dict(verdict.numbers)["sum_pct"] == pytest.approx(115.1)
    assert dict(verdict.numbers)["limit_pct"] == pytest.approx(115)


def test_a_refusal_says_how_much_of_the_load_is_none_of_ours() -> None:
    verdict = judge(a_forecast(50), a_partner(50), reading=a_reading(foreign_utilization_pct=30.0))

    assert (verdict.admitted, verdict.rule) == (False, Rule.PREDICTED_LOAD)
    assert dict(verdict.numbers)["committed_pct"] == 80
    assert dict(verdict.numbers)["foreign_pct"] == 30


@pytest.mark.parametrize(("newcomer", "resident"), [(1.05, None), (None, 1.05), (1.05, 1.3)])
def test_the_tightest_budget_says_how_much_load_there_may_be(newcomer: float | None, resident: float | None) -> None:
    def admitted(load: float) -> bool:
        return judge(a_forecast(load), a_partner(50, max_slowdown=resident), max_slowdown=newcomer).admitted

    assert (admitted(54), admitted(56)) == (True, False)


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


def test_memory_in_use_that_no_process_accounts_for_counts() -> None:
    """Drivers keep some, and not every process can be seen."""
    reading = a_reading(used_memory=14 * GIB, foreign_memory=2 * GIB)

    assert judge(a_forecast(10, 7), a_partner(10, 4), reading=reading).admitted
    verdict = judge(a_forecast(10, 8), a_partner(10, 4), reading=reading)
    assert (verdict.rule, dict(verdict.numbers)["committed_bytes"]) == (Rule.PREDICTED_MEMORY, 14 * GIB)


def test_an_unknown_job_keeps_off_a_device_with_foreign_processes() -> None:
    reading = a_reading(used_memory=6 * GIB, foreign_memory=6 * GIB)

    assert judge(UNKNOWN, reading=reading).rule is Rule.FOREIGN_PROCESS


def test_a_device_for_one_process_at_a_time_admits_no_second_job() -> None:
    exclusive = replace(a_device(), sharing="exclusive")
    resident = a_partner(10, 1)

    assert admit(a_job(1), a_forecast(10, 1), DeviceSnapshot(exclusive, (), a_reading()), LIMITS).admitted
    verdict = admit(a_job(1), a_forecast(10, 1), DeviceSnapshot(exclusive, (resident,), a_reading()), LIMITS)
    assert (verdict.admitted, verdict.rule) == (False, Rule.EXCLUSIVE)


def test_an_unknown_job_waits_for_memory_that_a_job_left_a_moment_ago() -> None:
    reading = a_reading(used_memory=6 * GIB, foreign_memory=0)

    assert judge(UNKNOWN, reading=reading).rule is Rule.PREDICTED_MEMORY


@pytest.mark.parametrize(("used_gib", "rule"), [(12, Rule.FIRST_RUN_EXCLUSIVE), (13, Rule.FOREIGN_PROCESS)])
def test_an_unknown_job_starts_on_cores_while_other_programs_use_up_to_half_of_the_memory(
    used_gib: int, rule: Rule
) -> None:
    used = used_gib * GIB
    reading = a_reading(used_memory=used, foreign_memory=used)
    snapshot = DeviceSnapshot(replace(a_device(gib=24), backend="cpu"), (), reading)

    assert admit(a_job(1), UNKNOWN, snapshot, LIMITS).rule is rule


def test_foreign_load_counts_and_an_unknown_foreign_load_blocks_sharing() -> None:
    busy = a_reading(used_memory=GIB, foreign_memory=GIB, foreign_utilization_pct=30.0)
    unknown = a_reading(used_memory=GIB, foreign_memory=GIB, foreign_utilization_pct=None)

    assert judge(a_forecast(50, 1), a_partner(40, 1), reading=busy).rule is Rule.PREDICTED_LOAD
    assert judge(a_forecast(40, 1), a_partner(40, 1), reading=unknown).rule is Rule.FOREIGN_PROCESS


@pytest.mark.parametrize("missing", ["used_memory", "foreign_memory"])
def test_a_device_without_a_complete_reading_admits_no_job(missing: str) -> None:
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


def test_a_device_reserved_for_a_long_waiting_job_admits_no_other_job() -> None:
    assert judge(a_forecast(10, 1), a_partner(10, 1), reserved_for=JobId(8)).rule is Rule.RESERVED


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


def test_verdict_of_a_job_that_can_never_fit_has_the_missing_memory() -> None:
    verdict = fits_ever(80 * GIB, 1, [a_device(gib=24), a_device("gpu1", gib=40)])

    assert verdict is not None
    assert dict(verdict.numbers)["missing_bytes"] == 40 * GIB
    assert fits_ever(40 * GIB, 1, [a_device(gib=40)]) is None, "an exact fit fits"
    assert fits_ever(80 * GIB, 1, []) is None, "no device is known yet"


# --- what pairs cost, by what that rests on ---------------------------------------------------------------------------

SLOWDOWNS = st.none() | st.floats(0.8, 5)
COSTS = st.builds(
    PairCost,
    beside=st.just(KindId("partner")),
    newcomer=SLOWDOWNS,
    newcomer_upper=SLOWDOWNS,
    resident=SLOWDOWNS,
    resident_upper=SLOWDOWNS,
)
SHARES = st.floats(1, 100)


def beside(evidence: str, slowdown: float = 1.1, upper: float = 1.3, utilization: float = 70) -> Forecast:
    cost = PairCost(KindId("partner"), slowdown, upper, slowdown, upper, evidence=evidence)
    return a_forecast(utilization, 2, pairs=(cost,))


@pytest.mark.parametrize("evidence", [MEASURED, LEARNED, PARTLY])
def test_evidence_admits_a_pair_that_the_load_rule_would_refuse(evidence: str) -> None:
    verdict = judge(beside(evidence), a_partner(70, 2))

    assert (verdict.admitted, verdict.rule) == (True, Rule.KNOWN_PAIR)
    assert dict(verdict.numbers)["slowdown_evidence"] == evidence


@pytest.mark.parametrize(
    "forecast",
    [beside(RULE), beside(LEARNED, 1.1, 1.1, utilization=70)],
    ids=["no evidence", "a third job"],
)
def test_evidence_that_says_too_little_leaves_the_load_rule(forecast: Forecast) -> None:
    limits = replace(LIMITS, residents_per_device=3)
    others = (a_partner(70, 2), a_partner(10, 2, id=AttemptId(JobId(8), 1)))[
        : 2 if forecast.pairs[0].evidence == LEARNED else 1
    ]
    snapshot = DeviceSnapshot(a_device(), others, a_reading())

    assert admit(a_job(1), forecast, snapshot, limits).rule is Rule.PREDICTED_LOAD


def test_evidence_of_another_pair_leaves_the_load_rule() -> None:
    assert judge(beside(MEASURED), a_partner(70, 2, kind=KindId("other"))).rule is Rule.PREDICTED_LOAD


def test_evidence_of_pairs_says_nothing_of_foreign_processes() -> None:
    busy = a_reading(foreign_memory=GIB, foreign_utilization_pct=5)

    assert judge(beside(MEASURED), a_partner(70, 2), reading=busy).rule is Rule.PREDICTED_LOAD


def test_evidence_never_goes_before_memory() -> None:
    assert judge(replace(beside(MEASURED), upper_memory_bytes=10**12), a_partner(70, 2)).rule is Rule.PREDICTED_MEMORY


def test_what_was_learned_refuses_as_what_was_measured_does() -> None:
    assert judge(beside(LEARNED, 1.3, 1.4, 30), a_partner(30, 2)).rule is Rule.SLOWDOWN_BUDGET
    assert judge(beside(LEARNED, 1.3, 1.4, 30), a_partner(30, 2, max_slowdown=1.5), max_slowdown=1.5).admitted


def at_risk(newcomer: float, resident: float, **changes: float) -> Forecast:
    """A pair whose risks at a budget of 1.15 are these; at other budgets it is certain to exceed."""
    risks = tuple(tuple(risk if budget == 1.15 else 1.0 for budget in BUDGETS) for risk in (newcomer, resident))
    forecast = beside(RULE, utilization=30)
    return replace(forecast, pairs=(replace(forecast.pairs[0], risks=risks),), **changes)


def test_a_pair_is_refused_if_either_job_is_too_likely_to_exceed_its_budget() -> None:
    assert judge(at_risk(0.1, 0.02), a_partner(30, 2)).admitted
    for risky in (at_risk(0.12, 0.02), at_risk(0.02, 0.12)):
        refused = judge(risky, a_partner(30, 2))
        assert refused.rule is Rule.SLOWDOWN_RISK
        assert dict(refused.numbers)["risk"] == 0.12


def test_a_higher_risk_may_be_allowed_and_counts_at_each_jobs_own_budget() -> None:
    snapshot = DeviceSnapshot(a_device(), (a_partner(30, 2),), a_reading())

    assert admit(a_job(1), at_risk(0.2, 0.2), snapshot, replace(LIMITS, risk=0.2)).admitted
    assert judge(at_risk(0.1, 0.1), a_partner(30, 2), max_slowdown=1.19).admitted, "as at 1.15, the next lower"
    assert judge(at_risk(0.1, 0.1), a_partner(30, 2), max_slowdown=1.04).rule is Rule.SLOWDOWN_RISK


def test_with_the_objective_saving_only_a_budget_of_ones_own_has_a_risk() -> None:
    limits = replace(LIMITS, objective="saving", least_saving=0.0)
    snapshot = DeviceSnapshot(a_device(), (a_partner(30, 2),), a_reading())

    assert admit(a_job(1), at_risk(1.0, 1.0), snapshot, limits).admitted
    assert admit(a_job(1, max_slowdown=1.15), at_risk(1.0, 1.0), snapshot, limits).rule is Rule.SLOWDOWN_RISK


@given(COSTS, SHARES, SHARES)
def test_without_evidence_the_load_rule_decides_as_if_no_pair_were_known(
    cost: PairCost, one: float, other: float
) -> None:
    guessed = a_forecast(one, 2, pairs=(replace(cost, evidence=RULE),))

    said, plain = judge(guessed, a_partner(other, 2)), judge(a_forecast(one, 2), a_partner(other, 2))
    assert (said.admitted, said.rule) == (plain.admitted, plain.rule)


@given(COSTS, SHARES, SHARES)
def test_a_kind_never_measured_beside_another_is_never_worse_off_than_under_the_load_rule(
    cost: PairCost, one: float, other: float
) -> None:
    partly = a_forecast(one, 2, pairs=(replace(cost, evidence=PARTLY),))

    if judge(a_forecast(one, 2), a_partner(other, 2)).admitted:
        assert judge(partly, a_partner(other, 2)).admitted


def saving(slowdown: float, utilization: float = 70, evidence: str = LEARNED, **changes: float) -> Verdict:
    forecast = beside(evidence, slowdown, 1.2 * slowdown, utilization)
    snapshot = DeviceSnapshot(a_device(), (a_partner(utilization, 2),), a_reading())
    return admit(a_job(1, **changes), forecast, snapshot, replace(LIMITS, objective="saving", least_saving=0.2))


def test_with_the_objective_saving_a_pair_is_judged_by_the_time_it_saves() -> None:
    assert saving(1.5, utilization=90).rule is Rule.KNOWN_PAIR, "0.25 saved: 1 - 1.5 / 2"
    assert saving(1.7, utilization=30).rule is Rule.PACKING_SAVING, "0.15 saved"
    assert saving(1.7, utilization=90).rule is Rule.PREDICTED_LOAD


def test_with_the_objective_saving_the_load_rule_asks_what_two_so_loaded_would_save() -> None:
    """At 160% each takes 1.6 times as long, which saves the wanted fifth."""
    assert saving(1.7, utilization=80, evidence=RULE).rule is Rule.FITS
    assert saving(1.5, utilization=81, evidence=RULE).rule is Rule.PREDICTED_LOAD


def test_with_the_objective_saving_a_jobs_own_budget_still_counts() -> None:
    assert saving(1.5, utilization=30, max_slowdown=1.2).rule is Rule.SLOWDOWN_BUDGET
    assert saving(1.5, utilization=61, evidence=RULE, max_slowdown=1.2).rule is Rule.PREDICTED_LOAD


@given(st.floats(1, 10), st.floats(1, 10))
def test_a_pair_saves_at_most_half_and_nothing_where_both_are_halved(one: float, other: float) -> None:
    cost = PairCost(KindId("partner"), one, one, other, other)

    assert (cost.saving or 0) <= 0.5
    assert PairCost(KindId("partner"), 2.0, 2.0, 2.0, 2.0).saving == 0
    assert PairCost(KindId("partner"), 2.0, 2.0, None, None).saving is None


def test_a_device_that_is_unwell_is_refused_with_the_reason_even_if_it_is_idle() -> None:
    reading = a_reading(unwell="XID 79: it has fallen off the bus")
    verdict = admit(a_job(1), a_forecast(), DeviceSnapshot(a_device(), (), reading), Limits())
    assert (verdict.admitted, verdict.rule) == (False, Rule.UNWELL)
    assert dict(verdict.numbers) == {"fault": "XID 79: it has fallen off the bus"}
