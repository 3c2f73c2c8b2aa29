"""A job that holds a device and does not use it is marked, and stopped where the site does that and the job does not object."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.site import Site, wait_for


def test_a_job_that_uses_nothing_is_marked_and_stopped_unless_it_objects() -> None:
    settings = {"idle_warn_after_s": 1, "idle_action": "stop", "idle_act_after_s": 2, "idle_start_grace_s": 0}
    with Site(devices_cpu_count=2, devices_cpu_cores=1, worker_grace_s=1, **settings) as site:

        def gpuq(*words: str) -> str:
            done = forked.gpuq(*words, env=site.env, cwd=site.home)
            assert done.returncode == 0, done.stderr
            return done.stdout.decode()

        stopped, stays = (
            int(gpuq("submit", "--gpu-mem", "64M", *words, "--", "sleep", "600")) for words in ((), ("--idle-ok",))
        )
        wait_for(lambda: (site.job(stays)["live"] or {}).get("warned_of_idleness"), 30, lambda: str(site.job(stays)))
        assert "idle " in gpuq("queue", str(stays))
        ended = site.wait(stopped)
        assert (ended["state"], ended["reason"]) == ("CANCELLED", "stopped because it used none of its devices")
        assert site.job(stays)["state"] == "RUNNING"
        assert "not to be stopped when idle" in gpuq("show", str(stays))


def test_an_action_that_there_is_not_is_refused_before_anything_starts(tmp_path: Path) -> None:
    env = {"GPUQ_HOME": str(tmp_path / "h"), "GPUQ_IDLE_ACTION": "kick", "PATH": "/usr/bin:/bin"}
    done = forked.gpuq("up", env=env, cwd=tmp_path, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        'GPUQ_IDLE_ACTION sets `action` under [idle] to \'kick\'; it must be one of "none", "share", "stop".'
        in done.stderr
    )
    assert not (tmp_path / "h").exists()


@pytest.mark.soak
def test_the_device_of_a_job_that_uses_nothing_is_opened_to_a_known_kind() -> None:
    settings = {"idle_warn_after_s": 1, "idle_action": "share", "idle_act_after_s": 1, "idle_start_grace_s": 0}
    admission = {"admission_utilization_pct": 400}  # other processes of this machine load the core too
    with Site(devices_cpu_count=1, devices_cpu_cores=1, window_s=0.5, **admission, **settings) as site:

        def gpuq(*words: str) -> str:
            done = forked.gpuq(*words, env=site.env, cwd=site.home, text=True)
            assert done.returncode == 0, done.stderr
            return done.stdout

        spin = "import time; end = time.monotonic() + 4\nwhile time.monotonic() < end: pass"
        known = ("submit", "--kind", "known", "--", sys.executable, "-c", spin)
        for _ in range(2):
            assert site.wait(int(gpuq(*known)))["state"] == "COMPLETED"
        idle = int(gpuq("submit", "--", "sleep", "600"))
        site.wait(idle, "RUNNING")
        ended = site.wait(int(gpuq(*known)))
        assert ended["state"] == "COMPLETED", ended["reason"]
        assert site.job(idle)["state"] == "RUNNING"
        assert "so others may join it" in " ".join(gpuq("explain", str(idle)).split())
