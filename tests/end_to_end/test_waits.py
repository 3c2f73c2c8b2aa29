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


def run(site: Site, *words: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return forked.gpuq(*words, env={**site.env, **env}, cwd=site.home)


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


def test_tasks_wait_for_their_corresponding_ones_and_a_job_for_a_start(site: Site) -> None:
    out, gate = site.home / "tasks", site.home / "started"
    waits = submit(site, "--", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done")
    opens = submit(site, "--after", f"start:{waits}", "--", "touch", str(gate))
    task = f"echo first {{task}} >> {out}; [ {{task}} != 1 ]"
    first = submit(site, "--array", "0-2", "--hold", "--", "sh", "-c", task)
    second = submit(
        site, "--array", "0-2", "--after", f"corr:{first}", "--", "sh", "-c", f"echo second {{task}} >> {out}"
    )
    some = submit(
        site, "--array", "0-2:2", "--after", f"corr:{first}", "--", "sh", "-c", f"echo some {{task}} >> {out}"
    )
    after = f"any:{first}_1-2,ok:{second}_[0,2],ok:{some}"
    last = submit(site, "--after", after, "--", "sh", "-c", f"echo last >> {out}")
    run(site, "release", str(first))
    assert [site.wait(job)["state"] for job in (waits, opens, some, some + 1, last)] == ["COMPLETED"] * 5
    assert [site.wait(second + place)["state"] for place in range(3)] == ["COMPLETED", "CANCELLED", "COMPLETED"]
    assert site.job(second + 1)["reason"] == f"it waited for ok:{first + 1}, which can never hold any more"
    lines = out.read_text().splitlines()
    assert sorted(lines) == ["first 0", "first 1", "first 2", "last", "second 0", "second 2", "some 0", "some 2"]
    assert next(line for line in lines if line.endswith(" 2")) == "first 2"
    assert lines[-1] == "last"
    refused = run(site, "submit", "--array", "1-5", "--after", f"corr:{first}", "--", "true")
    assert (refused.returncode, refused.stderr.decode().splitlines()) == (
        3,
        [
            f"gpuq: Array {first} has no task 3 among those of `corr:{first}-{first + 2}`, so task 3 would wait for ever.",
            "  Its tasks are 0-2; submit the array with these.",
        ],
    )
    refused = run(site, "submit", "--after", f"start:{last + 1}", "--", "true")
    assert (refused.returncode, b"There is no job" in refused.stderr) == (3, True), "so no two wait for each other"


def test_a_job_that_waits_is_changed_by_options_and_in_an_editor(site: Site) -> None:
    gate, out = site.home / "edited-gate", site.home / "edited"
    blocker = submit(site, "--gpus", "2", "--", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done")
    site.wait(blocker, "RUNNING")
    first, second = (submit(site, "--gpus", "2", "--", "sh", "-c", f"echo {name} >> {out}") for name in "ab")
    array = submit(site, "--array", "0-3", "--hold", "--", "true")
    changed = run(site, "edit", str(second), "--priority", "5", "--time-limit", "4h", "--max-slowdown", "1.3")
    assert changed.returncode == 0, changed.stderr
    assert changed.stderr.decode().splitlines() == [
        f"Job {second} changed.",
        f"  To take it back: gpuq edit {second} --priority 0 --max-slowdown default --time default",
    ]
    assert [site.job(second)[name] for name in ("priority", "time_limit_s", "max_slowdown")] == [5, 14400.0, 1.3]

    editor = site.home / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/^name = .*/name = \"from the editor\"/; s/^time = .*//' $1\n")
    editor.chmod(0o755)
    assert run(site, "edit", str(second), EDITOR=str(editor)).returncode == 0
    assert [site.job(second)[name] for name in ("name", "time_limit_s", "priority")] == ["from the editor", None, 5]
    assert run(site, "edit", str(second), EDITOR="true").stderr == b"Nothing was changed.\n"

    refused = run(site, "edit", str(blocker), str(first), "-p", "9")
    assert refused.returncode == 6
    assert refused.stderr.decode().startswith(f"gpuq: Job {blocker} runs: priority cannot be changed any more.")
    assert site.job(first)["priority"] == 0
    editor.write_text("#!/bin/sh\necho 'priority = 1001' > $1\n")
    kept = run(site, "edit", str(first), EDITOR=str(editor))
    assert (kept.returncode, b"Your text is in /" in kept.stderr) == (2, True), kept.stderr

    assert run(site, "cancel", f"{array}_0").returncode == 0
    assert run(site, "edit", f"{array}_2-3", "--name", "two").returncode == 0
    assert run(site, "edit", str(array), "-p", "3", "--json").returncode == 0, "of those that can be changed"
    tasks = [site.job(array + number) for number in range(4)]
    assert [task["priority"] for task in tasks] == [0, 3, 3, 3]
    assert [task["name"] for task in tasks] == ["true", "true", "two", "two"]
    assert run(site, "cancel", str(array)).returncode == 0

    assert run(site, "edit", str(blocker), "-t", "1s").returncode == 0
    assert site.wait(blocker)["state"] == "TIMEOUT"
    assert {site.wait(job)["state"] for job in (first, second)} == {"COMPLETED"}
    assert out.read_text() == "b\na\n", "the higher priority first"


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


# Runs out of memory the first time, in the words of PyTorch.
FILLS = """
import pathlib, sys
tried = pathlib.Path(sys.argv[1])
if not tried.exists():
    tried.touch()
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
"""


def test_a_job_resumes_after_its_time_limit_and_another_after_its_failure(site: Site) -> None:
    tried = site.home / "tried"
    script = f"[ -e {tried} ] || {{ touch {tried}; exit 75; }}"
    failing = submit(site, "--retry", "exit=75:1", "--", "sh", "-c", script)
    filled = site.home / "filled"
    (site.home / "fill.py").write_text(FILLS)
    filling = submit(site, "--retry", "oom:1", "--gpu-mem", "100M", "fill.py", str(filled))
    (site.home / "resume.py").write_text(TRAINS)
    options = ("-t", "300s", "--signal", "USR1@299", "--requeue-on-timeout")
    job = submit(site, *options, "resume.py")
    end = site.wait(job)
    assert (end["state"], end["attempt"], end["retried"], end["preemptible"]) == ("COMPLETED", 3, [2], False)
    log = run(site, "logs", str(job), "--all-attempts").stdout.decode()
    assert [line for line in log.splitlines() if line.startswith("begins")] == [f"begins at {n}" for n in range(3)]
    end = site.wait(failing)
    assert (end["state"], end["attempt"], end["exit_code"]) == ("COMPLETED", 2, 0)
    end = site.wait(filling)
    assert (end["state"], end["attempt"], end["retried"]) == ("COMPLETED", 2, [1])
    assert end["raised_memory_bytes"] > end["declared_memory_bytes"] == 100 * 2**20
    (folder,) = (site.home / "checkpoints").iterdir()
    assert folder.name.startswith(f"{job}-")


def test_singletons_run_one_after_the_other(site: Site) -> None:
    ids = [submit(site, "--singleton", "--name", "night", "--", "sleep", "0.3") for _ in range(3)]
    ends = [site.wait(job) for job in ids]
    times = [(end["started_at_unix"], end["ended_at_unix"]) for end in ends]
    assert all(later[0] >= earlier[1] for earlier, later in pairwise(times)), times
    assert times[-1][1] <= time.time()
