"""A row of pilots that end by scancel, by SIGKILL, at their time limit, with their node, and while Slurm's controller restarts.

Its lines are in docs/measurements/slurm, and it goes on where another session left it, as rows of tests/fleet do. The count is of
pilots: `pytest -m slurm tests/slurm/test_pilot_ends.py -s --count 200 --budget 3000`. The logs of a repetition that had a
fault are kept in build/slurm.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.rows import ROOT, Row
from tests.slurm.user import User, user_of_cluster
from tests.support.site import wait_for

pytestmark = pytest.mark.slurm
LASTS_S, IDLE_S, PILOTS = 12.0, 20.0, 8
LEDGER_JOB = """
import os, sys, time
def note(what):
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.environ['GPUQ_JOB_ID']} {os.getpid()} {what} {time.time()}\\n")
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    note("runs")
    time.sleep(0.5)
note("ended")
os._exit(0)
"""


@pytest.fixture
def user() -> Iterator[User]:
    with user_of_cluster(nodes=2, gpus=4) as user:
        (user.home / "ledger.py").write_text(LEDGER_JOB)
        options = ("--max", str(PILOTS), "--idle", f"{IDLE_S:.0f}s", "--time", "10m", "--scaling", "eager")
        # Not in its folder, of which only the logs of jobs stay when a pilot has ended.
        added = user.gpuq("pool", "add", "slurm", *options, "--", f"--output={user.home / 'slurm-%j.out'}")
        # On a machine with a load of thirty, half a minute may not be enough.
        if "did not start within" in added.stderr:
            wait_for(lambda: user.gpuq("up", "-d").returncode == 0, 300)
        else:
            assert added.returncode == 0, added.stderr
        yield user


@pytest.mark.parametrize("how", ["scancel", "killed", "time_limit", "node_failure", "controller"])
def test_pilots_that_end(how: str, user: User, request: pytest.FixtureRequest) -> None:
    config = request.config
    row = Row(
        f"pilots-{how}", config.getoption("--count") or 2, config.getoption("--seed"), config.getoption("--budget"),
        ROOT / "docs/measurements/slurm",
    )  # fmt: skip

    def story(chance: random.Random, times: int) -> dict[str, Any]:
        try:
            return _repetition(user, how, chance, times)
        except Exception:
            user.keep_logs(ROOT / f"build/slurm/{how}-{datetime.now(UTC):%m%dT%H%M%S}")
            raise

    row.repeat(story, at_once=PILOTS)
    # With no job left, each pilot ends when it has been idle for long enough.
    wait_for(lambda: not user.pilots(), IDLE_S + 120)
    wait_for(lambda: user.json("host") == [], 120)


def _repetition(user: User, how: str, chance: random.Random, times: int) -> dict[str, Any]:
    """So many jobs with a pilot each, whose pilots end while they run. Half of the jobs may start again."""
    ledger = user.home / f"ledger-{time.time_ns()}"
    words = ["--parsable", "--exclusive"]
    jobs = {
        user.gpuq(
            "submit", *words, *(["--requeue"] if n % 2 else []), "ledger.py", str(ledger), str(LASTS_S)
        ).stdout.strip(): bool(n % 2)
        for n in range(times)
    }
    wait_for(lambda: len(_runs(ledger)) >= max(1, times // 2), 180)
    time.sleep(chance.uniform(0, 5))
    ended_at = time.monotonic()
    hit = _end_pilots(user, how, chance)
    over = {"COMPLETED", "NODE_FAIL", "FAILED", "CANCELLED", "TIMEOUT"}
    wait_for(lambda: all(user.state(job) in over for job in jobs), 400)
    runs = _runs(ledger)
    for job, requeues in jobs.items():
        state, ends = user.state(job), sum(ended for *_, ended in runs[job])
        assert state == "COMPLETED" or (state == "NODE_FAIL" and not requeues and how != "controller"), (job, state)
        assert ends == (state == "COMPLETED"), f"job {job} is {state} and came to its end {ends} times"
        for (_, last, _), (first, *_) in pairwise(sorted(runs[job])):
            assert last <= first, f"job {job} ran twice at the same time"
    again = sum(len(runs[job]) > 1 for job in jobs)
    return {"pilots": hit, "again": again, "done_after_s": round(time.monotonic() - ended_at, 1)}


def _end_pilots(user: User, how: str, chance: random.Random) -> int:
    """End the pilots that run; returns how many."""
    running = user.cluster.run("squeue", "--noheader", "--states=RUNNING", "--format=%i %N").splitlines()
    pilots = dict(line.split() for line in running)
    match how:
        case "scancel":
            user.cluster.run("scancel", *pilots)
        case "killed":
            user.cluster.run("scancel", "--signal=KILL", "--full", *pilots)
        case "time_limit":
            for pilot in pilots:
                user.cluster.run("scontrol", "update", f"JobId={pilot}", "TimeLimit=1", check=False)
        case "node_failure":
            node = chance.choice(user.cluster.names)
            there = [pilot for pilot, of in pilots.items() if of == node]
            user.cluster.kill_node(node, [f"pilots/{name}" for name in _names(user, there)])
            user.cluster.start_node(node)
            return len(there)
        case "controller":
            user.cluster.restart_controller(chance.uniform(1, 20))
    return len(pilots)


def _names(user: User, slurm_jobs: list[str]) -> list[str]:
    pools = user.json("pool")["pools"]  # type: ignore[index]
    return [pilot["name"] for pool in pools for pilot in pool["pilots"] if str(pilot["slurm_job"]) in slurm_jobs]


def _runs(ledger: Path) -> dict[str, list[tuple[float, float, bool]]]:
    """Of each job its runs: when it was first and last seen, and whether it came to its end."""
    seen: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for line in ledger.read_text().splitlines() if ledger.exists() else []:
        job, pid, what, at = line.split()
        seen[job, pid].append((what, float(at)))
    found: dict[str, list[tuple[float, float, bool]]] = defaultdict(list)
    for (job, _), notes in seen.items():
        found[job].append((notes[0][1], notes[-1][1], notes[-1][0] == "ended"))
    return found
