"""gpuq itself in a Slurm job: a real Slurm, the real commands on another host than gpuq's own as far as they can tell."""

from __future__ import annotations

import stat
from collections.abc import Iterator

import pytest

from tests.slurm.user import User, user_of_cluster
from tests.support.site import wait_for

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with user_of_cluster(nodes=2, gpus=2) as user:
        yield user


def slurm_job(user: User) -> str:
    return user.cluster.run("squeue", "--noheader", "--name=gpuq", "--format=%i").strip()


def where(user: User) -> str:
    """What `gpuq up --in-slurm` says once gpuq runs."""

    def up() -> str | None:
        said = user.gpuq("up", "--in-slurm")
        return said.stdout if said.returncode == 0 else None

    return wait_for(up, 300)


def test_options_that_slurm_refuses_are_refused_in_its_words(user: User) -> None:
    done = user.gpuq("up", "--in-slurm", "--", "--partition=nope")
    assert done.returncode == 2
    assert "invalid partition specified: nope" in done.stderr
    assert not (user.home / "h" / "slurm.json").exists()


def test_gpuq_runs_in_a_slurm_job_that_commands_find_and_moves_when_its_time_is_up(user: User) -> None:
    user.gpuq("up", "--in-slurm", "--", "--nodelist=n0", "--time=20")
    job = slurm_job(user)
    assert f"Slurm job {job} on " in where(user)
    assert stat.S_IMODE((user.home / "h" / "slurm.json").stat().st_mode) == 0o600
    options = ("--max", "1", "--idle", "5m", "--time", "30m")
    added = user.gpuq("pool", "add", "slurm", *options)
    assert added.returncode == 0, added.stderr
    long = user.submit(1200)
    wait_for(lambda: user.state(long) == "RUNNING", 300)

    # Slurm's own hand at its limit: the signal that is asked for with --signal, and the job queues itself again.
    user.cluster.run("scancel", "--batch", "--signal=USR1", job)
    wait_for(lambda: "Restarts=1" in user.cluster.run("scontrol", "show", "job", job), 120)
    said = user.gpuq("queue")
    assert said.returncode == 4
    assert "gpuq up --in-slurm" in said.stderr
    # It would start two minutes later, after the time that Slurm leaves for the end of the first run.
    wait_for(lambda: "JobState=PENDING" in user.cluster.run("scontrol", "show", "job", job), 60)
    user.cluster.run("scontrol", "update", f"JobId={job}", "ReqNodeList=n1", "StartTime=now")
    assert f"Slurm job {job} on " in where(user)
    assert "NodeList=n1" in user.cluster.run("scontrol", "show", "job", job)

    assert user.state(long) == "RUNNING"
    assert user.gpuq("cancel", long).returncode == 0
    wait_for(lambda: user.state(long) == "CANCELLED", 120)
    short = user.submit(1)
    assert user.gpuq("wait", short).returncode == 0
    attempts = [attempt for one in (long, short) for attempt in user.json("show", one)["attempts"]]  # type: ignore[index]
    assert len(attempts) == 2
    assert len({attempt["host"] for attempt in attempts}) == 1, "the pilot has found gpuq at its new address"


def test_down_ends_the_slurm_job(user: User) -> None:
    done = user.gpuq("down", "--stop-jobs")
    assert done.returncode == 0, done.stderr
    assert slurm_job(user) == ""
    assert not (user.home / "h" / "slurm.json").exists()
    assert user.gpuq("queue").returncode == 4
