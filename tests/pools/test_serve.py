"""One look of the process that keeps pools: which pilots are requested, taken back and ended."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from gpuq.errors import Unreachable
from gpuq.pools import pool
from gpuq.pools.pilots import PilotFolders
from gpuq.pools.pool import Pool
from tests.pools.site import Site


def test_pilots_are_requested_while_jobs_wait_and_taken_back_when_none_does(site: Site) -> None:
    site.api.waiting = 2
    site.look()
    site.look()
    assert site.slurm.submitted == len(site.pilots) == 2
    site.api.waiting = 0
    site.look()
    assert site.slurm.there == {}
    site.look()
    assert site.pilots == []


def test_a_pilot_that_slurm_started_just_before_it_was_taken_back_runs_on(site: Site) -> None:
    name = site.requested()
    site.slurm.there[1] = "RUNNING"
    site.api.waiting = 0  # the job has started there, and the hosts do not show it yet
    site.look(after_s=3)
    assert site.slurm.there == {1: "RUNNING"}
    site.api.join(name, 7)
    site.look(after_s=3)
    site.api.hosts[name]["jobs"] = []
    site.look(after_s=3)
    site.look_idle()
    assert site.slurm.cancelled == [1], "it ends when it is idle, as others do"


def test_jobs_that_come_do_not_count_on_a_pilot_that_was_taken_back(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    site.api.waiting = 0
    site.look(after_s=3)
    assert site.slurm.there == {}
    site.api.waiting = 1
    site.look(after_s=3)
    assert site.slurm.submitted == 2
    assert site.problem() is None


def test_a_restart_of_the_process_loses_no_pilot_and_requests_none_twice(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    site.restart()
    site.look()
    assert site.slurm.submitted == 1
    (record,) = PilotFolders(site.home).read()
    assert record.slurm_says == "Resources"


def test_a_pilot_is_cancelled_once(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.api.waiting = 0
    for _ in range(300):
        site.look(after_s=3)
    assert site.slurm.cancelled == [1]
    site.api.hosts.pop(name)
    pool.remove(site.home, "slurm")
    site.look()
    assert site.slurm.cancelled == [1]


def test_the_pilots_of_a_pool_that_was_removed_end(site: Site) -> None:
    site.api.waiting = 2
    site.look()
    pool.remove(site.home, "slurm")
    site.look()
    site.look()
    assert site.slurm.there == {}
    assert site.pilots == []


def test_the_logs_of_a_pilot_are_kept_for_a_month_and_nothing_else_of_it(site: Site) -> None:
    name = site.requested()
    attempts = site.home.attempts_of_pilot(name)
    (attempts / "7-1").mkdir(parents=True)
    (attempts / "7-1" / "output.log").write_text("hello")
    (attempts.parent / "spool").mkdir()
    site.api.waiting = 0
    site.look()
    site.look()
    left = sorted(str(path.relative_to(site.home.pilots)) for path in site.home.pilots.glob("**/*") if path.is_file())
    assert left == [f"{name}/gpuq/attempts/7-1/output.log"]
    site.now = time.time() + 31 * 86_400
    site.look()
    assert not (site.home.pilots / name).exists()


def test_an_idle_pilot_is_drained_and_ends_unless_a_job_came_meanwhile(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.api.waiting = 0
    site.look()
    site.stay(590)
    assert site.api.hosts[name]["drained"] is None
    site.look(after_s=20)
    assert site.api.hosts[name]["drained"]
    site.api.hosts[name]["jobs"] = [8]
    site.look(after_s=3)
    assert site.api.hosts[name]["drained"] is None
    assert site.slurm.there
    site.api.hosts[name]["jobs"] = []
    site.look(after_s=3)
    site.look_idle()
    assert site.slurm.there == {}


def test_jobs_that_wait_for_no_device_request_none(site: Site) -> None:
    site.api.waiting, site.api.rule = 3, "BeginTime"
    site.look()
    assert site.slurm.submitted == 0
    site.api.rule = "NoDevices"
    site.look()
    assert site.slurm.submitted == 3


def test_a_job_behind_a_thousand_that_wait_for_others_requests_a_pilot(site: Site) -> None:
    site.api.dependent, site.api.waiting = 2500, 1
    site.look()
    assert site.slurm.submitted == 1


def test_a_job_for_which_the_hosts_of_now_have_too_few_devices_requests_a_pilot(site: Site) -> None:
    site.api.waiting, site.api.rule, site.api.numbers = 1, "NeverFits", {"needed_bytes": 2**40, "missing_bytes": 2**39}
    site.look()
    assert site.slurm.submitted == 0, "none would have a larger GPU"
    site.api.numbers = {"wanted_devices": 2, "devices_per_host": 1}
    site.look()
    assert site.slurm.submitted == 1


def test_a_pilot_that_ends_idle_though_jobs_wait_is_not_replaced_for_ten_minutes(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.look()
    site.look_idle()
    assert site.slurm.there == {}, "jobs that wait do not start there"
    site.api.hosts.pop(name)
    site.look()
    assert (site.pilots, site.slurm.submitted) == ([], 1)
    site.look(after_s=600)
    assert site.slurm.submitted == 2


def test_a_pilot_that_ends_idle_while_a_dead_one_holds_its_device_is_replaced_at_once(site: Site) -> None:
    dead = site.requested()
    site.api.join(dead, 7)
    site.look()
    site.api.hosts[dead] |= {"state": "silent"}
    site.slurm.there[1] = "RUNNING"
    site.look(after_s=3)
    (name,) = set(site.pilots) - {dead}
    site.api.join(name)
    for _ in range(250):
        site.look(after_s=3)
    assert name not in site.pilots or site.slurm.cancelled == [2], "no longer than it may be idle"
    site.api.hosts.pop(name)
    site.look()
    site.look(after_s=3)
    assert site.slurm.submitted == 3


def test_a_pilot_that_ends_idle_because_no_job_waits_says_nothing_about_the_next_one(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.api.waiting = 0
    site.look()
    site.look_idle()
    site.api.hosts.pop(name)
    site.api.waiting = 1
    site.look()
    assert site.slurm.submitted == 2


def test_a_pilot_whose_jobs_were_shorter_than_a_look_has_worked(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    (site.home.attempts_of_pilot(name) / "7-1").mkdir(parents=True)
    site.look()
    site.look_idle()
    site.api.hosts.pop(name)
    site.look()
    site.look(after_s=3)
    assert site.slurm.submitted == 2, "the next one is requested at once"


def test_a_pilot_that_can_start_no_job_has_no_room_and_ends_when_it_is_idle(site: Site) -> None:
    """As one whose node has no space left. It is heard, so Slurm is not asked."""
    name = site.requested()
    site.api.join(name)
    site.api.hosts[name]["state"] = "failing"
    site.slurm.there[1] = "RUNNING"
    site.look(after_s=3)
    assert (site.slurm.submitted, site.slurm.asked) == (2, 0)
    site.stay(600)
    site.look_idle()
    assert 1 in site.slurm.cancelled


def test_a_pilot_that_an_admin_drained_has_no_room(site: Site) -> None:
    name = site.requested()
    site.api.join(name, 7)
    site.api.hosts[name] |= {"devices": 2, "state": "drained", "drained": "the fan is loud"}
    site.look(after_s=3)
    assert site.slurm.submitted == 2


@pytest.mark.parametrize(("promised", "pilots"), [(20, 1), (80, 2)])
def test_thrifty_requests_no_pilot_for_a_job_that_may_run_beside_another_before_that_ends(
    site: Site, promised: int, pilots: int
) -> None:
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="slurm", most=3, scaling="thrifty"))
    name = site.requested()
    site.api.forecast = {"peak_utilization_pct": 30.0, "duration_p50_s": 600.0}
    started = datetime.fromtimestamp(site.now, UTC).isoformat()
    site.api.resident = {"forecast": site.api.forecast, "started_at": started, "promised_bytes": promised}
    site.api.join(name, 7)
    site.look()
    assert site.slurm.submitted == pilots


def test_a_pilot_has_as_many_gpus_as_the_waiting_jobs_need(site: Site) -> None:
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="slurm", gpus=4, most=3))
    site.api.waiting = 6
    site.look()
    assert [option for options in site.slurm.options for option in options if "gres" in option] == [
        "--gres=gpu:4",
        "--gres=gpu:2",
    ]


def test_jobs_that_no_pilot_of_any_pool_can_run_are_said_while_they_wait(site: Site) -> None:
    """As one whose kind may take longer than the pilots last, by its forecast."""
    site.api.waiting, site.api.forecast = 1, {"duration_p90_s": 5 * 3600.0}
    site.look()
    assert site.slurm.submitted == 0
    assert "may take longer than it lasts" in site.problem("all pools")["problem"]
    pool.add(site.home, Pool(name="long", time_limit_s=6 * 3600.0))
    site.look()
    assert (site.slurm.submitted, site.problem("all pools")) == (1, None)


def test_a_second_pool_requests_pilots_only_for_what_the_first_cannot_run(site: Site) -> None:
    pool.add(site.home, Pool(name="other", most=3))
    site.api.waiting = 4
    site.look()
    assert sorted(name.rpartition("-")[0] for name in site.pilots) == ["other", "slurm", "slurm", "slurm"]


def test_a_job_over_two_hosts_gets_two_pilots(site: Site) -> None:
    site.api.waiting, site.api.hosts_wanted = 1, 2
    site.look()
    assert site.slurm.submitted == 2


def test_a_pilot_on_which_a_waiting_job_would_not_end_in_time_does_not_count_for_it(site: Site) -> None:
    name = site.requested()
    site.api.join(name, until_at=site.now + 1800)
    site.api.limit_s = 1700.0
    site.look()
    assert site.slurm.submitted == 1
    site.api.limit_s = 3000.0
    site.look()
    assert site.slurm.submitted == 2


def test_a_restart_of_the_process_does_not_give_an_idle_pilot_more_time(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.api.waiting = 0
    site.look()
    site.stay(400)
    site.restart()
    site.stay(210)
    site.look(after_s=3)
    assert site.slurm.there == {}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pilot_is_not_idle_while_the_dispatcher_is_away(site: Site, restarted: bool) -> None:
    name = site.requested()
    site.api.join(name)
    site.look(after_s=3)
    site.api.away = True
    for _ in range(30):
        with pytest.raises(Unreachable):
            site.look()
    site.api.away = False
    if restarted:
        site.restart()
    site.stay(30)
    assert (site.slurm.cancelled, site.api.hosts[name]["drained"]) == ([], None), "its first job may be on its way"
    site.look_idle()
    assert site.slurm.cancelled == [1], "the dispatcher is back, and has nothing for it"


def test_a_pilot_is_not_idle_while_the_dispatcher_does_not_hear_it(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.look(after_s=3)
    site.api.hosts[name]["state"], site.slurm.there[1] = "silent", "RUNNING"
    site.stay(1200)
    assert 1 not in site.slurm.cancelled
    site.api.hosts[name]["state"] = "ok"
    site.api.waiting = 0
    site.stay(590)
    assert 1 not in site.slurm.cancelled
    site.stay(30)
    assert 1 in site.slurm.cancelled
