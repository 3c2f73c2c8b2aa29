"""A pair that only want of evidence keeps apart is tried where that can be undone within the slowdown budgets of all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.core.measuring.account import slowdown_account
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.pauses import TRIAL_S
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.scheduling.trials import MOST_RISK
from gpuq.core.state.actions import Launch, Pause, Stop
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.events import CancelRequested, Submitted
from gpuq.core.state.forecast import BUDGETS, LEARNED, MEASURED, PARTLY, RULE, Forecast, PairCost
from gpuq.core.state.job import JobId, KindId
from gpuq.core.state.verdict import Rule
from gpuq.policies.guard import Guarded
from gpuq.policies.lists.packed import make, packed
from gpuq.policies.time_limit import no_time_limit
from gpuq.settings import Scheduling
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook

HOUR = 3600.0
LIMITS = Limits(max_slowdown=1.2, trials=True)
NEW = AttemptId(JobId(9), 1)


def alone(duration_s: float | None = HOUR) -> Forecast:
    return a_forecast(55, 4, duration_p50_s=duration_s, duration_p90_s=duration_s, duration_runs=9)


def pair(beside: str, risk: float = 0.2, slowdown: float = 1.1, evidence: str = RULE) -> Forecast:
    risks = (risk,) * len(BUDGETS)
    cost = PairCost(KindId(beside), slowdown, 1.5, slowdown, 1.5, evidence=evidence, risks=(risks, risks))
    return replace(alone(), pairs=(cost,))


def report(play: Playbook, slowed: dict[int, float | None], after: float = 0.0) -> Playbook:
    """All hosts report what their jobs have lost to partners."""
    seen = (replace(a_resident(job, gib=4), slowed_s=lost, paused_s=0.0) for job, lost in slowed.items())
    return play.happen(a_report(*play.state.devices.values(), residents=tuple(seen)), after=after)


def full(*residents: str, limits: Limits = LIMITS, ran_s: float = 2 * HOUR, lost: float | None = 0.0) -> Playbook:
    """Every device has had a job of one of these kinds for two hours; jobs 1, 2, …"""
    play = Playbook(limits).happen(a_report(*(a_device(f"gpu{number}") for number in range(len(residents)))))
    for number, kind in enumerate(residents, 1):
        play.forecast(kind, alone(10 * HOUR))
        play.happen(Submitted(a_job(number, kind=kind, submitted_at=play.now))).settle().happen(a_start(number))
        play.forecast("new", pair(kind), beside=(kind,))
    return report(play, dict.fromkeys(range(1, len(residents) + 1), lost), after=ran_s)


def submit(play: Playbook, number: int = 9, kind: str = "new", **wishes: Any) -> Playbook:
    play.forecasts.setdefault(kind, alone())
    job = a_job(number, kind=kind, submitted_at=play.now, **{"preemptible": True, **wishes})
    return play.happen(Submitted(job)).settle()


def tried(play: Playbook) -> list[int]:
    return [a.attempt.id.job for a in play.done if isinstance(a, Launch) and a.verdict.rule is Rule.TRIAL]


def stopped(play: Playbook) -> list[AttemptId]:
    return [a.attempt for a in play.done if isinstance(a, Stop) and a.reason is StopReason.PREEMPTED]


def test_a_pair_that_lacks_only_evidence_is_tried_and_says_so() -> None:
    play = submit(full("old"))
    launch = next(a for a in play.done if isinstance(a, Launch) and a.attempt.id == NEW)
    assert launch.verdict.rule is Rule.TRIAL
    numbers = dict(launch.verdict.numbers)
    assert (numbers["risk"], numbers["trial_s"]) == (0.2, TRIAL_S)
    assert launch.attempt.trial
    assert launch.pauses == ()


@pytest.mark.parametrize(
    ("forecast", "rule"),
    [
        (pair("old", evidence=MEASURED), Rule.SLOWDOWN_RISK),
        (pair("old", risk=MOST_RISK + 0.05), Rule.SLOWDOWN_RISK),
        (pair("old", slowdown=1.25, evidence=PARTLY), Rule.SLOWDOWN_RISK),
        (pair("old", slowdown=1.25, evidence=LEARNED), Rule.SLOWDOWN_BUDGET),
        (replace(pair("old"), upper_memory_bytes=23 * 2**30), Rule.PREDICTED_MEMORY),
        (replace(pair("old"), pairs=(replace(pair("old").pairs[0], unsafe=True),)), Rule.UNSAFE_PAIR),
    ],
)
def test_a_pair_that_is_known_or_likely_to_be_bad_is_not_tried(forecast: Forecast, rule: Rule) -> None:
    play = full("old").forecast("new", replace(forecast, pairs=())).forecast("new", forecast, beside=("old",))
    assert tried(submit(play)) == []
    assert play.reason(9) is rule


def test_the_load_rule_alone_does_not_keep_a_pair_from_being_tried() -> None:
    busy = replace(pair("old", risk=0.4), peak_utilization_pct=80.0)
    play = full("old").forecast("new", replace(busy, pairs=())).forecast("new", busy, beside=("old",))
    assert tried(submit(play)) == [9]
    assert tried(submit(full("old").forecast("new", replace(busy, pairs=()), beside=("old",)))) == []


def test_a_job_that_was_tried_and_waits_again_does_not_keep_those_like_it_from_a_trial() -> None:
    play = full("old")
    play.happen(Submitted(a_job(8, kind="new", tried=True, preemptible=True, submitted_at=play.now)))
    assert tried(submit(play)) == [9]


@pytest.mark.parametrize("evidence", [PARTLY, LEARNED])
def test_what_was_learned_of_others_is_no_evidence_of_the_pair(evidence: str) -> None:
    play = full("old").forecast("new", pair("old", evidence=evidence), beside=("old",))
    assert tried(submit(play)) == [9]


@pytest.mark.parametrize(
    ("play", "wishes"),
    [
        (full("old", limits=replace(LIMITS, trials=False)), {}),
        (full("old"), {"preemptible": False}),
        (
            full("old")
            .forecast("new", alone(600.0))
            .forecast("new", replace(pair("old"), duration_p50_s=600.0), ("old",)),
            {},
        ),
        (full("old", ran_s=300.0), {}),
        (full("old", lost=None), {}),
        (full("old", lost=0.11 * 2 * HOUR), {}),
        (full("old"), {"tried": True}),
    ],
    ids=[
        "the site has none",
        "could not be stopped",
        "too short",
        "nothing earned",
        "unknown account",
        "half is used",
        "again",
    ],
)
def test_nothing_is_tried_that_could_not_be_undone_in_time(play: Playbook, wishes: dict[str, Any]) -> None:
    assert tried(submit(play, **wishes)) == []


def test_a_job_that_is_not_preemptible_is_tried_where_the_residents_could_stand_still_for_all_of_its_run() -> None:
    limits, short = replace(LIMITS, pauses=True), replace(pair("old"), duration_p50_s=300.0, duration_p90_s=300.0)
    play = full("old", limits=limits).forecast("new", replace(short, pairs=())).forecast("new", short, beside=("old",))
    assert tried(submit(play, preemptible=False)) == [9]
    report(play.happen(a_start(9)), {1: 20.0, 9: 20.0}, after=60).settle()
    assert [(a.attempt.job, a.paused_for) for a in play.done if isinstance(a, Pause)] == [(1, NEW)]
    assert stopped(play) == []


def test_the_residents_stand_still_to_its_end_for_a_short_job_of_which_the_cost_is_not_known_in_time() -> None:
    limits, short = replace(LIMITS, pauses=True), replace(pair("old"), duration_p50_s=300.0, duration_p90_s=300.0)
    play = full("old", limits=limits).forecast("new", replace(short, pairs=())).forecast("new", short, beside=("old",))
    submit(play).happen(a_start(9))
    for _ in range(3):
        report(play, {1: 0.0, 9: None}, after=TRIAL_S).settle()
        assert play.state.attempts[AttemptId(JobId(1), 1)].paused_for == NEW
    assert stopped(play) == []


def test_two_kinds_are_tried_once_at_a_time() -> None:
    play = submit(submit(full("old", "old")), 10)
    assert tried(play) == [9]
    report(play.happen(a_start(9)), {1: 0.0, 2: 0.0, 9: 0.0}, after=TRIAL_S + 1).settle()
    assert tried(play) == [9, 10], "what the first costs is known by now"


def test_a_job_on_several_devices_may_be_tried_beside_several_kinds() -> None:
    play = submit(full("old0", "old1"), device_count=2)
    assert tried(play) == [9]
    assert len(play.state.attempts[NEW].devices) == 2


@pytest.mark.parametrize(
    ("old", "new", "ends"),
    [
        (0.0, 0.0, False),
        (0.0, 15.0, False),
        (0.0, 30.0, True),
        (30.0, 0.0, False),
        (1300.0, 0.0, True),
        (0.0, None, False),
    ],
)
def test_a_newcomer_leaves_when_its_account_or_that_of_the_resident_is_empty(
    old: float, new: float | None, ends: bool
) -> None:
    play = submit(full("old")).happen(a_start(9))
    report(play, {1: old, 9: new}, after=100).settle()
    assert (stopped(play) == [NEW]) is ends


def test_a_newcomer_of_which_the_cost_is_not_known_in_time_leaves() -> None:
    play = report(submit(full("old")).happen(a_start(9)), {1: None, 9: None}, after=TRIAL_S + 1).settle()
    assert stopped(play) == [NEW]


def test_a_job_is_tried_once() -> None:
    play = report(submit(full("old")).happen(a_start(9)), {1: 0.0, 9: 50.0}, after=100).settle()
    play.happen(an_exit(9, Ending.STOPPED, None)).settle()
    assert play.state.jobs[JobId(9)].tried
    report(play, {1: 0.0}, after=HOUR).settle()
    assert tried(play) == [9]


def test_a_partner_that_was_admitted_stays_since_it_would_be_admitted_again() -> None:
    play = full("old").forecast("new", pair("old", risk=0.05), beside=("old",))
    submit(play).happen(a_start(9))
    assert tried(play) == []
    report(play, {1: 0.0, 9: 50.0}, after=100).settle()
    assert stopped(play) == []


def test_what_is_cancelled_is_not_stopped_twice() -> None:
    play = submit(full("old")).happen(a_start(9), CancelRequested(JobId(9), "alice"))
    assert stopped(report(play, {1: 0.0, 9: 50.0}, after=100).settle()) == []


@given(resident=st.floats(1, 4), newcomer=st.floats(1, 4), ran_s=st.floats(60, 10 * HOUR))
def test_no_resident_exceeds_its_budget_however_bad_the_partner_is(
    resident: float, newcomer: float, ran_s: float
) -> None:
    """Hosts report each second; the newcomer needs ten more to save its work."""
    play, lost, beside = full("old", ran_s=ran_s), 0.0, 0
    submit(play)
    if not tried(play):
        return
    play.happen(a_start(9))
    while not stopped(play) and beside < 600:
        beside += 1
        lost += 1 - 1 / resident
        known = beside >= 15
        play.now += 1
        if known:
            slowed: dict[int, float | None] = {1: lost, 9: beside * (1 - 1 / newcomer)}
            report(play, slowed).decide()
    lost += 10 * (1 - 1 / resident)
    account = slowdown_account(1.2, ran_s + beside + 10, lost, 0.0)
    assert account.left_s is not None
    assert account.left_s >= -5


def test_a_policy_of_a_site_may_propose_trials() -> None:
    """The guard hands on what it checked, and nothing else."""
    play = full("old")
    play.policy = Guarded("another", make(Scheduling()), packed, 60.0, no_time_limit)
    assert tried(submit(play)) == [9]


def test_no_policy_gets_a_trial_that_could_not_be_undone() -> None:
    play = full("old")
    play.policy = lambda context: (Proposal(job, (a_device("gpu0"),), trial=True) for job in context.waiting)
    assert tried(submit(play, preemptible=False)) == []


def test_nothing_is_tried_where_no_risk_is_too_high() -> None:
    """What a site refuses then, it refuses for the load, and no trial would tell more."""
    busy = replace(pair("old", risk=0.4), peak_utilization_pct=80.0)
    play = full("old", limits=replace(LIMITS, risk=1.0))
    play.forecast("new", replace(busy, pairs=())).forecast("new", busy, beside=("old",))
    assert tried(submit(play)) == []
    assert play.reason(9) is Rule.PREDICTED_LOAD


@pytest.mark.parametrize(("risk", "is_tried"), [(MOST_RISK, True), (MOST_RISK + 0.01, False)])
def test_a_pair_is_tried_that_is_as_likely_to_keep_its_budgets_as_not(risk: float, is_tried: bool) -> None:
    play = full("old").forecast("new", pair("old", risk=risk), beside=("old",))
    play.policy = lambda context: (Proposal(job, (a_device("gpu0"),), trial=True) for job in context.waiting)
    assert (tried(submit(play)) == [9]) is is_tried
