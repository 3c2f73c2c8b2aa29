"""Pilots that do not report: how often Slurm is asked about them, and what follows where they have ended."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from gpuq_workers import last_events

from gpuq.home import Home
from gpuq.pools import pool
from gpuq.pools.pilots import PilotFolders
from gpuq.pools.pool import Pool
from tests.pools.site import Site


def test_slurm_is_not_asked_about_pilots_that_report(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    site.api.join(site.pilots[0], 7)
    site.api.waiting = 0
    for _ in range(5):
        site.look()
    assert site.slurm.asked == 0


def test_slurm_is_asked_the_less_often_the_longer_a_pilot_has_waited(site: Site) -> None:
    site.api.waiting = 1
    for _ in range(8 * 120):
        site.look(after_s=30)
    assert site.slurm.submitted == 1
    assert 15 < site.slurm.asked < 35, "in eight hours"


def test_slurm_is_asked_the_less_often_the_longer_a_pilot_is_suspended(site: Site) -> None:
    name = site.requested()
    site.api.join(name, 7)
    site.api.waiting = 0
    site.look()
    at = datetime.fromtimestamp(site.now, UTC).isoformat()
    site.slurm.there[1] = "SUSPENDED"
    site.api.hosts[name] |= {"state": "silent", "reported_at": at}
    for _ in range(8 * 120):
        site.look(after_s=30)
    assert 15 < site.slurm.asked < 35, "in eight hours"
    assert site.api.hosts[name]["jobs"] == [7], "it goes on when it is resumed"


def test_the_jobs_of_a_pilot_that_ended_without_notice_are_ended_and_its_host_is_forgotten(site: Site) -> None:
    name = site.requested()
    site.api.join(name, 7)
    site.api.waiting = 0
    site.slurm.there.clear()
    site.look()
    assert site.api.hosts[name]["jobs"] == [7], "it reports, so it runs"
    site.api.hosts[name]["state"] = "silent"
    site.look()
    assert site.api.hosts[name]["jobs"] == [7], "one that was never started would be queued again"
    site.look()
    assert site.api.hosts[name]["jobs"] == []
    site.look()
    assert site.api.hosts == {}
    assert site.pilots == []


def test_a_pilot_that_slurm_ended_is_asked_for_its_last_ends_before_its_jobs_count_as_lost(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = site.requested()
    site.api.join(name, 7)
    site.api.waiting = 0
    read: list[tuple[Home, list[int]]] = []
    monkeypatch.setattr(last_events, "send", lambda home: read.append((home, site.api.hosts[name]["jobs"])))
    site.api.hosts[name]["state"] = "silent"
    site.look()
    assert read == [], "Slurm has the job"
    site.slurm.there.clear()
    site.look()
    assert read == [(Home(site.home.pilots / name / "gpuq"), [7])]


def test_a_pilot_that_ended_before_it_joined_is_replaced_a_minute_later(site: Site) -> None:
    name = site.requested()
    (site.home.pilots / name / "slurm.out").write_text("/opt/gpuq/bin/python: not found\n")
    site.slurm.there.clear()
    site.look()
    assert site.pilots == []
    assert site.problem() == {
        "at": site.now,
        "problem": "Slurm job 1 ended before it joined (FAILED, NonZeroExitCode, exit code 127:0, on n7). "
        "/opt/gpuq/bin/python: not found",
        "fix": "The nodes do not see this gpuq: install it in a folder that they share.",
    }
    site.look(after_s=3)
    assert site.slurm.submitted == 1
    site.look()
    assert site.slurm.submitted == 2
    site.api.join(site.pilots[0], 7)
    site.look()
    assert site.problem() is None


def test_a_pilot_that_slurm_ended_before_it_joined_says_nothing_against_the_nodes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.slurm, "ended", lambda job: "PREEMPTED, None, exit code 0:15, on n7")
    site.requested()
    site.slurm.there.clear()
    site.look()
    said = site.problem()
    assert said["fix"].startswith("Slurm ended it, not gpuq;")


def test_what_pilots_took_counts_for_the_hours_of_their_pool(site: Site) -> None:
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="slurm", most=3, time_limit_s=3600, most_hours=2))
    name = site.requested()
    site.api.join(name, 7)
    site.api.waiting = 0
    site.look()
    site.slurm.there.clear()
    site.api.hosts[name] |= {"state": "silent", "jobs": []}
    site.look(after_s=1.5 * 3600)
    site.restart()
    site.api.waiting = 1
    site.look()
    assert site.slurm.submitted == 1, "half an hour is left, and a pilot may take one"


@pytest.mark.parametrize("state", ["PENDING", "REQUEUE_HOLD"])
def test_a_pilot_that_slurm_ended_and_queued_again_is_gone_and_cancelled(site: Site, state: str) -> None:
    """As for a job of a higher priority, where the site's own plugin has set --requeue. It may wait there for days."""
    name = site.requested()
    site.slurm.there[1] = "RUNNING"
    site.api.join(name, 7)
    site.api.waiting = 0
    site.look()
    site.slurm.there[1] = state
    site.api.hosts[name]["state"] = "silent"
    site.stay(90)
    assert site.slurm.cancelled == [1]
    assert (site.api.hosts, site.pilots) == ({}, [])


