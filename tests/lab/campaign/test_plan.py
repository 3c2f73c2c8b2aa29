"""The choice of what a campaign measures next, from the list and the runs so far."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuq.lab.campaign.ledger import DISTURBED, FAILED, OUT_OF_MEMORY, MeasuredRun
from gpuq.lab.campaign.plan import CampaignPlan, Wanted, item_of, looseness
from tests.lab.campaign.jobs import a_job, a_run

SMALL, LARGE, OTHER = a_job(size=8), a_job(size=64), a_job("text", 8, "words")
JOBS = (SMALL, LARGE, OTHER)


def carry_out(jobs, runs: list[MeasuredRun], wanted: Wanted) -> list[MeasuredRun]:
    """Make every run that the plan asks for; all are tight."""
    while (following := CampaignPlan(jobs, runs, wanted).next()) is not None:
        assert len(runs) < 1000
        runs = [*runs, a_run(*following)]
    return runs


def names(runs: list[MeasuredRun]) -> list[str]:
    return [" + ".join(part.job for part in run.parts) for run in runs]


def test_each_job_runs_alone_first_in_the_order_of_the_list_then_all_pairs():
    made = names(carry_out(JOBS, [], Wanted()))
    assert made[:3] == ["net 8", "net 64", "text 8"]
    assert len(made) == 3 + 6
    assert len(set(made)) == len(made)


def test_the_first_pair_is_of_jobs_that_are_least_alike():
    made = carry_out(JOBS, [], Wanted(pairs=1))
    assert {part.job.split()[0] for part in made[-1].parts} == {"net", "text"}


def test_every_job_is_in_a_pair_before_any_is_in_two():
    jobs = (*JOBS, a_job("game", 8, "play"))
    made = carry_out(jobs, [], Wanted(pairs=2))
    first, second = ({part.job for part in run.parts} for run in made[-2:])
    assert not first & second


def test_killed_campaign_goes_on_and_grown_list_gets_what_it_lacks():
    runs = carry_out(JOBS[:2], [], Wanted(pairs=1))
    after = carry_out(JOBS, runs, Wanted(pairs=2))
    assert after[: len(runs)] == runs
    assert names(after[len(runs) :])[0] == "text 8"
    assert len(after) == len(runs) + 2
    assert CampaignPlan(JOBS, after, Wanted(pairs=2)).next() is None


def test_a_changed_command_is_other_work():
    runs = carry_out((SMALL,), [], Wanted(pairs=0))
    changed = a_job(size=8, script="better.py")
    assert CampaignPlan((changed,), runs, Wanted(pairs=0)).next() == (changed,)


def test_a_job_that_failed_alone_is_in_no_pair_and_is_not_tried_again_unasked():
    runs = [a_run(SMALL, outcome=FAILED), a_run(LARGE), a_run(OTHER)]
    made = carry_out(JOBS, runs, Wanted())
    assert not any("net 8" in name for name in names(made[3:]))
    retry = Wanted(retry_failed=True)
    assert CampaignPlan(JOBS, runs, retry, before=3).next() == (SMALL,)
    assert CampaignPlan(JOBS, [*runs, a_run(SMALL, outcome=FAILED)], retry, before=3).next() != (SMALL,)


def test_a_pair_that_does_not_fit_is_a_result():
    runs = [*map(a_run, JOBS), a_run(SMALL, LARGE, outcome=OUT_OF_MEMORY)]
    made = carry_out(JOBS, runs, Wanted())
    assert sum(item_of(run.jobs) == item_of((SMALL.digest, LARGE.digest)) for run in made) == 1


def test_a_disturbed_run_is_made_again_but_not_for_ever_and_in_a_later_start_once_more():
    runs: list[MeasuredRun] = []
    while (following := CampaignPlan((SMALL,), runs, Wanted()).next()) is not None:
        runs.append(a_run(*following, outcome=DISTURBED))
    assert len(runs) == 3
    assert CampaignPlan((SMALL,), runs, Wanted(), before=3).next() == (SMALL,)


def test_the_loosest_is_measured_again_first_and_the_tight_never():
    runs = [a_run(SMALL, width=0.01), a_run(LARGE, width=0.2), a_run(OTHER, width=0.1)]
    wanted = Wanted(pairs=0, repeats=3, tight=0.03)
    assert CampaignPlan(JOBS, runs, wanted).left().again == 2
    assert CampaignPlan(JOBS, runs, wanted).next() == (LARGE,)
    again = [*runs, a_run(LARGE, alone_rate=20.01)]
    assert looseness(again[1::2]) < 0.03, "two runs that agree"
    assert CampaignPlan(JOBS, again, wanted).next() == (OTHER,)
    assert CampaignPlan(JOBS, runs, Wanted(pairs=0, repeats=1)).next() is None


def test_runs_that_differ_from_process_to_process_are_loose_however_tight_each_was():
    runs = [a_run(SMALL, LARGE, width=0.001, slowdown=value) for value in (1.2, 1.5)]
    assert looseness(runs) > 0.5


@given(st.integers(1, 5), st.integers(0, 12), st.integers(0, 6))
def test_a_plan_ends_with_every_job_once_and_as_many_pairs_as_were_wanted(count: int, pairs: int, killed_after: int):
    jobs = tuple(a_job(f"net{k}", 8, f"family{k % 2}") for k in range(count))
    part: list[MeasuredRun] = []
    while len(part) < killed_after and (following := CampaignPlan(jobs, part, Wanted(pairs=pairs)).next()) is not None:
        part.append(a_run(*following, peak_utilization_pct=10.0 * len(part)))
    left = CampaignPlan(jobs, part, Wanted(pairs=pairs)).left()
    made = carry_out(jobs, part, Wanted(pairs=pairs))
    items = [item_of(run.jobs) for run in made]
    assert len(set(items)) == len(items)
    assert sum(len(item) == 1 for item in items) == count
    assert sum(len(item) == 2 for item in items) == min(pairs, count * (count + 1) // 2)
    assert left.all == len(made) - len(part)
