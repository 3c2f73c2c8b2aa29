"""The whole ring with real processes: submit, run alone, be measured, share, be measured again, learn."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked
from tests.support.site import MODULES, Site, wait_for

STEPS = Path(__file__).with_name("steps.py")


def gpuq(site: Site, *arguments: str, code: int = 0) -> str:
    """The real command, as a user runs it."""
    done = run(site, *arguments)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def run(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.gpuq(*arguments, env=site.env, cwd=site.home, text=True)


def show(site: Site, job: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gpuq(site, "show", job, "--json"))
    return found


@pytest.mark.quiet
def test_the_first_run_is_measured_the_next_two_share_and_the_cost_is_known() -> None:
    # What else this machine does must not decide the test: the rule on load has its own, in tests/core.
    with Site(
        window_s=1,
        worker_sample_every_s=0.2,
        devices_cpu_count=1,
        devices_cpu_cores=2,
        admission_utilization_pct=400,
        admission_risk=1,
    ) as site:
        submit = ("submit", "--parsable", "--python", sys.executable, str(STEPS))
        first = gpuq(site, *submit, "4").strip()
        gpuq(site, "wait", first)
        alone = show(site, first)
        assert alone["verdict"]["rule"] == "FirstRunExclusive"
        assert alone["forecast"]["peak_memory_bytes"] is None
        assert 5 < alone["actual"]["peak_utilization_pct"] < 60, "less than one of two cores"
        assert 25 < alone["actual"]["alone_rate"] < 60
        assert alone["actual"]["slowdown"] is None

        second, third = (gpuq(site, *submit, "4").strip() for _ in range(2))
        gpuq(site, "wait", second, third)

        for job, partner in ((second, third), (third, second)):
            found = show(site, job)
            assert found["forecast"]["evidence"].startswith("own history")
            assert found["forecast"]["upper_memory_bytes"] >= found["actual"]["peak_memory_bytes"] * 0.9
            assert found["actual"]["partners"] == [int(partner)]
            assert 0.7 < found["actual"]["slowdown"] < 1.6
        assert {show(site, job)["verdict"]["rule"] for job in (second, third)} == {"Idle", "Fits"}


@pytest.fixture(scope="module")
def home() -> Iterator[Site]:
    """A home in which the tests below start and end gpuq: a start costs more than all else of a story."""
    with closing(Site(devices_cpu_count=2, devices_cpu_cores=1, worker_grace_s=2)) as site:
        yield site


@pytest.fixture
def site(home: Site) -> Site:
    """A gpuq that runs and is idle."""
    home.mend()
    return home


@pytest.fixture
def stopping(home: Site) -> Site:
    """A gpuq whose end also ends its jobs."""
    if home.is_up():
        home.down()
    home.up("--stop-jobs")
    return home


def test_a_job_gets_its_environment_and_none_of_ours(site: Site) -> None:
    job = gpuq(site, "submit", "--parsable", "-e", "COLOUR=blue", "--", "/usr/bin/env").strip()
    gpuq(site, "wait", job)

    seen = dict(line.split("=", 1) for line in gpuq(site, "logs", job).splitlines() if "=" in line)

    assert seen["COLOUR"] == "blue"
    assert (seen["GPUQ_JOB_ID"], seen["GPUQ_ATTEMPT"]) == (job, "1")
    assert seen["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert not {"GPUQ_HOME", "GPUQ_REDIS_URL", "GPUQ_DATABASE_URL"} & set(seen)
    token = (site.home / "token").read_text().strip()
    assert token not in "".join(seen.values())


def test_exit_codes_come_back(site: Site) -> None:
    failed = gpuq(site, "submit", "--parsable", "--", "/bin/sh", "-c", "exit 7").strip()
    gpuq(site, "wait", failed, code=7)
    assert show(site, failed)["state"] == "FAILED"

    late = gpuq(site, "submit", "--parsable", "--time", "0:00:01", "--", "/bin/sleep", "60").strip()
    gpuq(site, "wait", late, code=124)
    assert show(site, late)["state"] == "TIMEOUT"


def test_a_cancel_works_within_two_seconds_with_every_slot_busy(site: Site) -> None:
    jobs = [site.submit("/bin/sleep", "60") for _ in range(2)]
    for job in jobs:
        site.wait(job, "RUNNING")
    waiting = site.submit("/bin/sleep", "61", key="one more")

    status, _ = site.request("POST", f"/api/v1/jobs/{jobs[0]}/cancel")

    assert status in {200, 202}
    assert site.wait(jobs[0], within_s=2)["state"] == "CANCELLED"
    for job in (jobs[1], waiting):
        site.request("POST", f"/api/v1/jobs/{job}/cancel")
        assert site.wait(job, within_s=10)["state"] == "CANCELLED"


def test_a_cancel_takes_the_whole_tree(site: Site) -> None:
    nest = "trap '' TERM; setsid sleep 77 & (sleep 77 &) ; sleep 77 & wait"
    job = site.submit("/bin/sh", "-c", nest)
    site.wait(job, "RUNNING")

    gpuq(site, "cancel", str(job))

    assert site.wait(job, within_s=15)["state"] == "CANCELLED"
    left = [pid for pid in site.processes() if b"sleep\x0077" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert left == []


def test_hold_release_explain_and_predict(site: Site) -> None:
    job = gpuq(site, "submit", "--parsable", "--hold", "--", "/bin/true").strip()
    site.wait(int(job), "HELD", within_s=10)
    gpuq(site, "release", job)
    gpuq(site, "wait", job)
    gpuq(site, "hold", job, code=6)
    gpuq(site, "show", "99999", code=3)
    gpuq(site, "logs", "99999", code=3)
    assert "COMPLETED" in gpuq(site, "explain", job)
    assert "evidence" in json.loads(gpuq(site, "predict", "--json", "--", "/bin/true"))["forecast"]


def test_a_training_after_few_attempts_publishes_nothing_and_says_why(site: Site) -> None:
    job = gpuq(site, "submit", "--parsable", "--", "/bin/true").strip()
    gpuq(site, "wait", job)

    trained = json.loads(gpuq(site, "model", "train", "--json"))

    assert trained["published"] is False
    assert trained["reason"].startswith("too little history"), "a few attempts are too few, and it says so"


def test_the_devices_are_listed_with_their_memory(site: Site) -> None:
    gpus = json.loads(gpuq(site, "gpus", "--json"))
    assert {"id", "host", "kind", "total_memory_bytes", "used_memory_bytes", "promised_memory_bytes"} <= set(gpus[0])


def test_what_can_never_fit_is_refused_with_the_missing_number(site: Site) -> None:
    done = run(site, "submit", "--gpu-mem", "900TiB", "--", "/bin/true")

    assert done.returncode == 7
    assert "too little" in done.stderr


def test_ctrl_c_leaves_jobs_running_and_the_next_up_takes_them_up_or_finds_their_end(site: Site) -> None:
    until = "while [ ! -e {} ]; do sleep 0.1; done; exit {}"
    continues = site.submit("/bin/sh", "-c", until.format("end-3", 3))
    ends = site.submit("/bin/sh", "-c", until.format("end-4", 4))
    for job in (continues, ends):
        site.wait(job, "RUNNING")

    assert site.down() == 0
    assert f"next `gpuq up`: {continues}, {ends}" in site.output.read_text()
    (site.home / "end-4").touch()
    started = json.loads((site.home / "attempts" / f"{ends}-1" / "started.json").read_text())
    wait_for(lambda: not {started["pid"], started["shim_pid"]} & set(site.processes()), 20)
    assert not any(site.pids(part) for part in MODULES), "all of gpuq has ended"
    site.up()

    (site.home / "end-3").touch()
    for job, code in ((continues, 3), (ends, 4)):
        found = site.wait(job)
        assert (found["state"], found["exit_code"], len(found["attempts"])) == ("FAILED", code, 1)


def test_stop_jobs_ends_the_running_and_keeps_the_waiting_also_when_the_terminal_closes(stopping: Site) -> None:
    first, second, third = (stopping.submit("/bin/sleep", str(300 + number)) for number in range(3))
    for job in (first, second):
        stopping.wait(job, "RUNNING")
    assert stopping.down() == 0

    before = len(stopping.output.read_text())
    stopping.up("--stop-jobs")
    for job in (first, second):
        assert stopping.job(job)["state"] == "CANCELLED"
    assert len(stopping.wait(third, "RUNNING")["attempts"]) == 1, "its first start is after the next up"
    wait_for(lambda: "`gpuq down` ends gpuq and the running jobs" in stopping.output.read_text()[before:], 40)

    assert stopping.down(signal.SIGHUP) == 0
    assert list(stopping.processes()) == []
