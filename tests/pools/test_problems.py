"""Pools that get no pilots: what is said, and for how long none is requested."""

from __future__ import annotations

import pytest

from gpuq.adapters.slurm import SlurmJob
from gpuq.errors import BadInput, Unreachable
from gpuq.pools import pool
from gpuq.pools.pilots import PilotFolders
from gpuq.pools.pool import Pool
from tests.pools.site import Site


def test_a_refusal_of_slurm_is_not_repeated_for_a_minute(site: Site) -> None:
    site.api.waiting = 1
    site.slurm.refuses = "Invalid account"
    site.look()
    assert site.pilots == []
    invited = len(site.api.invited)
    site.look(after_s=3)
    assert len(site.api.invited) == invited
    site.slurm.refuses = None
    site.look()
    assert site.slurm.submitted == 1


def test_a_refusal_that_stays_is_repeated_ever_less_often_and_at_once_in_a_pool_that_is_added_again(site: Site) -> None:
    site.api.waiting, site.slurm.refuses = 1, "Invalid account"
    for _ in range(8 * 120):
        site.look(after_s=30)
    assert len(site.api.invited) < 30, "in eight hours"
    site.slurm.refuses = None
    pool.remove(site.home, "slurm")
    site.look(after_s=3)
    pool.add(site.home, Pool(name="slurm", most=3))
    site.look(after_s=3)
    assert site.slurm.submitted == 1


def test_when_a_pilot_has_ended_the_next_one_is_requested_though_requests_were_refused(site: Site) -> None:
    """A site that takes one job at a time of a user refuses the others, until that one has ended."""
    name = site.requested()
    site.slurm.refuses = "Job violates accounting/QOS policy"
    site.api.join(name, 7)
    site.stay(3600)
    site.slurm.refuses = None
    site.api.hosts[name] |= {"state": "silent", "jobs": []}
    site.slurm.there.clear()
    site.stay(40)
    assert site.slurm.submitted == 2


def test_a_controller_that_is_back_is_asked_for_a_pilot_within_minutes_however_long_it_was_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: set[str]) -> dict[str, SlurmJob]:
        raise Unreachable("Slurm does not answer.")

    site.slurm.loses, site.api.waiting = "request", 1
    with monkeypatch.context() as patched:
        patched.setattr(site.slurm, "jobs_in", away)
        site.stay(7200)
    site.slurm.loses = None
    site.stay(60)
    assert site.slurm.submitted == 1


def test_pilots_that_fail_together_count_as_one_failure(site: Site) -> None:
    site.api.waiting = 3
    site.look()
    site.slurm.there.clear()
    site.look()
    assert site.pilots == []
    site.look(after_s=61)
    assert site.slurm.submitted == 6


def test_after_a_pilot_that_joined_the_first_failure_counts_as_the_first(site: Site) -> None:
    site.api.waiting, site.slurm.refuses = 1, "Invalid account"
    site.stay(900)
    site.slurm.refuses = None
    site.stay(1000)
    (name,) = site.pilots
    site.api.join(name, 7)
    site.look()
    site.api.waiting, site.slurm.refuses = 1, "Invalid account"
    site.look()
    site.slurm.refuses = None
    site.look()
    assert site.slurm.submitted == 2


def test_an_account_without_hours_is_said_in_slurms_word_with_the_fix_until_the_pilot_starts(site: Site) -> None:
    site.api.waiting = 1
    site.slurm.reason = "AssocGrpGRESMinutes"
    site.look()
    site.look()
    said = site.problem()
    assert said["problem"] == "Slurm does not start job 1: AssocGrpGRESMinutes."
    assert "--account=" in said["fix"]
    site.api.join(site.pilots[0], 7)
    site.look()
    assert site.problem() is None


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("PartitionTimeLimit", "less `--time`"),
        ("QOSMaxWallDurationPerJobLimit", "less `--time`"),
        ("QOSMaxGRESPerJob", "less `--gpus`"),
        ("AccountNotAllowed", "--account=NAME"),
        ("JobHeldAdmin", "scontrol release"),
        ("AssocMaxGRESMinutesPerJob", "less `--gpus`"),
        ("AssocGrpWallLimit", "no hours left"),
        ("InvalidAccount", "no such account or QOS for you any more"),
        ("QOSMinGRES", "more `--gpus`"),
        ("launch failed requeued held", "scontrol release"),
    ],
)
def test_a_reason_that_time_alone_does_not_change_comes_with_its_fix(site: Site, reason: str, fix: str) -> None:
    site.slurm.reason, site.api.waiting = reason, 1
    site.look()
    site.look()
    said = site.problem()
    assert said["problem"] == f"Slurm does not start job 1: {reason}."
    assert fix in said["fix"]


def test_a_reason_that_ends_with_the_jobs_that_run_keeps_no_other_pilot_from_being_requested(site: Site) -> None:
    site.slurm.reason, site.api.waiting = "AssocGrpGRESRunMinutes", 1
    site.look()
    site.look()
    assert site.problem() is None
    site.api.waiting = 2
    site.look()
    assert site.slurm.submitted == 2


@pytest.mark.parametrize("wrong", ["refused", "stuck"])
def test_jobs_that_a_pool_gets_no_pilot_for_are_left_to_the_next_pool(site: Site, wrong: str) -> None:
    pool.add(site.home, Pool(name="second", most=3, sbatch=("--partition=other",)))
    submit, jobs = site.slurm.submit, site.slurm.jobs

    def of_second(script: str, options: list[str]) -> int:
        if wrong == "refused" and "--job-name=gpuq-slurm" in options:
            raise BadInput("Invalid account")
        return submit(script, options)

    def first_is_stuck(ids: set[int]) -> dict[int, SlurmJob]:
        reasons = {1: "AssocGrpGRESMinutes"} if wrong == "stuck" else {}
        return {number: SlurmJob(number, "PENDING", reasons.get(number, "Resources")) for number in jobs(ids)}

    site.slurm.submit, site.slurm.jobs, site.api.waiting = of_second, first_is_stuck, 1  # type: ignore[method-assign]
    for _ in range(4):
        site.look(after_s=31)
    pools = sorted(one.pool for one in PilotFolders(site.home).read())
    assert pools == (["second", "slurm"] if wrong == "stuck" else ["second"])
    site.api.waiting = 0
    site.stay(60)
    assert site.pilots == []
