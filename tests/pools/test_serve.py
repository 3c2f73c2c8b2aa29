"""One look of the process that keeps pools, with a Slurm and an API that are lists."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from gpuq.adapters.slurm import SlurmJob
from gpuq.errors import BadInput, Conflict
from gpuq.home import Home
from gpuq.pools import pool
from gpuq.pools.pool import Pool
from gpuq.pools.serve import Pools


class FakeSlurm:
    def __init__(self) -> None:
        self.there: dict[int, str] = {}
        self.submitted = 0
        self.refuses: str | None = None
        self.asked = 0

    def submit(self, script: str, options: list[str]) -> int:
        if self.refuses:
            raise BadInput(self.refuses)
        assert "gpuq_workers.pilot" in script
        self.submitted += 1
        self.there[self.submitted] = "PENDING"
        return self.submitted

    def jobs(self, ids: set[int]) -> dict[int, SlurmJob]:
        self.asked += 1
        return {number: SlurmJob(number, self.there[number], "") for number in ids if number in self.there}

    def cancel(self, ids: list[int]) -> None:
        for number in ids:
            self.there.pop(number, None)


class FakeApi:
    """`hosts` by name as the API's; `waiting` jobs of one device of which nothing is known."""

    def __init__(self) -> None:
        self.hosts: dict[str, dict[str, Any]] = {}
        self.invited: list[str] = []
        self.waiting = 0
        self.rule: str | None = None

    def get(self, path: str, **_: object) -> Any:
        if path == "/api/v1/hosts":
            return list(self.hosts.values())
        if path == "/api/v1/gpus":
            return [
                {"host": host["name"], "residents": host["jobs"][n : n + 1]}
                for host in self.hosts.values()
                for n in range(host["devices"])
            ]
        assert path == "/api/v1/jobs"
        verdict = None if self.rule is None else {"rule": self.rule}
        return {"jobs": [{"share": "auto", "gpus": 1, "forecast": None, "verdict": verdict}] * self.waiting}

    def post(self, path: str, body: dict[str, str] | None = None) -> Any:
        *_, name, verb = path.split("/")
        match verb:
            case "add":
                self.invited.append(name)
                return {"main": "login:1", "fingerprint": "f", "secret": f"secret {len(self.invited)}"}
            case "drain":
                self.hosts[name]["drained"] = (body or {})["why"]
            case "resume":
                self.hosts[name]["drained"] = None
            case "lost":
                self.hosts[name]["jobs"] = []
            case "forget":
                if self.hosts.get(name, {}).get("state") == "ok":
                    raise Conflict("It reports.")
                self.hosts.pop(name, None)
        return {}

    def join(self, name: str, *jobs: int) -> None:
        self.hosts[name] = {"name": name, "state": "ok", "devices": 1, "jobs": list(jobs), "drained": None}


