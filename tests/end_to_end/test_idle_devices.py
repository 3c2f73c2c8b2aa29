"""A job that holds a device and does not use it is marked, and stopped where the site does that and the job does not object."""

from __future__ import annotations

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
