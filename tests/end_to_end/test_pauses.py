"""A short job starts at once on a device that a long one uses fully; the long one stands still, and goes on when it may."""

from __future__ import annotations

import sys

from tests.support.site import Site, wait_for

SPINS = """
import sys, time
end, last = time.monotonic() + float(sys.argv[1]), 0.0
while (now := time.monotonic()) < end:
    if now - last > 0.02:
        last = now
        print(now, flush=True)
"""


def test_a_job_stands_still_for_a_short_one_and_goes_on_though_the_worker_service_was_killed() -> None:
    settings = {"devices_cpu_count": 1, "devices_cpu_cores": 1, "worker_grace_s": 1, "admission_pauses": "true"}
    with Site(window_s=0.5, **settings) as site:
        (site.home / "spins.py").write_text(SPINS)

        def submit(seconds: float, **wishes: object) -> int:
            command = (sys.executable, str(site.home / "spins.py"), str(seconds))
            return site.submit(*command, gpu_memory=64 * 2**20, **wishes)

        def lines(job: int) -> list[float]:
            path = site.home / "attempts" / f"{job}-1" / "output.log"
            return [float(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

        def left_s() -> float:
            account = (site.job(long)["live"] or {}).get("slowdown_account") or {}
            return float(account.get("left_s") or 0)

        for kind in ("long", "short"):  # a kind that is not known gets a device alone
            assert site.wait(submit(2, kind=kind))["state"] == "COMPLETED"
        long = submit(600, kind="long", max_slowdown=5.0)
        wait_for(lambda: left_s() > 24, 40, lambda: str(site.job(long)["live"]))
        short = submit(4, kind="short", time_limit_s=12.0)
        site.wait(short, "RUNNING")
        assert site.job(short)["verdict"]["rule"] == "Pause"
        paused = site.home / "attempts" / f"{long}-1" / "paused.json"
        wait_for(lambda: paused.exists() and '"since": null' not in paused.read_text(), 10, lambda: str(site.job(long)))
        stood_at = lines(long)[-1]
        site.kill("worker")
        # It goes on when the lease ends, and may stand still again once the next worker service is up.
        wait_for(lambda: lines(long)[-1] > stood_at, 10)
        assert site.wait(short)["state"] == "COMPLETED"
        ended_at = lines(short)[-1]
        wait_for(lambda: lines(long)[-1] > ended_at, 10)
        assert site.job(long)["state"] == "RUNNING"