class Site:
    def __init__(self, folder: Path) -> None:
        self.home, self.slurm, self.api, self.now = Home(folder), FakeSlurm(), FakeApi(), 1000.0
        pool.add(self.home, Pool(name="slurm", most=3))
        self.restart()

    def restart(self) -> None:
        self.pools = Pools(self.home, self.api, self.slurm, lambda: self.now)  # type: ignore[arg-type]

    def look(self, after_s: float = 60.0) -> None:
        self.now += after_s
        self.pools.turn()

    @property
    def pilots(self) -> list[str]:
        return sorted(file.parent.name for file in self.home.pilots.glob("*/pilot.json"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_pilots_are_requested_while_jobs_wait_and_taken_back_when_none_does(site: Site) -> None:
    site.api.waiting = 2
    site.look()
    site.look()
    assert site.slurm.submitted == len(site.pilots) == 2
    site.api.waiting = 0
    site.look()
    assert site.slurm.there == {}
    site.look()
    assert site.pilots == []


def test_a_restart_of_the_process_loses_no_pilot_and_requests_none_twice(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    site.restart()
    site.look()
    assert site.slurm.submitted == 1


def test_slurm_is_not_asked_about_pilots_that_report(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    site.api.join(site.pilots[0], 7)
    site.api.waiting = 0
    for _ in range(5):
        site.look()
    assert site.slurm.asked == 0


def test_the_jobs_of_a_pilot_that_ended_without_notice_are_ended_and_its_host_is_forgotten(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    (name,) = site.pilots
    site.api.join(name, 7)
    site.api.waiting = 0
    site.slurm.there.clear()
    site.look()
    assert site.api.hosts[name]["jobs"] == [7], "it reports, so it runs"
    site.api.hosts[name]["state"] = "silent"
    site.look()
    assert site.api.hosts[name]["jobs"] == [7], "one that was never started would be queued again"
    site.look()
    assert site.api.hosts[name]["jobs"] == []
    site.look()
    assert site.api.hosts == {}
    assert site.pilots == []


def test_a_pilot_that_waits_in_slurms_queue_for_an_hour_still_has_a_valid_invitation(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    (name,) = site.pilots
    for _ in range(45):
        site.look(after_s=90)
    assert set(site.api.invited) == {name}
    assert len(site.api.invited) == 3
    assert b"secret 3" in (site.home.pilots / name / "order.json").read_bytes()
    assert site.slurm.submitted == 1


def test_a_refusal_of_slurm_is_not_repeated_for_a_minute(site: Site) -> None:
    site.api.waiting = 1
    site.slurm.refuses = "Invalid account"
    site.look()
    assert site.pilots == []
    invited = len(site.api.invited)
    site.look(after_s=3)
    assert len(site.api.invited) == invited
    site.slurm.refuses = None
    site.look()
    assert site.slurm.submitted == 1


def test_a_pilot_that_ended_before_it_joined_is_replaced_a_minute_later(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    (name,) = site.pilots
    (site.home.pilots / name / "slurm.out").write_text("gpuq: no such file\n")
    site.slurm.there.clear()
    site.look()
    assert site.pilots == []
    site.look(after_s=3)
    assert site.slurm.submitted == 1
    site.look()
    assert site.slurm.submitted == 2


def test_the_pilots_of_a_pool_that_was_removed_end(site: Site) -> None:
    site.api.waiting = 2
    site.look()
    pool.remove(site.home, "slurm")
    site.look()
    site.look()
    assert site.slurm.there == {}
    assert site.pilots == []


def test_what_pilots_took_counts_for_the_hours_of_their_pool(site: Site) -> None:
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="slurm", most=3, time_limit_s=3600, most_hours=2))
    site.api.waiting = 1
    site.look()
    (name,) = site.pilots
    site.api.join(name, 7)
    site.api.waiting = 0
    site.look()
    site.slurm.there.clear()
    site.api.hosts[name] |= {"state": "silent", "jobs": []}
    site.look(after_s=1.5 * 3600)
    site.restart()
    site.api.waiting = 1
    site.look()
    assert site.slurm.submitted == 1, "half an hour is left, and a pilot may take one"


def test_the_logs_of_a_pilot_are_kept_for_a_month_and_nothing_else_of_it(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    (name,) = site.pilots
    attempts = site.home.attempts_of_pilot(name)
    (attempts / "7-1").mkdir(parents=True)
    (attempts / "7-1" / "output.log").write_text("hello")
    (attempts.parent / "spool").mkdir()
    site.api.waiting = 0
    site.slurm.there.clear()
    site.look()
    left = sorted(str(path.relative_to(site.home.pilots)) for path in site.home.pilots.glob("**/*") if path.is_file())
    assert left == [f"{name}/gpuq/attempts/7-1/output.log"]
    site.now = time.time() + 31 * 86_400
    site.look()
    assert not (site.home.pilots / name).exists()


def test_an_idle_pilot_is_drained_and_ends_unless_a_job_came_meanwhile(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    (name,) = site.pilots
    site.api.join(name)
    site.api.waiting = 0
    site.look()
    site.look(after_s=590)
    assert site.api.hosts[name]["drained"] is None
    site.look(after_s=20)
    assert site.api.hosts[name]["drained"]
    site.api.hosts[name]["jobs"] = [8]
    site.look(after_s=3)
    assert site.api.hosts[name]["drained"] is None
    assert site.slurm.there
    site.api.hosts[name]["jobs"] = []
    site.look(after_s=3)
    site.look(after_s=601)
    site.look(after_s=3)
    assert site.slurm.there == {}


def test_jobs_that_wait_for_no_device_request_none(site: Site) -> None:
    site.api.waiting, site.api.rule = 3, "BeginTime"
    site.look()
    assert site.slurm.submitted == 0
    site.api.rule = "NoDevices"
    site.look()
    assert site.slurm.submitted == 3


def test_a_pilot_does_not_end_while_a_job_waits_that_it_could_run(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    (name,) = site.pilots
    site.api.join(name)
    for _ in range(20):
        site.look()
    assert site.slurm.there
    assert site.api.hosts[name]["drained"] is None
