"""The whole of gpuq on a real PostgreSQL server, which also goes away for a while."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.store.postgresql import Server, why_not
from tests.support.site import Site, kill, wait_for

BODY = {"command": ["/bin/true"], "cwd": "/", "env": {}}


@pytest.fixture
def server() -> Iterator[Server]:
    if reason := why_not():
        pytest.skip(reason)
    running = Server()
    yield running
    running.remove()


def test_jobs_run_are_recorded_and_outlive_the_absence_of_the_record(server: Server) -> None:
    with Site(devices_cpu_count=2, devices_cpu_cores=1, database_url=server.create_database()) as site:
        done = site.submit("/bin/sh", "-c", "echo from the job; exit 7")
        found = site.wait(done)
        assert (found["state"], found["exit_code"], len(found["attempts"])) == ("FAILED", 7, 1)
        assert site.get(f"/api/v1/jobs/{done}/logs?limit=100") == (200, b"from the job\n")
        assert not (site.home / "gpuq.db").exists()

        running = site.submit("/bin/sh", "-c", "sleep 2; exit 3")
        waiting = site.submit("/bin/true", hold=True)
        site.wait(running, "RUNNING")
        server.stop()
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
