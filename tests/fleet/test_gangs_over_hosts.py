"""Jobs over two hosts with a network between them: they meet, and when one host is lost the other's part is stopped."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.fleet.fleet import WORKERS, Fleet
from tests.support.site import wait_for

# The first process takes connections until all have come, and tells each of them how many they are.
_MEET = """
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
port = int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(("", port)) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
    for other in others:
        other.sendall(b"%d" % size)
else:
    until = time.monotonic() + 20
    while True:
        try:
            first = socket.create_connection((os.environ["MASTER_ADDR"], port), 5)
            break
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
    assert int(first.recv(10)) == size
print("rank", rank, "met", size, "on", socket.gethostname(), "with", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
time.sleep(SECONDS)
"""


def submit(fleet: Fleet, seconds: float, **fields: Any) -> int:
    command = ["/usr/bin/python3.11", "-c", _MEET.replace("SECONDS", str(seconds))]
    body = {"command": command, "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}, "gpus": 4, "hosts": 2, **fields}
    status, answer = fleet.request("POST", "/api/v1/jobs", body)
    assert status == 201, answer
    return int(answer["id"])


def job(fleet: Fleet, number: int) -> dict[str, Any]:
    found: dict[str, Any] = fleet.get(f"/api/v1/jobs/{number}")[1]
    return found


def said(fleet: Fleet, number: int, attempt: int) -> str:
    text = fleet.request("GET", f"/api/v1/jobs/{number}/logs?attempt={attempt}")[1]
    return text if isinstance(text, str) else text.decode() if isinstance(text, bytes) else json.dumps(text)


def on_node(fleet: Fleet, **fields: Any) -> tuple[int, list[str]]:
    """A job on `node` and another host that has met, and its hosts."""
    fleet.drain("standby")
    number = submit(fleet, 600, **fields)
    wait_for(lambda: all("met 2" in said(fleet, number, attempt) for attempt in (1, 2)), 30)
    fleet.resume("standby")
    hosts = job(fleet, number)["hosts"]
    assert sorted(hosts) == ["main", "node"]
    return number, hosts


def test_the_processes_of_two_hosts_meet(fleet: Fleet) -> None:
    number = submit(fleet, 1)
    assert fleet.wait([number]) == {number: "COMPLETED"}
    hosts = job(fleet, number)["hosts"]
    assert len(set(hosts)) == 2
    assert set(hosts) <= set(WORKERS)
    for rank, host in enumerate(hosts):
        words = said(fleet, number, rank + 1).split()
        assert words[:6] == ["rank", str(rank), "met", "2", "on", host]
        assert len(words[7].split(",")) == 2


def test_when_a_host_loses_its_power_the_other_part_is_stopped(fleet: Fleet) -> None:
    number, _ = on_node(fleet)
    fleet.lab.kill("node")
    fleet.lab.boot("node")
    fleet.start()
    assert fleet.wait([number]) == {number: "NODE_FAIL"}
    ends = {attempt["host"]: attempt["ending"] for attempt in job(fleet, number)["attempts"]}
    assert ends == {"main": "stopped", "node": "lost"}


def test_with_requeue_it_starts_again_on_the_hosts_that_are_left(fleet: Fleet) -> None:
    number, _ = on_node(fleet, requeue_on_node_fail=True)
    fleet.lab.cut("node")
    began = time.monotonic()
    wait_for(lambda: job(fleet, number)["state"] == "RUNNING" and job(fleet, number)["attempt"] == 3, 150)
    # Not before the host that is cut off has certainly ended its part: a lease of 60 s and half a minute.
    assert time.monotonic() - began >= 60
    assert sorted(job(fleet, number)["hosts"]) == ["main", "standby"]
    wait_for(lambda: all("met 2" in said(fleet, number, attempt) for attempt in (3, 4)), 30)
    fleet.lab.heal("node")
    fleet.control("cancel", [number])
    assert fleet.wait([number]) == {number: "CANCELLED"}
