"""Jobs that wait for others and for a moment, through the real command."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.support import forked
from tests.support.site import Site, wait_for


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(devices_cpu_count=2, devices_cpu_cores=1, worker_grace_s=1, admission_memory_headroom=0.95) as site:
        yield site


def run(site: Site, *words: str) -> subprocess.CompletedProcess[bytes]:
    return forked.gpuq(*words, env=site.env, cwd=site.home)


def submit(site: Site, *words: str) -> int:
    done = run(site, "submit", *words)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_chain_runs_in_its_order_and_what_cannot_come_is_cancelled(site: Site) -> None:
    out = site.home / "order"
    gate = site.home / "gate"
    script = f"until [ -e {gate} ]; do sleep 0.1; done; echo first >> {out}; exit 3"
    first = submit(site, "--begin", "now+1", "--", "sh", "-c", script)
    second = submit(site, "--after", "any:@-1", "--", "sh", "-c", f"echo second >> {out}")
    third = submit(site, "--after", f"ok:{first}", "--", "sh", "-c", f"echo never >> {out}")
    last = submit(site, "--after", f"{second},fail:{third}", "--", "sh", "-c", f"echo last >> {out}")
    graph = run(site, "graph").stdout.decode()
    assert f"└─ fail {last} sh  PENDING" in graph
    waits = f"waits: Dependency: it waits for job {second} to succeed, and for job {third} to end without success."
    wait_for(lambda: waits in " ".join(run(site, "explain", str(last)).stdout.decode().split()), 20)
    gate.touch()
    assert site.wait(last)["state"] == "COMPLETED"
    assert out.read_text() == "first\nsecond\nlast\n"
    cancelled = site.job(third)
    assert (cancelled["state"], cancelled["reason"]) == (
        "CANCELLED",
        f"it waited for ok:{first}, which can never hold any more",
    )
    refused = run(site, "submit", "--after", f"ok:{first}", "--", "true")
    assert refused.returncode == 6
    assert refused.stderr.decode().splitlines() == [
        f"gpuq: Job {first} has ended as FAILED, so `ok:{first}` can never hold.",
        f"  Leave it out, or wait for another end: any:{first} holds.",
    ]


TRAINS = """
import os, signal, sys, time
saved = os.path.join(os.environ["GPUQ_CHECKPOINT_DIR"], "epoch")
epoch = int(open(saved).read()) if os.path.exists(saved) else 0
print("begins at", epoch, flush=True)
def save(*_):
    open(saved, "w").write(str(epoch + 1))
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
while epoch < 2:
    time.sleep(0.1)
"""


def test_a_job_resumes_after_its_time_limit_and_another_after_its_failure(site: Site) -> None:
    tried = site.home / "tried"
    script = f"[ -e {tried} ] || {{ touch {tried}; exit 75; }}"
    failing = submit(site, "--retry", "exit=75:1", "--", "sh", "-c", script)
    (site.home / "resume.py").write_text(TRAINS)
    options = ("-t", "300s", "--signal", "USR1@299", "--requeue-on-timeout")
    job = submit(site, *options, "resume.py")
    end = site.wait(job)
    assert (end["state"], end["attempt"], end["retried"], end["preemptible"]) == ("COMPLETED", 3, [2], False)
    log = run(site, "logs", str(job), "--all-attempts").stdout.decode()
    assert [line for line in log.splitlines() if line.startswith("begins")] == [f"begins at {n}" for n in range(3)]
    end = site.wait(failing)
    assert (end["state"], end["attempt"], end["exit_code"]) == ("COMPLETED", 2, 0)
    (folder,) = (site.home / "checkpoints").iterdir()
    assert folder.name.startswith(f"{job}-")


def test_singletons_run_one_after_the_other(site: Site) -> None:
    ids = [submit(site, "--singleton", "--name", "night", "--", "sleep", "0.3") for _ in range(3)]
    ends = [site.wait(job) for job in ids]
    times = [(end["started_at_unix"], end["ended_at_unix"]) for end in ends]
    assert all(later[0] >= earlier[1] for earlier, later in pairwise(times)), times
    assert times[-1][1] <= time.time()
