"""Jobs over two hosts: they meet at the address that gpuq gives them, and end together when one of the hosts is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpuq.home import host_key
from tests.support import services
from tests.support.site import Site, wait_for

# Each process connects to the first one, which answers all of them with the ranks that have come.
MEET = """
import json, os, socket, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
mine = {name: os.environ[name] for name in sorted(os.environ) if name in sys.argv[1].split(",") or name.startswith("PET_")}
if rank == 0:
    with socket.create_server(place) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
        seen = [rank, *(int(other.makefile().readline()) for other in others)]
        for other in others:
            other.sendall(json.dumps(sorted(seen)).encode() + b"\\n")
else:
    while True:
        try:
            first = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    first.sendall(f"{rank}\\n".encode())
    seen = json.loads(first.makefile().readline())
print("I am", json.dumps({"met": sorted(seen), **mine}), flush=True)
time.sleep(float(sys.argv[2]))
"""
NAMES = "MASTER_ADDR,NNODES,NODE_RANK,RANK,WORLD_SIZE,NPROC_PER_NODE,JAX_PROCESS_ID,JAX_NUM_PROCESSES,JAX_COORDINATOR_ADDRESS"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(devices_cpu_count=2, devices_cpu_cores=1, worker_address="127.0.0.1") as site:
        yield site


class SecondHost:
    """The worker service of the host `node2`, with two devices and a home of its own."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.home = Path(tempfile.mkdtemp(prefix="gq-"))
        (self.home / "host.key").write_text(host_key((site.home / "order.key").read_text().strip(), "node2"))
        self._log = site.home / "node2.log"
        self.start()

    def start(self) -> None:
        env = {
            **self._site.env,
            "GPUQ_HOME": str(self.home),
            "GPUQ_WORKER_HOST": "node2",
            "GPUQ_REDIS_URL": f"unix://{self._site.home}/run/redis.sock",
            "GPUQ_DATABASE_URL": f"sqlite:///{self._site.home}/gpuq.db",
        }
        self.process = services.started("gpuq_workers", self._log, env=env)
        wait_for(lambda: len(self._site.get("/api/v1/gpus")[1]) == 4, story=self._log.read_text)
        # A submission is judged by devices that were read up to two seconds ago.
        gang = {"command": ["true"], "cwd": "/", "gpus": 4, "hosts": 2}
        wait_for(lambda: self._site.request("POST", "/api/v1/predict", gang)[1].get("never_fits", "") is None)

    def lose(self) -> None:
        """As if the machine had been switched off: the services and what they have started are gone at once."""
        for line in (self.home / "attempts").glob("*/started.json"):
            started = json.loads(line.read_text())
            for pid in (started["shim_pid"], started["pid"]):
                with suppress(ProcessLookupError):  # of an attempt that has ended
                    os.kill(pid, signal.SIGKILL)
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
        shutil.rmtree(self.home)


@pytest.fixture(scope="module")
def second(site: Site) -> Iterator[SecondHost]:
    host = SecondHost(site)
    yield host
    host.close()


def logs(site: Site, job: int, attempt: int) -> list[dict[str, Any]]:
    """What its processes printed. A line is written in parts, and the last may not be whole yet."""
    status, text = site.get(f"/api/v1/jobs/{job}/logs?attempt={attempt}")
    assert status == 200
    whole = text.decode().rpartition("\n")[0]
    return [json.loads(line.removeprefix("I am ")) for line in whole.splitlines()]


def submit(site: Site, seconds: float, **fields: Any) -> int:
    # With its memory declared it may start beside what else runs on the machine of the tests.
    return site.submit(sys.executable, "-c", MEET, NAMES, str(seconds), gpus=4, hosts=2, gpu_memory=2**26, **fields)


def test_the_processes_of_two_hosts_meet(site: Site, second: SecondHost) -> None:
    job = submit(site, 0.5)
    ended = site.wait(job, "COMPLETED", "FAILED", "NODE_FAIL")
    assert ended["state"] == "COMPLETED"
    assert "node2" in ended["hosts"]
    assert (len(ended["hosts"]), len(set(ended["devices"])), ended["exit_code"]) == (2, 4, 0)
    assert [one["number"] for one in ended["attempts"]] == [1, 2]
    for rank in range(2):
        (line,) = logs(site, job, rank + 1)
        assert line["met"] == [0, 1]
        assert (line["RANK"], line["NODE_RANK"], line["PET_NODE_RANK"], line["JAX_PROCESS_ID"]) == (str(rank),) * 4
        assert (line["WORLD_SIZE"], line["NNODES"], line["PET_NNODES"], line["JAX_NUM_PROCESSES"]) == ("2",) * 4
        assert (line["NPROC_PER_NODE"], line["PET_NPROC_PER_NODE"]) == ("2", "2")
        assert line["JAX_COORDINATOR_ADDRESS"].rpartition(":")[0] == line["MASTER_ADDR"] == "127.0.0.1"
    wait_for(lambda: not any(device["residents"] for device in site.get("/api/v1/gpus")[1]))


@pytest.mark.parametrize("requeue", [False, True])
def test_when_a_host_is_lost_the_other_is_stopped(site: Site, second: SecondHost, requeue: bool) -> None:
    """The machine is back at once with its disk, and finds that what ran there is gone."""
    job = submit(site, 60, requeue_on_node_fail=requeue)
    site.wait(job, "RUNNING")
    wait_for(lambda: logs(site, job, 1) and logs(site, job, 2))
    second.lose()
    second.start()
    first_start = {"LOST", "STOPPED"}
    if requeue:
        wait_for(lambda: site.job(job)["state"] == "RUNNING" and site.job(job)["attempt"] == 3, 60)
        site.request("POST", f"/api/v1/jobs/{job}/cancel")
        ended = site.wait(job, "CANCELLED")
        assert {one["ending"].upper() for one in ended["attempts"][:2]} == first_start
        assert [one["number"] for one in ended["attempts"]] == [1, 2, 3, 4]
    else:
        ended = site.wait(job, "NODE_FAIL", "FAILED", "COMPLETED", "CANCELLED")
        assert ended["state"] == "NODE_FAIL"
        assert {one["ending"].upper() for one in ended["attempts"]} == first_start
        assert ended["reason"].startswith("on host node2: ")
    wait_for(lambda: not any(device["residents"] for device in site.get("/api/v1/gpus")[1]))
