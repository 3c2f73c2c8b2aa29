"""A policy that a site added, real processes, several devices, and a job that is stopped for another and goes on later."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.end_to_end.test_ring import gpuq, show
from tests.support.site import Site, wait_for

SAVES = Path(__file__).with_name("saves.py")

URGENT = """
from gpuq.core.scheduling.policy import Eviction
from gpuq.policies.lists.packed import packed
from gpuq.policies.spec import PolicySpec


def urgent(board):
    yield from packed(board)
    for job in board.waiting:
        if job.priority > 0 and not board.placed(job):
            for attempt in board.state.attempts.values():
                if board.state.jobs[attempt.id.job].priority < job.priority:
                    yield Eviction(attempt.id, job)


def stuck(board):
    while True:
        pass


URGENT = PolicySpec("stops whoever is less urgent", lambda scheduling: urgent)
STUCK = PolicySpec("thinks for ever", lambda scheduling: stuck)
"""


@pytest.fixture
def package(tmp_path: Path) -> str:
    """A folder for PYTHONPATH that holds what `pip install` of a site's own package leaves: one file, and its entry points."""
    (tmp_path / "site_policies.py").write_text(URGENT)
    about = tmp_path / "site_policies-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: site-policies\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[gpuq.policies]\nurgent = site_policies:URGENT\nstuck = site_policies:STUCK\n"
    )
    return str(tmp_path)


def with_policy(package: str, policy: str, **settings: object) -> Site:
    site = Site(
        scheduling_policy=policy, devices_cpu_cores=1, admission_utilization_pct=400, admission_risk=1, **settings
    )
    site.env["PYTHONPATH"] = package
    return site


def test_a_job_is_stopped_for_a_more_urgent_one_saves_its_work_and_goes_on_later(package: str, tmp_path: Path) -> None:
    with with_policy(package, "urgent", devices_cpu_count=1) as site:
        checkpoint = tmp_path / "checkpoint"
        submit = ("submit", "--parsable", "--signal", "USR1", "--python", sys.executable)
        long = gpuq(site, *submit, str(SAVES), "120", str(checkpoint)).strip()
        wait_for(lambda: "begins" in gpuq(site, "logs", long), 30)

        urgent = gpuq(site, "submit", "--parsable", "-p", "10", "--", "/bin/sleep", "1").strip()
        gpuq(site, "wait", urgent)
        gpuq(site, "wait", long)

        stopped, finished = show(site, long)["attempts"]
        assert (stopped["ending"], stopped["exit_code"]) == ("stopped", 0)
        assert (finished["ending"], finished["exit_code"]) == ("exited", 0)
        step = int(checkpoint.read_text())
        assert 0 < step < 120
        assert gpuq(site, "logs", long).splitlines() == [f"attempt 2 begins at step {step}", "trained"]
        assert show(site, urgent)["started_at"] < finished["started_at"]
        assert json.loads(gpuq(site, "policy", "--json"))["serving"] == "urgent"


def test_a_job_on_two_devices_has_the_cores_of_both_also_where_the_policy_is_misspelt(package: str) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this machine has one core")
    with with_policy(package, "urgnet", devices_cpu_count=2, worker_sample_every_s=0.25) as site:
        code = "import os, time; print(sorted(os.sched_getaffinity(0))); time.sleep(1)"
        job = gpuq(site, "submit", "--parsable", "--gpus", "2", "--", sys.executable, "-c", code).strip()
        gpuq(site, "wait", job)

        found = show(site, job)
        assert len(found["devices"]) == 2
        assert len(json.loads(gpuq(site, "logs", job))) == 2
        assert found["kind"].endswith(" x2")
        assert found["actual"]["peak_memory_bytes"] > 0
        refused = site.request("POST", "/api/v1/jobs", {"command": ["x"], "cwd": "/", "gpus": 3})
        assert (refused[0], refused[1]["exit_code"]) == (409, 7)
        assert "The policy `urgnet` is replaced by `packed`: there is no policy `urgnet`" in site.output.read_text()


def test_a_policy_that_never_returns_delays_no_job(package: str) -> None:
    with with_policy(package, "stuck", devices_cpu_count=1, scheduling_policy_time_limit_s=0.3) as site:
        job = site.submit("/bin/true")
        assert site.wait(job, within_s=30)["state"] == "COMPLETED"

        policy = json.loads(gpuq(site, "policy", "--json"))
        assert (policy["chosen"], policy["serving"]) == ("stuck", "packed")
        assert "policy_time_limit_s = 0.3" in policy["fault"]["reason"]
        assert "`stuck` is replaced by `packed`" in gpuq(site, "doctor", code=1)
        assert "is replaced by" in (site.home / "logs" / "dispatcher.log").read_text()
