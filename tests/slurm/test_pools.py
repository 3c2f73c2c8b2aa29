"""Jobs in pilots: a real Slurm with one node and eight emulated GPUs, and the real commands."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from tests.slurm.user import User, user_of_cluster
from tests.support.site import wait_for

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with user_of_cluster(nodes=1, gpus=8) as user:
        yield user


def test_a_pool_that_slurm_would_refuse_is_refused_in_slurms_words(user: User) -> None:
    done = user.gpuq("pool", "add", "slurm", "--", "--partition=nope")
    assert done.returncode == 2
    assert "invalid partition specified: nope" in done.stderr
    assert user.gpuq("pool").stdout.startswith("There is no pool")


def test_two_commands_run_a_job_in_an_allocation_that_ends_when_it_is_idle(user: User) -> None:
    options = ("--gpus", "2", "--max", "2", "--idle", "20s", "--time", "10m")
    began = time.time()
    added = user.gpuq("pool", "add", "slurm", *options)
    assert added.returncode == 0, added.stderr
    job = user.submit(1)
    assert user.gpuq("wait", job).returncode == 0
    assert len(user.pilots()) == 1
    assert "runs in GPU-" in user.gpuq("logs", job).stdout
    started = datetime.fromisoformat(user.json("show", job)["started_at"]).timestamp()  # type: ignore[index]
    print(f"the first job ran {started - began:.1f} s after `gpuq pool add` began, from no gpuq at all")
    longer = user.submit(1, "--time", "20m")
    wait_for(lambda: "TimeLeft" in user.gpuq("explain", longer).stdout, 30)
    user.gpuq("cancel", longer)
    wait_for(lambda: not user.pilots(), 60)
    wait_for(lambda: user.json("host") == [], 60)
    assert "runs in GPU-" in user.gpuq("logs", job).stdout, "the log outlives the pilot"


def test_a_gang_gets_a_pilot_that_has_all_its_gpus(user: User) -> None:
    job = user.submit(1, "--gpus", "2")
    assert user.gpuq("wait", job).returncode == 0
    (attempt,) = user.json("show", job)["attempts"]  # type: ignore[index]
    assert len(attempt["devices"]) == 2
    assert len({device for device in user.gpuq("logs", job).stdout.split()[-1].split(",") if device}) == 2


def test_a_job_over_two_hosts_gets_two_pilots(user: User) -> None:
    job = user.submit(1, "--hosts", "2")
    assert user.gpuq("wait", job).returncode == 0
    hosts = {attempt["host"] for attempt in user.json("show", job)["attempts"]}  # type: ignore[index]
    assert len(hosts) == 2


def test_an_array_runs_in_few_pilots(user: User) -> None:
    array = user.submit(1, "--array", "1-12")
    assert user.gpuq("wait", array).returncode == 0
    assert len(user.pilots()) <= 2


def test_a_job_that_may_start_again_does_so_when_its_allocation_is_cancelled(user: User) -> None:
    # A limit, because a forecast from short runs on a machine with a load may be longer than a pilot lasts.
    job, other = (user.submit(600, *more, "--exclusive", "--time", "8m") for more in (["--requeue"], []))
    wait_for(lambda: (user.state(job), user.state(other)) == ("RUNNING", "RUNNING"), 90)
    user.cluster.run("scancel", *user.pilots())
    wait_for(lambda: user.state(other) == "NODE_FAIL", 60)
    wait_for(lambda: len(user.json("show", job)["attempts"]) == 2 and user.state(job) == "RUNNING", 300)  # type: ignore[index]
    assert user.gpuq("cancel", job).returncode == 0


def test_a_pilot_that_dies_without_notice_loses_no_job(user: User) -> None:
    job = user.submit(600, "--requeue", "--time", "8m")
    wait_for(lambda: user.state(job) == "RUNNING", 300)
    user.cluster.run("scancel", "--signal=KILL", "--full", *user.pilots())
    wait_for(lambda: len(user.json("show", job)["attempts"]) == 2 and user.state(job) == "RUNNING", 300)  # type: ignore[index]
    assert user.gpuq("cancel", job).returncode == 0


def test_a_job_that_ended_before_its_pilot_was_killed_has_ended_though_it_did_not_report_that(user: User) -> None:
    job = user.submit(15, "--requeue")
    wait_for(lambda: user.state(job) == "RUNNING", 300)
    attempt = user.json("show", job)["attempts"][0]  # type: ignore[index]
    folder = user.home / "h" / "pilots" / attempt["host"]
    for service in services_of(folder):
        os.kill(service, signal.SIGSTOP)
    wait_for((folder / "gpuq" / "attempts" / f"{job}-1" / "exit.json").exists, 30)
    user.cluster.run("scancel", "--signal=KILL", "--full", *user.pilots())
    wait_for(lambda: user.state(job) != "RUNNING", 120)
    assert user.state(job) == "COMPLETED"
    assert len(user.json("show", job)["attempts"]) == 1  # type: ignore[index]


def services_of(folder: Path) -> list[int]:
    """The worker services of the pilot with this folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with suppress(psutil.Error):
            if (process.info["cmdline"] or [])[-2:] == ["-m", "gpuq_workers"]:
                found += [process.pid] if process.environ().get("GPUQ_HOME") == str(folder / "gpuq") else []
    return found


def test_the_pilots_of_a_pool_that_is_removed_end(user: User) -> None:
    assert user.gpuq("pool", "remove", "slurm").returncode == 0
    wait_for(lambda: not user.pilots(), 90)