def test_a_pilot_that_is_gone_has_no_room_and_is_removed_without_asking_slurm_again(site: Site) -> None:
    dead = site.requested()
    site.api.join(dead)
    site.look(after_s=3)
    site.api.hosts[dead] |= {"state": "silent", "jobs": [7]}
    del site.slurm.there[1]
    site.look(after_s=31)
    assert site.slurm.submitted == 2
    asked = site.slurm.asked
    for _ in range(8):
        site.look(after_s=3)
    assert site.slurm.cancelled == [], "the job that waits counts on the new one"
    assert site.slurm.asked == asked
    site.look(after_s=9)
    assert site.api.hosts[dead]["jobs"] == []
    site.look(after_s=3)
    assert dead not in site.api.hosts


def test_a_pilot_whose_request_slurm_took_without_answering_is_found_by_its_folder(site: Site) -> None:
    site.slurm.loses, site.api.waiting = "answer", 1
    site.look()
    site.slurm.loses = None
    site.stay(90)
    (pilot,) = PilotFolders(site.home).read()
    assert (pilot.slurm_job, site.slurm.submitted) == (1, 1)
    site.api.waiting = 0
    site.stay(40)
    assert (site.slurm.there, site.pilots) == ({}, [])


def test_a_pilot_that_joined_before_its_number_was_known_ends_when_it_is_idle(site: Site) -> None:
    site.slurm.loses, site.api.waiting = "answer", 1
    site.look()
    site.restart()  # as if it had been killed while it waited for the answer
    (name,) = site.pilots
    site.slurm.there[1], site.api.waiting = "RUNNING", 0
    site.api.join(name)
    site.look(after_s=3)
    site.look_idle()
    assert site.slurm.cancelled == [1]


def test_a_slurm_job_that_runs_and_does_not_join_is_ended_with_the_reason(site: Site) -> None:
    name = site.requested()
    site.slurm.there[1] = "RUNNING"
    (site.home.pilots / name / "slurm.out").write_text("hangs\n")
    site.stay(200)
    assert site.slurm.cancelled == []
    site.stay(200)
    assert site.slurm.cancelled == [1]
    said = site.problem()
    assert "Slurm job 1 has run for 3" in said["problem"]
    assert "did not join" in said["problem"]
    assert "reach this host at login:1" in said["fix"]


def test_a_pilot_that_got_more_gpus_than_asked_for_is_charged_for_all(site: Site) -> None:
    name = site.requested()
    site.api.join(name, 7)
    site.api.hosts[name]["devices"] = 2
    site.look()
    (pilot,) = PilotFolders(site.home).read()
    assert pilot.gpus == 2


def test_a_pilot_that_was_cancelled_before_it_started_says_nothing_against_the_nodes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.slurm, "ended", lambda job: "CANCELLED, Resources, exit code 0:0")
    site.requested()
    site.slurm.there.clear()
    site.look()
    said = site.problem()
    assert said["problem"].endswith("(CANCELLED, Resources, exit code 0:0). Slurm had not started it.")
