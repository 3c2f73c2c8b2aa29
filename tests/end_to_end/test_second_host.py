"""A second host with a home and a key of its own, which shares Redis and the record with the first."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuq.home import host_key
from tests.support import forked, services
from tests.support.forked import Fork
from tests.support.site import Site, wait_for


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(devices_cpu_count=1, devices_cpu_cores=1) as site:
        yield site


def is_removed(home: Path) -> bool:
    """Remove the folder; whether it is gone. The shim of a job that still runs makes the folder of its attempt again."""
    shutil.rmtree(home, ignore_errors=True)
    return not home.exists()


@pytest.fixture(scope="module")
def second(site: Site) -> Iterator[Fork]:
    """The worker service of the host `node2`, on one device."""
    home = Path(tempfile.mkdtemp(prefix="gq-"))
    (home / "host.key").write_text(host_key((site.home / "order.key").read_text().strip(), "node2"))
    (home / "config.toml").write_text('[devices]\nfeatures = ["fast"]\n')
    env = {
        **site.env,
        "GPUQ_HOME": str(home),
        "GPUQ_WORKER_HOST": "node2",
        "GPUQ_REDIS_URL": f"unix://{site.home}/run/redis.sock",
        "GPUQ_DATABASE_URL": f"sqlite:///{site.home}/gpuq.db",
    }
    process = services.started("gpuq_workers", site.home / "node2.log", env=env)
    # Devices are read from the record, and hosts from the dispatcher's view, which is written a moment later.
    shown = lambda: [len(site.get(f"/api/v1/{what}")[1]) for what in ("gpus", "hosts")]  # noqa: E731
    wait_for(lambda: shown() == [2, 2], story=(site.home / "node2.log").read_text)
    yield process
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    wait_for(lambda: is_removed(home))


def test_a_job_of_another_host_is_read_and_followed_through_the_api(site: Site, second: Fork) -> None:
    until = f"echo began; until [ -e {site.home}/read ]; do sleep 0.1; done; sleep 1; echo ended"
    jobs = [site.submit("/bin/sh", "-c", until, share="never") for _ in range(2)]
    placed = {site.wait(job, "RUNNING")["host"]: job for job in jobs}
    assert "node2" in placed
    job = placed["node2"]
    assert wait_for(lambda: site.get(f"/api/v1/jobs/{job}/logs")[1]) == b"began\n"
    (site.home / "read").touch()
    # One request that stays open until the job has ended.
    assert site.get(f"/api/v1/jobs/{job}/logs?follow=1") == (200, b"began\nended\n")
    # A host that is away is named; its log is there again when the host is.
    wait_for(lambda: site.job(job)["state"] == "COMPLETED", 10)
    second.send_signal(signal.SIGSTOP)
    try:
        status, problem = site.get(f"/api/v1/jobs/{job}/logs")
        assert (status, "Host node2 does not answer" in problem["detail"]) == (503, True)
    finally:
        second.send_signal(signal.SIGCONT)
    assert site.get(f"/api/v1/jobs/{job}/logs") == (200, b"began\nended\n")


def test_a_user_chooses_devices_and_hears_which_there_are(site: Site, second: Fork) -> None:
    def gpuq(*words: str) -> tuple[int, str]:
        done = forked.gpuq(*words, env=site.env, cwd=site.home)
        return done.returncode, (done.stdout or done.stderr).decode()

    def submit(*words: str) -> int:
        return int(gpuq("submit", "--gpu-mem", "64M", *words, "--", "/bin/true")[1])

    [own] = {device["host"] for device in site.get("/api/v1/gpus")[1]} - {"node2"}
    there = [
        ("-w", "node2"),
        ("-x", own),
        ("--device", "node2:cpu0"),
        ("--constraint", "slow|fast", "--gpu-type", "CPU"),
    ]
    here = [("--nodelist", f"{own},node2", "--hosts", "1", "--exclude", "node2"), ("--device", f"{own}:cpu0")]
    hosts = {words: site.wait(submit(*words))["host"] for words in [*there, *here]}
    assert hosts == {**dict.fromkeys(there, "node2"), **dict.fromkeys(here, own)}
    both = site.wait(submit("--nodelist", f"node2,{own}"))
    assert (sorted(both["hosts"]), both["state"]) == (sorted([own, "node2"]), "COMPLETED")
    code, said = gpuq("submit", "--gpu-type", "H100|A100", "--", "/bin/true")
    assert (code, "it asks for type H100 or A100; there are cpu-1" in said) == (7, True), said
    # A host that is away may come back, so the job waits, and says for what.
    assert site.request("POST", "/api/v1/hosts/node2/drain", {"why": "new driver"})[0] == 202
    wait_for(lambda: "drained" in {host["state"] for host in site.get("/api/v1/hosts")[1]}, 10)
    waits = submit("--constraint", "fast")
    wait_for(lambda: (site.job(waits)["verdict"] or {}).get("rule") == "Drained", 10)
    code, said = gpuq("explain", str(waits))
    assert (code, f"{own}:cpu0: it asks for the features fast; this one has none." in said) == (0, True), said
    assert site.request("POST", "/api/v1/hosts/node2/resume")[0] == 202
    assert site.wait(waits)["host"] == "node2"


def test_devices_reserved_for_a_user_take_no_jobs_of_others(site: Site, second: Fork) -> None:
    def gpuq(*words: str) -> tuple[int, str]:
        done = forked.gpuq(*words, env=site.env, cwd=site.home)
        return done.returncode, (done.stdout or done.stderr).decode()

    # The API knows a new host's devices after two seconds at most.
    reserve = "reserve", "--device", "node2:cpu0", "--for", "daemon", "--to", "now+1hour"
    said = wait_for(lambda: (answer := gpuq(*reserve))[0] == 0 and answer[1], 10)
    assert "Reservation 1 for daemon: node2:cpu0" in said
    code, said = gpuq("reserve", "-w", "node2", "--from", "now+10min", "--to", "now+2hours")
    assert (code, "node2:cpu0 by daemon from" in said) == (6, True), said
    assert "daemon  now" in gpuq("reservations")[1]
    waits = int(gpuq("submit", "--gpu-mem", "64M", "-w", "node2", "--", "/bin/true")[1])
    wait_for(lambda: (site.job(waits)["verdict"] or {}).get("rule") == "Booked", 10, lambda: str(site.job(waits)))
    code, said = gpuq("explain", str(waits))
    assert (code, "Booked on node2:cpu0: user daemon has it from" in said) == (0, True), said
    assert gpuq("reserve", "--cancel", "1") == (0, "Reservation 1 is over.\n")
    assert site.wait(waits)["host"] == "node2"
    assert gpuq("reserve", "--cancel", "1")[0] == 3


def test_a_drained_host_gets_no_job_until_it_is_resumed(site: Site, second: Fork) -> None:
    assert site.request("POST", "/api/v1/hosts/node2/drain", {"why": "new driver"})[0] == 202
    wait_for(lambda: "drained" in {host["state"] for host in site.get("/api/v1/hosts")[1]}, 10)
    first, waits = (site.submit("/bin/sleep", "60", share="never") for _ in range(2))
    assert site.wait(first, "RUNNING")["host"] != "node2"
    wait_for(lambda: site.job(waits)["state"] == "PENDING" and site.job(waits)["verdict"], 10)
    assert site.request("POST", "/api/v1/hosts/node2/resume")[0] == 202
    assert site.wait(waits, "RUNNING")["host"] == "node2"
