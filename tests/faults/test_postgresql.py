"""The whole of gpuq on a real PostgreSQL server, which also goes away for a while."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest

from tests.adapters.store.postgresql import Server, why_not
from tests.support.patience import Stopwatch
from tests.support.silent_proxy import SilentProxy
from tests.support.site import Site, kill, wait_for

BODY = {"command": ["/bin/true"], "cwd": "/", "env": {}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if reason := why_not():
        pytest.skip(reason)
    running = Server()
    yield running
    running.remove()


@pytest.fixture(scope="module")
def proxy(server: Server) -> Iterator[SilentProxy]:
    running = SilentProxy(server.socket)
    yield running
    running.close()


@pytest.fixture(scope="module")
def site(server: Server, proxy: SilentProxy) -> Iterator[Site]:
    url = proxy.url(server.create_database())
    with Site(devices_cpu_count=2, devices_cpu_cores=1, database_url=url, admission_lease_s=2) as site:
        yield site


def cut(site: Site, proxy: SilentProxy, name: str, seconds: float) -> None:
    """Cut the network to the database for `seconds` while a job runs. No answer takes five seconds; no job is lost or doubled."""
    services = {part: site.pids(part) for part in ("dispatcher", "api", "worker")}
    ends = site.home / f"ends {name}"
    running = site.submit("/bin/sh", "-c", f"until [ -e '{ends}' ]; do sleep 0.1; done")
    site.wait(running, "RUNNING")
    proxy.cut()
    ends.touch()
    until = time.monotonic() + seconds
    try:
        while True:
            asked = Stopwatch()
            status, problem = site.request("POST", "/api/v1/jobs", BODY, {"Idempotency-Key": name})
            assert (status, asked.seconds < 5) == (503, True), problem
            assert problem["hint"]
            if time.monotonic() > until:
                break
            time.sleep(0.2)
    finally:
        proxy.heal()
    healed = Stopwatch()
    repeated = site.request("POST", "/api/v1/jobs", BODY, {"Idempotency-Key": name})[1]["id"]
    assert (healed.seconds < 5, repeated) == (True, running + 1), "one job for all that were sent with this key"
    assert site.wait(repeated)["state"] == "COMPLETED"
    assert site.wait(running)["state"] == "COMPLETED"
    assert healed.seconds < 5
    assert {part: site.pids(part) for part in services} == services, "no service was restarted"


def test_a_silent_cut_is_answered_at_once_and_over_when_it_ends(site: Site, proxy: SilentProxy) -> None:
    cut(site, proxy, "cut", seconds=0)


@pytest.mark.soak
def test_a_hundred_silent_cuts(site: Site, proxy: SilentProxy) -> None:
    """From one second to two minutes, as many short ones as long ones."""
    for number in range(100):
        cut(site, proxy, f"cut-{number}", seconds=120 ** (number / 99))


def test_jobs_run_are_recorded_and_outlive_the_absence_of_the_record(site: Site, server: Server) -> None:
    done = site.submit("/bin/sh", "-c", "echo from the job; exit 7")
    found = site.wait(done)
    assert (found["state"], found["exit_code"], len(found["attempts"])) == ("FAILED", 7, 1)
    assert site.get(f"/api/v1/jobs/{done}/logs?limit=100") == (200, b"from the job\n")
    assert not (site.home / "gpuq.db").exists()

    running = site.submit("/bin/sh", "-c", "until [ -e stopped ]; do sleep 0.1; done; exit 3")
    waiting = site.submit("/bin/true", hold=True)
    site.wait(running, "RUNNING")
    server.stop()
    (site.home / "stopped").touch()
    status, problem = site.request("POST", "/api/v1/jobs", BODY)
    assert (status, "PostgreSQL" in problem["detail"]) == (503, True), "no yes without a record"
    wait_for((site.home / "attempts" / f"{running}-1" / "exit.json").exists, 20)
    for part in ("dispatcher", "worker"):
        for pid in site.pids(part):
            kill(pid)
    server.start()

    found = site.wait(running)
    assert (found["state"], found["exit_code"], len(found["attempts"])) == ("FAILED", 3, 1)
    site.request("POST", f"/api/v1/jobs/{waiting}/release")
    assert site.wait(waiting)["state"] == "COMPLETED"
    last = site.submit("/bin/true")
    assert last == waiting + 1, "what was refused has left nothing behind"
    assert site.wait(last)["state"] == "COMPLETED"


def test_a_job_with_requeue_ends_while_its_host_gets_no_answer_and_starts_again(site: Site) -> None:
    """Its lease is 2 s. A job without --requeue goes on."""
    leased = site.submit("/bin/sleep", "600", requeue_on_node_fail=True)
    other = site.submit("/bin/sleep", "600")
    for job in (leased, other):
        site.wait(job, "RUNNING")
    [dispatcher] = site.pids("dispatcher")
    kill(dispatcher, signal.SIGSTOP)
    try:
        end = site.home / "attempts" / f"{leased}-1" / "exit.json"
        wait_for(end.exists, 15)
    finally:
        kill(dispatcher, signal.SIGCONT)
    assert json.loads(end.read_bytes())["ending"] == "lost"
    assert "was not connected to the dispatcher for 2 s" in json.loads(end.read_bytes())["reason"]
    wait_for(lambda: len(site.job(leased)["attempts"]) == 2, 20)
    site.wait(leased, "RUNNING")
    assert [len(site.job(other)["attempts"]), site.job(other)["state"]] == [1, "RUNNING"]
    for job in (leased, other):
        site.request("POST", f"/api/v1/jobs/{job}/cancel")
        site.wait(job)
