"""The disk that holds the attempts is full: a small file system of its own, really filled by a job."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.site import Site, wait_for

MIB = 2**20


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site(devices_cpu_count=2, devices_cpu_cores=1, worker_grace_s=2)
    attempts = site.home / "attempts"
    attempts.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "gpuq-test", str(attempts)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        site.close()
        pytest.skip("a small file system can only be mounted by root, where the container allows it")
    try:
        site.up()
        yield site
    finally:
        subprocess.run(["umount", "--lazy", str(attempts)], check=True)
        site.close()


def log_of(site: Site, job: int) -> list[Path]:
    return list((site.home / "attempts" / f"{job}-1").glob("output.log*"))


def test_jobs_end_with_their_exit_code_can_be_cancelled_and_start_once_there_is_room(site: Site) -> None:
    asleep = site.submit("/bin/sleep", "300")
    site.wait(asleep, "RUNNING")
    filler = site.submit("/bin/sh", "-c", f"head -c {20 * MIB} /dev/zero; exit 7")

    filled = site.wait(filler)
    assert (filled["state"], filled["exit_code"]) == ("FAILED", 7)
    assert "bytes of output could not be written: No space left on device" in filled["attempts"][0]["reason"]
    assert site.get(f"/api/v1/jobs/{filler}/logs?limit=1000") == (200, bytes(1000)), "what was written is there"

    site.request("POST", f"/api/v1/jobs/{asleep}/cancel")
    assert site.wait(asleep, within_s=15)["state"] == "CANCELLED"

    waiting = site.submit("/bin/true")

    def refusal() -> str:
        verdict = site.get(f"/api/v1/jobs/{waiting}/explanation")[1]["verdict"] or {}
        return f"{verdict.get('rule')}: {verdict.get('sentence')}"

    wait_for(lambda: refusal().startswith("NoStarts") and f"{site.home}/attempts is full" in refusal(), 20, refusal)
    assert site.get("/readyz")[0] == 200
    for path in log_of(site, filler):
        path.unlink()
    assert site.wait(waiting)["state"] == "COMPLETED"
    lines = [line.split(" ", 2)[2] for line in (site.home / "logs" / "worker.log").read_text().splitlines()]
    full = [line for line in lines if "No space left on device" in line]
    assert full
    assert len(full) == len(set(full)), (
        "a line that repeats itself is counted, ten times a second it would fill the disk"
    )
