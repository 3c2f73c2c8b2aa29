"""A pair that only want of evidence keeps apart is tried, as often as what became of earlier trials allows."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.scheduling.trials import MOST_RISK
from gpuq.core.state.actions import Launch
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.events import Submitted
from gpuq.core.state.forecast import BUDGETS, LEARNED, MEASURED, PARTLY, RULE, Forecast, PairCost
from gpuq.core.state.job import JobId, KindId
from gpuq.core.state.verdict import Rule
from gpuq.learn.interference.risk import TrialEarnings
from gpuq.policies.guard import Guarded
from gpuq.policies.lists.packed import make, packed
from gpuq.policies.time_limit import no_time_limit
from gpuq.settings import Scheduling
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook

LIMITS = Limits(max_slowdown=1.2, trials=1.0)
# The resident kind has a device each; the others wait for a partner.
FEW = tuple(a_device(f"gpu{number}") for number in range(2))


def pair(
    beside: str, risk: float = 0.2, slowdown: float = 1.1, evidence: str = RULE, earned: float | None = 0.0
) -> Forecast:
    risks = (risk,) * len(BUDGETS)
    cost = PairCost(KindId(beside), slowdown, 1.5, slowdown, 1.5, evidence=evidence, risks=(risks, risks))
    return a_forecast(55, 4, pairs=(cost,), trials_earned=earned)


def full(*residents: str, limits: Limits = LIMITS) -> Playbook:
    """Every device has a job of one of these kinds."""
    play = Playbook(limits).happen(a_report(*(a_device(f"gpu{number}") for number in range(len(residents)))))
    for number, kind in enumerate(residents, 1):
        play.forecast(kind, a_forecast(55, 4))
        play.happen(Submitted(a_job(number, kind=kind, submitted_at=play.now))).settle().happen(a_start(number))
    return play


def submit(play: Playbook, number: int, kind: str = "new", **wishes: object) -> Playbook:
    play.forecasts.setdefault(kind, a_forecast(55, 4))
    return play.happen(Submitted(a_job(number, kind=kind, submitted_at=play.now, **wishes))).settle()


def tried(play: Playbook) -> list[int]:
    return [a.attempt.id.job for a in play.done if isinstance(a, Launch) and a.verdict.rule is Rule.TRIAL]


def test_a_pair_that_lacks_only_evidence_is_tried_and_says_what_trials_may_still_cost() -> None:
    play = full("old").forecast("new", pair("old"), beside=("old",))
    submit(play, 2)
    launch = next(a for a in play.done if isinstance(a, Launch) and a.attempt.id.job == 2)
    assert launch.verdict.rule is Rule.TRIAL
    numbers = dict(launch.verdict.numbers)
    assert (numbers["risk"], numbers["trials_left"]) == (0.2, 1.0)
    assert launch.attempt.trial_risk == 0.2


@pytest.mark.parametrize(
    ("forecast", "rule"),
    [
        (pair("old", evidence=MEASURED), Rule.SLOWDOWN_RISK),
        (pair("old", risk=MOST_RISK + 0.05), Rule.SLOWDOWN_RISK),
        (pair("old", slowdown=1.25, evidence=PARTLY), Rule.SLOWDOWN_RISK),
        (pair("old", slowdown=1.25, evidence=LEARNED), Rule.SLOWDOWN_BUDGET),
        (pair("old", earned=None), Rule.SLOWDOWN_RISK),
        (pair("old", earned=-0.9), Rule.SLOWDOWN_RISK),
        (replace(pair("old"), upper_memory_bytes=23 * 2**30), Rule.PREDICTED_MEMORY),
        (replace(pair("old"), peak_utilization_pct=90), Rule.PREDICTED_LOAD),
        (replace(pair("old"), pairs=(replace(pair("old").pairs[0], unsafe=True),)), Rule.UNSAFE_PAIR),
    ],
)
def test_a_pair_that_is_known_or_likely_to_be_bad_is_not_tried(forecast: Forecast, rule: Rule) -> None:
    play = full("old")
    play.forecast("new", replace(forecast, pairs=()))
    play.forecast("new", forecast, beside=("old",))
    submit(play, 2)
    assert tried(play) == []
    assert play.reason(2) is rule


@pytest.mark.parametrize("evidence", [PARTLY, LEARNED])
def test_what_was_learned_of_others_is_no_evidence_of_the_pair(evidence: str) -> None:
    play = full("old").forecast("new", pair("old", evidence=evidence), beside=("old",))
    assert tried(submit(play, 2)) == [2]


def test_a_site_may_have_none() -> None:
    play = full("old", limits=replace(LIMITS, trials=0.0)).forecast("new", pair("old"), beside=("old",))
    assert tried(submit(play, 2)) == []


def test_two_kinds_are_tried_once_at_a_time() -> None:
    play = full("old", "old").forecast("new", pair("old"), beside=("old",))
    submit(play, 3)
    submit(play, 4)
    assert tried(play) == [3]
    play.happen(a_start(3), an_exit(3)).settle()
    assert tried(play) == [3, 4], "the first is over"


def test_what_runs_is_charged_with_its_risk() -> None:
    olds = [f"old{number}" for number in range(8)]
    play = full(*olds)
    for old in olds:
        play.forecast("new", pair(old, 0.24), beside=(old,))
    for number in range(len(olds)):
        submit(play, 10 + number)
    assert len(tried(play)) == 4, "four take 0.96 of 1"


def test_a_trial_that_has_emptied_an_account_is_charged_with_a_whole_budget() -> None:
    play = full("old0", "old1").forecast("new", pair("old0"), beside=("old0",))
    play.forecast("new", pair("old1"), beside=("old1",))
    submit(play, 3).happen(a_start(3))
    partner = next(job for job in (1, 2) if play.launched()[job] == play.launched()[3])
    seen = (replace(a_resident(job, gib=4), slowed_s=0.0, paused_s=0.0) for job in (3 - partner, 3))
    bad = replace(a_resident(partner, gib=4), slowed_s=1000.0, paused_s=0.0)
    play.happen(a_report(*FEW, residents=(bad, *seen)), after=2000.0)
    submit(play, 4)
    assert tried(play) == [3]


def test_a_job_on_several_devices_is_charged_for_each_pair_of_kinds() -> None:
    play = full("old0", "old1")
    for old in ("old0", "old1"):
        play.forecast("new", pair(old, 0.15), beside=(old,))
    submit(play, 3, device_count=2)
    attempt = play.state.attempts[AttemptId(JobId(3), 1)]
    assert attempt.trial_risk == pytest.approx(0.3)
    assert len(attempt.devices) == 2


def test_a_policy_of_a_site_may_propose_trials() -> None:
    """The guard hands on what it checked, and nothing else."""
    play = full("old").forecast("new", pair("old"), beside=("old",))
    other = make(Scheduling())
    play.policy = Guarded("another", other, packed, 60.0, no_time_limit)
    assert tried(submit(play, 2)) == [2]


def test_no_policy_gets_a_trial_that_the_account_does_not_allow() -> None:
    play = full("old").forecast("new", pair("old", earned=-0.9), beside=("old",))
    play.policy = lambda context: (Proposal(job, (a_device("gpu0"),), trial=True) for job in context.waiting)
    assert tried(submit(play, 2)) == []


def test_the_share_of_wrong_pairs_stays_below_the_risk_and_what_trials_begin_with() -> None:
    """Each trial is wrong three times as often as it says."""
    chance, earned, begin, wrong, count = random.Random(0), TrialEarnings(), 1.0, 0, 0
    for _ in range(2000):
        if begin + earned.of("here") < 0.2:
            break
        exceeded = chance.random() < 0.6
        earned.add("here", exceeded, 0.1)
        earned.add("here", False, 0.1)
        wrong, count = wrong + exceeded, count + 1
    assert wrong <= begin + 0.1 * count + 1
    assert count < 2000, "trials end where they go wrong"


def test_good_pairs_earn_trials_but_not_without_end() -> None:
    earned = TrialEarnings()
    for _ in range(1000):
        earned.add("here", False, 0.1)
    assert earned.of("here") == 3.0
    assert earned.of("elsewhere") == 0.0
