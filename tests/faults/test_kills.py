"""SIGKILL at random moments of a busy run: nothing acknowledged is lost, nothing runs twice, nothing dies with us.

The oracle is what the jobs themselves wrote to disk, compared with what the API answered.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import redis

from tests.support.site import Site, wait_for

JOB = Path(__file__).with_name("ledger_job.py")
PARTS = ("dispatcher", "worker", "orders", "redis", "api")


class Run:
    """Submits steadily in one thread while another breaks things: two jobs are submitted for each fault."""

    def __init__(self, site: Site, jobs: int, seed: int) -> None:
        self.site = site
        self.ledger = site.home / "ledger"
        self.jobs = jobs
        self.chance = random.Random(seed)
        self.due = threading.Semaphore(0)
        self.acknowledged: list[int] = []
        self.kills: Counter[str] = Counter()

    def submit_all(self) -> None:
        for number in range(self.jobs):
            self.due.acquire()
            seconds = f"{0.1 + 0.4 * (number % 5) / 4:.1f}"
            command = (sys.executable, "-I", "-S", str(JOB), str(self.ledger), seconds)
            self.acknowledged.append(self.site.submit(*command, key=f"job {number}"))

    def break_things(self, times: int) -> None:
        """So many faults and more, until each part was killed."""
        while sum(self.kills.values()) < times or not set(+self.kills) >= set(PARTS):
            assert self.site.is_up(), self.site.output.read_text()
            self.due.release(2)
            part = self.chance.choice((*PARTS, "flush"))
            if part == "flush":
                self.kills[part] += self._flush()
            else:
                self.kills[part] += self.site.kill(part)
            # The test's own rhythm of faults: most come while the services killed before them start again, the others as soon
            # as jobs run again.
            if self.chance.random() < 0.75:
                time.sleep(self.chance.uniform(0, 0.2))
            else:
                self._wait_for_jobs(2.0)
        self.due.release(self.jobs)

    def _wait_for_jobs(self, at_most_s: float) -> None:
        """Wait until the next job starts or ends, if one does."""
        before, deadline = len(self.lines()), time.monotonic() + at_most_s
        while len(self.lines()) == before and time.monotonic() < deadline:
            time.sleep(0.02)

    def _flush(self) -> int:
        try:
            redis.Redis(unix_socket_path=str(self.site.home / "run" / "redis.sock")).flushall()
        except redis.RedisError:
            return 0
        return 1

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []


def check(run: Run, within_s: float) -> None:
    """Every acknowledged job completed; each started once, in one attempt, and ended."""
    for job in run.acknowledged:
        found = run.site.wait(job, within_s=within_s)
        assert found["state"] == "COMPLETED", found
    said = run.lines()
    starts = Counter(int(job) for what, job, _ in said if what == "start")
    ends = Counter(int(job) for what, job, _ in said if what == "end")
    assert [line for line in said if line[0] == "double"] == []
    assert sorted(run.acknowledged) == sorted(set(run.acknowledged)), "a retried submission is the same job"
    assert starts == Counter(run.acknowledged), "each acknowledged job started exactly once"
    assert ends == starts, "no job was killed by our own deaths"


def torment(site: Site, jobs: int, kills: int, seed: int) -> Run:
    run = Run(site, jobs, seed)
    submitting = threading.Thread(target=run.submit_all, daemon=True)
    submitting.start()
    run.break_things(kills)
    submitting.join(120)
    assert not submitting.is_alive()
    return run


def test_thirty_kills_in_a_busy_run_lose_nothing_and_double_nothing(site: Site) -> None:
    run = torment(site, jobs=40, kills=30, seed=20)
    check(run, within_s=90)
    assert sum(run.kills.values()) >= 30
    assert set(+run.kills) >= set(PARTS), "every part was killed at least once"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_a_long_torment(seed: int) -> None:
    with Site(interpreters=True, devices_cpu_count=2, devices_cpu_cores=1) as site:
        check(torment(site, jobs=300, kills=200, seed=seed), within_s=300)


def test_everything_killed_at_once_comes_back_with_the_next_up(site: Site) -> None:
    """Two jobs run, and run on while no part of gpuq is there; a third one waits."""
    go_on = site.home / "go on"
    command = ("/bin/sh", "-c", f"until [ -e '{go_on}' ]; do sleep 0.1; done")
    running = [site.submit(*command) for _ in range(2)]
    for job in running:
        site.wait(job, "RUNNING")
    waiting = site.submit(*command)
    for part in ("up", *PARTS):
        site.kill(part)
    wait_for(lambda: not any(site.pids(part) for part in PARTS), 10)

    site.up()

    assert [site.job(job)["state"] for job in (*running, waiting)] == ["RUNNING", "RUNNING", "PENDING"]
    go_on.touch()
    for job in (*running, waiting):
        assert site.wait(job)["state"] == "COMPLETED"
        assert len(site.job(job)["attempts"]) == 1
