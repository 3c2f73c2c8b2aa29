"""Logs of every host, read, followed and searched through the API of another host, with a host that is away in the middle."""

from __future__ import annotations

import threading

import pytest

from tests.fleet.fleet import HOME, WORKERS, Fleet
from tests.support.site import wait_for

LINES = 40
_PRINTS = f"for n in $(seq {LINES}); do echo $(hostname) $n; sleep 0.2; done"


def printing(fleet: Fleet, host: str) -> int:
    """A job on this host that prints its name and a number five times a second."""
    others = [other for other in WORKERS if other != host]
    for other in others:
        fleet.drain(other)
    body = {"command": ["sh", "-c", _PRINTS], "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}}
    status, answer = fleet.request("POST", "/api/v1/jobs", body)
    assert status == 201
    wait_for(lambda: fleet.get(f"/api/v1/jobs/{answer['id']}")[1]["state"] == "RUNNING", 20)
    for other in others:
        fleet.resume(other)
    return int(answer["id"])


@pytest.mark.parametrize("api", ["main", "standby"])
@pytest.mark.parametrize("host", WORKERS)
def test_a_log_is_read_and_followed_from_any_host(fleet: Fleet, host: str, api: str) -> None:
    job = printing(fleet, host)
    followed: list[str] = []
    follow = ["runuser", "-u", "gpuq", "--", "env", f"GPUQ_HOME={HOME}", "/opt/gpuq/bin/gpuq", "logs", "-f", str(job)]
    follower = threading.Thread(target=lambda: followed.append(fleet.lab.run(api, *follow).stdout))
    follower.start()
    fleet.wait([job])
    follower.join()
    expected = [f"{host} {number}" for number in range(1, LINES + 1)]
    assert followed[0].splitlines() == expected
    assert fleet.gpuq("logs", str(job), "--json", host=api)["log"].splitlines() == expected
    found = fleet.gpuq("logs", str(job), "--grep", f"{host} 4", "--json", host=api)
    assert found["log"].splitlines() == [f"{host} 4", f"{host} 40"]


def test_the_log_of_a_host_that_is_away_names_the_place_and_is_whole_afterwards(fleet: Fleet) -> None:
    job = printing(fleet, "node")
    fleet.lab.cut("node")
    status, problem = fleet.get(f"/api/v1/jobs/{job}/logs")
    assert status == 503
    assert "It is on host node" in str(problem)
    fleet.lab.heal("node")
    fleet.wait([job])
    expected = [f"node {number}" for number in range(1, LINES + 1)]
    wait_for(lambda: fleet.gpuq("logs", str(job), "--json")["log"].splitlines() == expected, 20)


def test_a_job_whose_host_loses_its_power_ends_and_its_log_is_there_afterwards(fleet: Fleet) -> None:
    job = printing(fleet, "node")
    wait_for(lambda: b"node 2\n" in fleet.get(f"/api/v1/jobs/{job}/logs")[1], 20)
    fleet.lab.kill("node")
    assert fleet.get(f"/api/v1/jobs/{job}/logs")[0] == 503
    fleet.lab.boot("node")
    fleet.start()
    assert fleet.wait([job]) == {job: "NODE_FAIL"}
    assert fleet.gpuq("logs", str(job), "--json")["log"].startswith("node 1\nnode 2\n")


def test_a_host_that_lost_its_power_runs_jobs_again(fleet: Fleet) -> None:
    fleet.lab.kill("node")
    fleet.lab.boot("node")
    fleet.start()
    for other in ("main", "standby"):
        fleet.drain(other)
    jobs = [fleet.submit(0.1) for _ in range(3)]
    fleet.wait(jobs)
    assert fleet.faults(jobs) == []
