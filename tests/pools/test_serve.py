"""One look of the process that keeps pools, with a Slurm and an API that are lists."""

from __future__ import annotations

import errno
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from gpuq_workers import last_events

from gpuq.adapters.slurm import SlurmJob
from gpuq.errors import BadInput, Conflict, Unreachable
from gpuq.home import Home
from gpuq.pools import pilots, pool, requests, serve
from gpuq.pools.pilots import PilotFolders
from gpuq.pools.pool import Pod, Pool
from gpuq.pools.serve import Pools


class FakeSlurm:
    def __init__(self) -> None:
        self.there: dict[int, str] = {}
        self.submitted = 0
        self.refuses: str | None = None
        self.loses: str | None = None
        self.reason = "Resources"
        self.asked = 0
        self.cancelled: list[int] = []
        self.options: list[list[str]] = []

    def submit(self, script: str, options: list[str]) -> int:
        if self.refuses:
            raise BadInput(self.refuses)
        assert "gpuq_workers.pilot" in script
        if self.loses == "request":
            raise Unreachable("Slurm does not answer.")
        self.submitted += 1
        self.options.append(options)
        self.there[self.submitted] = "PENDING"
        if self.loses == "answer":
            raise Unreachable("Slurm does not answer.")
        return self.submitted

    def jobs(self, ids: set[int]) -> dict[int, SlurmJob]:
        self.asked += 1
        return {number: SlurmJob(number, self.there[number], self.reason) for number in ids if number in self.there}

    def jobs_in(self, folders: set[str]) -> dict[str, SlurmJob]:
        of_folder = {self.folder_of(number): number for number in self.there}
        found = {folder: number for folder, number in of_folder.items() if folder in folders}
        return {folder: SlurmJob(number, self.there[number], self.reason) for folder, number in found.items()}

    def folder_of(self, number: int) -> str:
        return next(word.removeprefix("--chdir=") for word in self.options[number - 1] if word.startswith("--chdir="))

    def ended(self, job: int) -> str:
        return "FAILED, NonZeroExitCode, exit code 127:0, on n7"

    def take_back(self, ids: list[int]) -> None:
        self.cancel([number for number in ids if self.there.get(number) == "PENDING"])

    def cancel(self, ids: list[int]) -> None:
        self.cancelled += ids
        for number in ids:
            self.there.pop(number, None)


class FakeApi:
    """`hosts` by name as the API's; `waiting` jobs of one device of which nothing is known."""

    def __init__(self) -> None:
        self.hosts: dict[str, dict[str, Any]] = {}
        self.invited: list[str] = []
        self.waiting = 0
        self.dependent = 0
        self.away = False
        self.rule: str | None = None
        self.numbers: dict[str, float] = {}
        self.limit_s: float | None = None
        self.hosts_wanted = 1
        self.forecast: dict[str, Any] = {}
        self.resident: dict[str, Any] = {"forecast": None, "started_at": None, "promised_bytes": 80}

    def get(self, path: str, after: int | None = None, limit: int = 0, **_: object) -> Any:
        if self.away:
            raise Unreachable("The dispatcher does not say which hosts there are.")
        if path == "/api/v1/hosts":
            return list(self.hosts.values())
        if path == "/api/v1/gpus":
            return [
                {
                    "host": host["name"],
                    "until_at_unix": host["until_at"],
                    "total_memory_bytes": 80,
                    "residents": [self.resident for _ in host["jobs"][n : n + 1]],
                }
                for host in self.hosts.values()
                for n in range(host["devices"])
            ]
        assert path == "/api/v1/jobs"
        dependent = [{"id": number, "verdict": {"rule": "Dependency"}} for number in range(self.dependent)]
        verdict = None if self.rule is None else {"rule": self.rule, "numbers": self.numbers}
        job = {
            "share": "auto",
            "gpus": self.hosts_wanted,
            "wanted_hosts": self.hosts_wanted,
            "time_limit_s": self.limit_s,
            "preemptible": False,
            "forecast": self.forecast,
        }
        waiting = [{**job, "id": self.dependent + number, "verdict": verdict} for number in range(self.waiting)]
        begin = after or 0
        page = (dependent + waiting)[begin : begin + limit]
        return {"jobs": page, "next": begin + limit if len(page) == limit else None}

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

    def join(self, name: str, *jobs: int, until_at: float | None = None) -> None:
        host = {"name": name, "state": "ok", "devices": 1, "jobs": list(jobs), "drained": None, "until_at": until_at}
        self.hosts[name] = host


class Site:
    def __init__(self, folder: Path) -> None:
        self.home, self.slurm, self.api, self.now = Home(folder), FakeSlurm(), FakeApi(), 1000.0
        pool.add(self.home, Pool(name="slurm", most=3))
        self.restart()

    def restart(self, **others: Any) -> None:
        """Start the process again, with `others` of its settings."""
        self.pools = Pools(self.home, self.api, self.slurm, lambda: self.now, **others)  # type: ignore[arg-type]

    def look(self, after_s: float = 60.0) -> None:
        self.now += after_s
        self.pools.turn()

    def stay(self, seconds: float) -> None:
        """Look every ten seconds for so long."""
        until = self.now + seconds
        while self.now < until:
            self.look(after_s=min(10.0, until - self.now))

    def look_idle(self) -> None:
        """Look while a pilot is idle for longer than its limit, and again when it has ended."""
        self.stay(601)
        self.look(after_s=3)

    def requested(self) -> str:
        """The name of the only pilot, requested for a job that waits."""
        self.api.waiting = 1
        self.look()
        (name,) = self.pilots
        return name

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


def test_a_pilot_that_slurm_started_just_before_it_was_taken_back_runs_on(site: Site) -> None:
    name = site.requested()
    site.slurm.there[1] = "RUNNING"
    site.api.waiting = 0  # the job has started there, and the hosts do not show it yet
    site.look(after_s=3)
    assert site.slurm.there == {1: "RUNNING"}
    site.api.join(name, 7)
    site.look(after_s=3)
    site.api.hosts[name]["jobs"] = []
    site.look(after_s=3)
    site.look_idle()
    assert site.slurm.cancelled == [1], "it ends when it is idle, as others do"


def test_jobs_that_come_do_not_count_on_a_pilot_that_was_taken_back(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    site.api.waiting = 0
    site.look(after_s=3)
    assert site.slurm.there == {}
    site.api.waiting = 1
    site.look(after_s=3)
    assert site.slurm.submitted == 2
    assert not (site.home.pilots / "slurm.problem").exists()


def test_a_restart_of_the_process_loses_no_pilot_and_requests_none_twice(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    site.restart()
    site.look()
    assert site.slurm.submitted == 1
    (record,) = PilotFolders(site.home).read()
    assert record.slurm_says == "Resources"


def test_slurm_is_not_asked_about_pilots_that_report(site: Site) -> None:
    site.api.waiting = 1
    site.look()
    site.api.join(site.pilots[0], 7)
    site.api.waiting = 0
    for _ in range(5):
        site.look()
    assert site.slurm.asked == 0


def test_slurm_is_asked_the_less_often_the_longer_a_pilot_has_waited(site: Site) -> None:
    site.api.waiting = 1
    for _ in range(8 * 120):
        site.look(after_s=30)
    assert site.slurm.submitted == 1
    assert 15 < site.slurm.asked < 35, "in eight hours"


def test_slurm_is_asked_the_less_often_the_longer_a_pilot_is_suspended(site: Site) -> None:
    name = site.requested()
    site.api.join(name, 7)
    site.api.waiting = 0
    site.look()
    at = datetime.fromtimestamp(site.now, UTC).isoformat()
    site.slurm.there[1] = "SUSPENDED"
    site.api.hosts[name] |= {"state": "silent", "reported_at": at}
    for _ in range(8 * 120):
        site.look(after_s=30)
    assert 15 < site.slurm.asked < 35, "in eight hours"
    assert site.api.hosts[name]["jobs"] == [7], "it goes on when it is resumed"


def test_a_pilot_is_cancelled_once(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.api.waiting = 0
    for _ in range(300):
        site.look(after_s=3)
    assert site.slurm.cancelled == [1]
    site.api.hosts.pop(name)
    pool.remove(site.home, "slurm")
    site.look()
    assert site.slurm.cancelled == [1]


def test_the_jobs_of_a_pilot_that_ended_without_notice_are_ended_and_its_host_is_forgotten(site: Site) -> None:
    name = site.requested()
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


def test_a_pilot_that_slurm_ended_is_asked_for_its_last_ends_before_its_jobs_count_as_lost(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = site.requested()
    site.api.join(name, 7)
    site.api.waiting = 0
    read: list[tuple[Home, list[int]]] = []
    monkeypatch.setattr(last_events, "send", lambda home: read.append((home, site.api.hosts[name]["jobs"])))
    site.api.hosts[name]["state"] = "silent"
    site.look()
    assert read == [], "Slurm has the job"
    site.slurm.there.clear()
    site.look()
    assert read == [(Home(site.home.pilots / name / "gpuq"), [7])]


def test_a_pilot_is_ordered_to_have_the_settings_of_this_gpuq(site: Site) -> None:
    site.restart(settings={"learning": {"level_after_s": 10.0}})
    order = json.loads((site.home.pilots / site.requested() / "order.json").read_bytes())
    assert order["settings"] == {"learning": {"level_after_s": 10.0}}


def test_a_pilot_that_waits_in_slurms_queue_for_an_hour_still_has_a_valid_invitation(site: Site) -> None:
    name = site.requested()
    for _ in range(45):
        site.look(after_s=90)
    assert set(site.api.invited) == {name}
    assert len(site.api.invited) == 3
    assert b"secret 3" in (site.home.pilots / name / "order.json").read_bytes()
    assert site.slurm.submitted == 1


def test_a_pilot_that_waits_while_gpuq_is_upgraded_is_ordered_to_run_the_new_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = site.requested()
    monkeypatch.setattr(serve, "__version__", "9.9")
    monkeypatch.setattr(requests, "__version__", "9.9")
    site.restart()
    site.look(after_s=3)
    assert json.loads((site.home.pilots / name / "order.json").read_bytes())["version"] == "9.9"
    site.look(after_s=3)
    assert len(site.api.invited) == 2, "once"


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


def test_a_refusal_that_stays_is_repeated_ever_less_often_and_at_once_in_a_pool_that_is_added_again(site: Site) -> None:
    site.api.waiting, site.slurm.refuses = 1, "Invalid account"
    for _ in range(8 * 1200):
        site.look(after_s=3)
    assert len(site.api.invited) < 30, "in eight hours"
    site.slurm.refuses = None
    pool.remove(site.home, "slurm")
    site.look(after_s=3)
    pool.add(site.home, Pool(name="slurm", most=3))
    site.look(after_s=3)
    assert site.slurm.submitted == 1


def test_when_a_pilot_has_ended_the_next_one_is_requested_though_requests_were_refused(site: Site) -> None:
    """A site that takes one job at a time of a user refuses the others, until that one has ended."""
    name = site.requested()
    site.slurm.refuses = "Job violates accounting/QOS policy"
    site.api.join(name, 7)
    site.stay(3600)
    site.slurm.refuses = None
    site.api.hosts[name] |= {"state": "silent", "jobs": []}
    site.slurm.there.clear()
    site.stay(40)
    assert site.slurm.submitted == 2


def test_a_controller_that_is_back_is_asked_for_a_pilot_within_minutes_however_long_it_was_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: set[str]) -> dict[str, SlurmJob]:
        raise Unreachable("Slurm does not answer.")

    site.slurm.loses, site.api.waiting = "request", 1
    with monkeypatch.context() as patched:
        patched.setattr(site.slurm, "jobs_in", away)
        site.stay(7200)
    site.slurm.loses = None
    site.stay(60)
    assert site.slurm.submitted == 1


def test_pilots_that_fail_together_count_as_one_failure(site: Site) -> None:
    site.api.waiting = 3
    site.look()
    site.slurm.there.clear()
    site.look()
    assert site.pilots == []
    site.look(after_s=61)
    assert site.slurm.submitted == 6


def test_after_a_pilot_that_joined_the_first_failure_counts_as_the_first(site: Site) -> None:
    site.api.waiting, site.slurm.refuses = 1, "Invalid account"
    site.stay(900)
    site.slurm.refuses = None
    site.stay(1000)
    (name,) = site.pilots
    site.api.join(name, 7)
    site.look()
    site.api.waiting, site.slurm.refuses = 1, "Invalid account"
    site.look()
    site.slurm.refuses = None
    site.look()
    assert site.slurm.submitted == 2


def test_an_account_without_hours_is_said_in_slurms_word_with_the_fix_until_the_pilot_starts(site: Site) -> None:
    site.api.waiting = 1
    site.slurm.reason = "AssocGrpGRESMinutes"
    site.look()
    site.look()
    said = json.loads((site.home.pilots / "slurm.problem").read_text())
    assert said["problem"] == "Slurm does not start job 1: AssocGrpGRESMinutes."
    assert "--account=" in said["fix"]
    site.api.join(site.pilots[0], 7)
    site.look()
    assert not (site.home.pilots / "slurm.problem").exists()


def test_a_pilot_that_ended_before_it_joined_is_replaced_a_minute_later(site: Site) -> None:
    name = site.requested()
    (site.home.pilots / name / "slurm.out").write_text("/opt/gpuq/bin/python: not found\n")
    site.slurm.there.clear()
    site.look()
    assert site.pilots == []
    assert json.loads((site.home.pilots / "slurm.problem").read_text()) == {
        "at": site.now,
        "problem": "Slurm job 1 ended before it joined (FAILED, NonZeroExitCode, exit code 127:0, on n7). "
        "/opt/gpuq/bin/python: not found",
        "fix": "The nodes do not see this gpuq: install it in a folder that they share.",
    }
    site.look(after_s=3)
    assert site.slurm.submitted == 1
    site.look()
    assert site.slurm.submitted == 2
    site.api.join(site.pilots[0], 7)
    site.look()
    assert not (site.home.pilots / "slurm.problem").exists()


def test_a_pilot_that_slurm_ended_before_it_joined_says_nothing_against_the_nodes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.slurm, "ended", lambda job: "PREEMPTED, None, exit code 0:15, on n7")
    site.requested()
    site.slurm.there.clear()
    site.look()
    said = json.loads((site.home.pilots / "slurm.problem").read_bytes())
    assert said["fix"].startswith("Slurm ended it, not gpuq;")


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
    name = site.requested()
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
    name = site.requested()
    attempts = site.home.attempts_of_pilot(name)
    (attempts / "7-1").mkdir(parents=True)
    (attempts / "7-1" / "output.log").write_text("hello")
    (attempts.parent / "spool").mkdir()
    site.api.waiting = 0
    site.look()
    site.look()
    left = sorted(str(path.relative_to(site.home.pilots)) for path in site.home.pilots.glob("**/*") if path.is_file())
    assert left == [f"{name}/gpuq/attempts/7-1/output.log"]
    site.now = time.time() + 31 * 86_400
    site.look()
    assert not (site.home.pilots / name).exists()


def test_an_idle_pilot_is_drained_and_ends_unless_a_job_came_meanwhile(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.api.waiting = 0
    site.look()
    site.stay(590)
    assert site.api.hosts[name]["drained"] is None
    site.look(after_s=20)
    assert site.api.hosts[name]["drained"]
    site.api.hosts[name]["jobs"] = [8]
    site.look(after_s=3)
    assert site.api.hosts[name]["drained"] is None
    assert site.slurm.there
    site.api.hosts[name]["jobs"] = []
    site.look(after_s=3)
    site.look_idle()
    assert site.slurm.there == {}


class FakePods(FakeSlurm):
    """Of one place; pods that have ended are there until they are deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.manifests: list[dict[str, Any]] = []
        self.away = False

    def jobs(self, ids: set[int]) -> dict[int, SlurmJob]:
        self._reach()
        return super().jobs(ids)

    def cancel(self, ids: list[int]) -> None:
        self._reach()
        super().cancel(ids)

    def _reach(self) -> None:
        if self.away:
            raise Unreachable("The cluster does not answer.")

    def submit(self, manifest: dict[str, Any]) -> None:  # type: ignore[override]
        self._reach()
        self.manifests.append(manifest)
        if self.loses != "late":
            self.there[int(manifest["metadata"]["labels"]["gpuq.pilot"])] = "PENDING"
        if self.loses:
            raise Unreachable("The cluster does not answer.")

    def folder_of(self, number: int) -> str:
        return next(
            str(one["metadata"]["annotations"]["gpuq.folder"])
            for one in self.manifests
            if one["metadata"]["labels"]["gpuq.pilot"] == str(number)
        )


def test_a_pool_of_pods_requests_takes_back_and_deletes_pods_in_its_place(site: Site) -> None:
    pod = Pod(image="i", claim="home", mount=str(site.home.root), namespace="lab")
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="kubernetes", most=3, pod=pod))
    places: dict[tuple[str, ...], FakePods] = {}

    def place(where: Any) -> FakePods:
        return places.setdefault(tuple(where), FakePods())

    site.restart(pods=place)
    site.api.waiting = 2
    site.look()
    (there,) = places.values()
    assert (list(places), len(there.manifests), site.slurm.submitted) == ([("--namespace=lab",)], 2, 0)
    order = json.loads((site.home.pilots / site.pilots[0] / "order.json").read_bytes())
    assert order["lasts_s"] == 4 * 3600
    site.api.join(site.pilots[0], 7)
    site.api.waiting = 0
    site.look(after_s=3)
    assert len(there.cancelled) == 1, "the one that waits"
    pool.remove(site.home, "kubernetes")
    site.look(after_s=3)
    assert there.there == {}, "its place is known though its pool is not any more"
    site.api.hosts[site.pilots[0]] |= {"state": "silent", "jobs": []}
    for _ in range(3):
        site.look(after_s=31)
    assert site.pilots == []
    assert sorted(there.cancelled) == sorted(2 * numbers(there.manifests))


def test_a_cluster_that_does_not_answer_keeps_no_other_pool_waiting(site: Site) -> None:
    """Its pool was removed, so its pilots are to be ended, which cannot be done; and one of Slurm's has ended meanwhile."""
    pods = FakePods()
    site.restart(pods=lambda _: pods)
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="pods", most=1, pod=Pod(image="i", claim="home", mount=str(site.home.root))))
    site.api.waiting = 1
    site.look()
    pool.remove(site.home, "pods")
    pool.add(site.home, Pool(name="slurm", most=1))
    pods.away = True
    site.look()
    assert site.slurm.submitted == 1
    site.slurm.there.clear()
    site.stay(120)
    assert site.slurm.submitted == 2, "the end of the first one was noticed"

    pods.away = False
    site.stay(120)
    assert pods.there == {}


@pytest.mark.parametrize("how", ["answer", "late"])
def test_a_pod_that_was_created_without_an_answer_is_found_and_deleted(site: Site, how: str) -> None:
    pods = FakePods()
    site.restart(pods=lambda _: pods)
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="pods", most=1, pod=Pod(image="i", claim="home", mount=str(site.home.root))))
    site.api.waiting, pods.loses = 1, how
    site.look()
    site.stay(50)
    (number,) = numbers(pods.manifests)
    pods.there[number], pods.loses = "PENDING", None
    site.stay(60)
    (pilot,) = PilotFolders(site.home).read()
    assert pilot.slurm_job == number
    site.api.waiting = 0
    site.stay(60)
    assert (pods.there, site.pilots) == ({}, [])


def test_what_a_pod_took_is_charged_once_though_it_cannot_be_deleted_for_a_while(site: Site) -> None:
    pods = FakePods()
    site.restart(pods=lambda _: pods)
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="pods", most=1, pod=Pod(image="i", claim="home", mount=str(site.home.root))))
    name = site.requested()
    site.api.join(name)
    site.look(after_s=3)
    site.api.hosts[name]["state"], site.api.waiting = "silent", 0
    pods.there.clear()
    site.look(after_s=3600)
    pods.away = True
    site.stay(60)
    pods.away = False
    site.stay(60)
    assert site.pilots == []
    assert PilotFolders(site.home).hours("pods") == pytest.approx(1.0, abs=0.05)


def test_a_pod_that_runs_and_does_not_join_is_called_a_pod(site: Site) -> None:
    pods = FakePods()
    site.restart(pods=lambda _: pods)
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="pods", most=1, pod=Pod(image="i", claim="home", mount=str(site.home.root))))
    site.api.waiting = 1
    site.look()
    (number,) = numbers(pods.manifests)
    pods.there[number] = "RUNNING"
    site.stay(400)
    assert pods.cancelled[0] == number
    said = json.loads((site.home.pilots / "pods.problem").read_bytes())
    assert said["problem"].startswith(f"Pod {number} has run for 3")


def numbers(manifests: list[dict[str, Any]]) -> list[int]:
    return [int(manifest["metadata"]["labels"]["gpuq.pilot"]) for manifest in manifests]


def test_jobs_that_wait_for_no_device_request_none(site: Site) -> None:
    site.api.waiting, site.api.rule = 3, "BeginTime"
    site.look()
    assert site.slurm.submitted == 0
    site.api.rule = "NoDevices"
    site.look()
    assert site.slurm.submitted == 3


def test_a_job_behind_a_thousand_that_wait_for_others_requests_a_pilot(site: Site) -> None:
    site.api.dependent, site.api.waiting = 2500, 1
    site.look()
    assert site.slurm.submitted == 1


def test_a_job_for_which_the_hosts_of_now_have_too_few_devices_requests_a_pilot(site: Site) -> None:
    site.api.waiting, site.api.rule, site.api.numbers = 1, "NeverFits", {"needed_bytes": 2**40, "missing_bytes": 2**39}
    site.look()
    assert site.slurm.submitted == 0, "none would have a larger GPU"
    site.api.numbers = {"wanted_devices": 2, "devices_per_host": 1}
    site.look()
    assert site.slurm.submitted == 1


def test_a_pilot_that_ends_idle_though_jobs_wait_is_not_replaced_for_ten_minutes(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.look()
    site.look_idle()
    assert site.slurm.there == {}, "jobs that wait do not start there"
    site.api.hosts.pop(name)
    site.look()
    assert (site.pilots, site.slurm.submitted) == ([], 1)
    site.look(after_s=600)
    assert site.slurm.submitted == 2


def test_a_pilot_that_ends_idle_while_a_dead_one_holds_its_device_is_replaced_at_once(site: Site) -> None:
    dead = site.requested()
    site.api.join(dead, 7)
    site.look()
    site.api.hosts[dead] |= {"state": "silent"}
    site.slurm.there[1] = "RUNNING"
    site.look(after_s=3)
    (name,) = set(site.pilots) - {dead}
    site.api.join(name)
    for _ in range(250):
        site.look(after_s=3)
    assert name not in site.pilots or site.slurm.cancelled == [2], "no longer than it may be idle"
    site.api.hosts.pop(name)
    site.look()
    site.look(after_s=3)
    assert site.slurm.submitted == 3


@pytest.mark.parametrize("state", ["PENDING", "REQUEUE_HOLD"])
def test_a_pilot_that_slurm_ended_and_queued_again_is_gone_and_cancelled(site: Site, state: str) -> None:
    """As for a job of a higher priority, where the site's own plugin has set --requeue. It may wait there for days."""
    name = site.requested()
    site.slurm.there[1] = "RUNNING"
    site.api.join(name, 7)
    site.api.waiting = 0
    site.look()
    site.slurm.there[1] = state
    site.api.hosts[name]["state"] = "silent"
    site.stay(90)
    assert site.slurm.cancelled == [1]
    assert (site.api.hosts, site.pilots) == ({}, [])


def test_a_pilot_that_is_gone_has_no_room_and_is_removed_without_asking_slurm_again(site: Site) -> None:
    dead = site.requested()
    site.api.join(dead)
    site.look(after_s=3)
    site.api.hosts[dead] |= {"state": "silent", "jobs": [7]}
    del site.slurm.there[1]
    site.look(after_s=31)
    assert site.slurm.submitted == 2
    asked = site.slurm.asked
    for _ in range(8):
        site.look(after_s=3)
    assert site.slurm.cancelled == [], "the job that waits counts on the new one"
    assert site.slurm.asked == asked
    site.look(after_s=9)
    assert site.api.hosts[dead]["jobs"] == []
    site.look(after_s=3)
    assert dead not in site.api.hosts


def test_a_pilot_that_ends_idle_because_no_job_waits_says_nothing_about_the_next_one(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.api.waiting = 0
    site.look()
    site.look_idle()
    site.api.hosts.pop(name)
    site.api.waiting = 1
    site.look()
    assert site.slurm.submitted == 2


def test_a_pilot_whose_jobs_were_shorter_than_a_look_has_worked(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    (site.home.attempts_of_pilot(name) / "7-1").mkdir(parents=True)
    site.look()
    site.look_idle()
    site.api.hosts.pop(name)
    site.look()
    site.look(after_s=3)
    assert site.slurm.submitted == 2, "the next one is requested at once"


def test_a_pilot_that_can_start_no_job_has_no_room_and_ends_when_it_is_idle(site: Site) -> None:
    """As one whose node has no space left. It is heard, so Slurm is not asked."""
    name = site.requested()
    site.api.join(name)
    site.api.hosts[name]["state"] = "failing"
    site.slurm.there[1] = "RUNNING"
    site.look(after_s=3)
    assert (site.slurm.submitted, site.slurm.asked) == (2, 0)
    site.stay(600)
    site.look_idle()
    assert 1 in site.slurm.cancelled


def test_a_pilot_that_an_admin_drained_has_no_room(site: Site) -> None:
    name = site.requested()
    site.api.join(name, 7)
    site.api.hosts[name] |= {"devices": 2, "state": "drained", "drained": "the fan is loud"}
    site.look(after_s=3)
    assert site.slurm.submitted == 2


@pytest.mark.parametrize(("promised", "pilots"), [(20, 1), (80, 2)])
def test_thrifty_requests_no_pilot_for_a_job_that_may_run_beside_another_before_that_ends(
    site: Site, promised: int, pilots: int
) -> None:
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="slurm", most=3, scaling="thrifty"))
    name = site.requested()
    site.api.forecast = {"peak_utilization_pct": 30.0, "duration_p50_s": 600.0}
    started = datetime.fromtimestamp(site.now, UTC).isoformat()
    site.api.resident = {"forecast": site.api.forecast, "started_at": started, "promised_bytes": promised}
    site.api.join(name, 7)
    site.look()
    assert site.slurm.submitted == pilots


def test_a_pilot_has_as_many_gpus_as_the_waiting_jobs_need(site: Site) -> None:
    pool.remove(site.home, "slurm")
    pool.add(site.home, Pool(name="slurm", gpus=4, most=3))
    site.api.waiting = 6
    site.look()
    assert [option for options in site.slurm.options for option in options if "gres" in option] == [
        "--gres=gpu:4",
        "--gres=gpu:2",
    ]


def test_jobs_that_no_pilot_of_any_pool_can_run_are_said_while_they_wait(site: Site) -> None:
    """As one whose kind may take longer than the pilots last, by its forecast."""
    said = site.home.pilots / "all pools.problem"
    site.api.waiting, site.api.forecast = 1, {"duration_p90_s": 5 * 3600.0}
    site.look()
    assert site.slurm.submitted == 0
    assert "may take longer than it lasts" in json.loads(said.read_text())["problem"]
    pool.add(site.home, Pool(name="long", time_limit_s=6 * 3600.0))
    site.look()
    assert (site.slurm.submitted, said.exists()) == (1, False)


def test_a_second_pool_requests_pilots_only_for_what_the_first_cannot_run(site: Site) -> None:
    pool.add(site.home, Pool(name="other", most=3))
    site.api.waiting = 4
    site.look()
    assert sorted(name.rpartition("-")[0] for name in site.pilots) == ["other", "slurm", "slurm", "slurm"]


def test_a_job_over_two_hosts_gets_two_pilots(site: Site) -> None:
    site.api.waiting, site.api.hosts_wanted = 1, 2
    site.look()
    assert site.slurm.submitted == 2


def test_a_pilot_on_which_a_waiting_job_would_not_end_in_time_does_not_count_for_it(site: Site) -> None:
    name = site.requested()
    site.api.join(name, until_at=site.now + 1800)
    site.api.limit_s = 1700.0
    site.look()
    assert site.slurm.submitted == 1
    site.api.limit_s = 3000.0
    site.look()
    assert site.slurm.submitted == 2


def test_a_restart_of_the_process_does_not_give_an_idle_pilot_more_time(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.api.waiting = 0
    site.look()
    site.stay(400)
    site.restart()
    site.stay(210)
    site.look(after_s=3)
    assert site.slurm.there == {}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pilot_is_not_idle_while_the_dispatcher_is_away(site: Site, restarted: bool) -> None:
    name = site.requested()
    site.api.join(name)
    site.look(after_s=3)
    site.api.away = True
    for _ in range(30):
        with pytest.raises(Unreachable):
            site.look()
    site.api.away = False
    if restarted:
        site.restart()
    site.stay(30)
    assert (site.slurm.cancelled, site.api.hosts[name]["drained"]) == ([], None), "its first job may be on its way"
    site.look_idle()
    assert site.slurm.cancelled == [1], "the dispatcher is back, and has nothing for it"


def test_a_pilot_is_not_idle_while_the_dispatcher_does_not_hear_it(site: Site) -> None:
    name = site.requested()
    site.api.join(name)
    site.look(after_s=3)
    site.api.hosts[name]["state"], site.slurm.there[1] = "silent", "RUNNING"
    site.stay(1200)
    assert 1 not in site.slurm.cancelled
    site.api.hosts[name]["state"] = "ok"
    site.api.waiting = 0
    site.stay(590)
    assert 1 not in site.slurm.cancelled
    site.stay(30)
    assert 1 in site.slurm.cancelled


def test_a_pilot_whose_request_slurm_took_without_answering_is_found_by_its_folder(site: Site) -> None:
    site.slurm.loses, site.api.waiting = "answer", 1
    site.look()
    site.slurm.loses = None
    site.stay(90)
    (pilot,) = PilotFolders(site.home).read()
    assert (pilot.slurm_job, site.slurm.submitted) == (1, 1)
    site.api.waiting = 0
    site.stay(40)
    assert (site.slurm.there, site.pilots) == ({}, [])


def test_a_request_that_never_reached_slurm_is_made_again(site: Site) -> None:
    site.slurm.loses, site.api.waiting = "request", 1
    site.look()
    site.slurm.loses = None
    site.stay(180)
    (pilot,) = PilotFolders(site.home).read()
    assert (pilot.slurm_job, list(site.slurm.there)) == (1, [1])


def test_a_pilot_that_joined_before_its_number_was_known_ends_when_it_is_idle(site: Site) -> None:
    site.slurm.loses, site.api.waiting = "answer", 1
    site.look()
    site.restart()  # as if it had been killed while it waited for the answer
    (name,) = site.pilots
    site.slurm.there[1], site.api.waiting = "RUNNING", 0
    site.api.join(name)
    site.look(after_s=3)
    site.look_idle()
    assert site.slurm.cancelled == [1]


def test_a_home_that_is_full_requests_no_pilot_and_leaves_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded", str(path))

    monkeypatch.setattr(pilots, "write_private", full)
    site.api.waiting = 1
    with pytest.raises(OSError, match="quota"):
        site.look()
    assert (site.slurm.submitted, list(site.home.pilots.glob("*/"))) == (0, [])


def test_a_refused_request_leaves_nothing(site: Site) -> None:
    site.slurm.refuses, site.api.waiting = "Invalid qos", 1
    site.look()
    assert not list(site.home.pilots.glob("*/"))


def test_a_slurm_job_that_runs_and_does_not_join_is_ended_with_the_reason(site: Site) -> None:
    name = site.requested()
    site.slurm.there[1] = "RUNNING"
    (site.home.pilots / name / "slurm.out").write_text("hangs\n")
    site.stay(200)
    assert site.slurm.cancelled == []
    site.stay(200)
    assert site.slurm.cancelled == [1]
    said = json.loads((site.home.pilots / "slurm.problem").read_bytes())
    assert "Slurm job 1 has run for 3" in said["problem"]
    assert "did not join" in said["problem"]
    assert "reach this host at login:1" in said["fix"]


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("PartitionTimeLimit", "less `--time`"),
        ("QOSMaxWallDurationPerJobLimit", "less `--time`"),
        ("QOSMaxGRESPerJob", "less `--gpus`"),
        ("AccountNotAllowed", "--account=NAME"),
        ("JobHeldAdmin", "scontrol release"),
        ("AssocMaxGRESMinutesPerJob", "less `--gpus`"),
        ("AssocGrpWallLimit", "no hours left"),
        ("InvalidAccount", "no such account or QOS for you any more"),
        ("QOSMinGRES", "more `--gpus`"),
        ("launch failed requeued held", "scontrol release"),
    ],
)
def test_a_reason_that_time_alone_does_not_change_comes_with_its_fix(site: Site, reason: str, fix: str) -> None:
    site.slurm.reason, site.api.waiting = reason, 1
    site.look()
    site.look()
    said = json.loads((site.home.pilots / "slurm.problem").read_bytes())
    assert said["problem"] == f"Slurm does not start job 1: {reason}."
    assert fix in said["fix"]


def test_a_reason_that_ends_with_the_jobs_that_run_keeps_no_other_pilot_from_being_requested(site: Site) -> None:
    site.slurm.reason, site.api.waiting = "AssocGrpGRESRunMinutes", 1
    site.look()
    site.look()
    assert not (site.home.pilots / "slurm.problem").exists()
    site.api.waiting = 2
    site.look()
    assert site.slurm.submitted == 2


def test_a_pilot_that_got_more_gpus_than_asked_for_is_charged_for_all(site: Site) -> None:
    name = site.requested()
    site.api.join(name, 7)
    site.api.hosts[name]["devices"] = 2
    site.look()
    (pilot,) = PilotFolders(site.home).read()
    assert pilot.gpus == 2


def test_a_slow_slurm_gets_one_request_at_each_look(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = site.slurm.submit

    def slowly(script: str, options: list[str]) -> int:
        site.now += 20
        return submit(script, options)

    monkeypatch.setattr(site.slurm, "submit", slowly)
    site.api.waiting = 3
    site.look()
    assert site.slurm.submitted == 1
    site.look(after_s=3)
    assert site.slurm.submitted == 2


@pytest.mark.parametrize("wrong", ["refused", "stuck"])
def test_jobs_that_a_pool_gets_no_pilot_for_are_left_to_the_next_pool(site: Site, wrong: str) -> None:
    pool.add(site.home, Pool(name="second", most=3, sbatch=("--partition=other",)))
    submit, jobs = site.slurm.submit, site.slurm.jobs

    def of_second(script: str, options: list[str]) -> int:
        if wrong == "refused" and "--job-name=gpuq-slurm" in options:
            raise BadInput("Invalid account")
        return submit(script, options)

    def first_is_stuck(ids: set[int]) -> dict[int, SlurmJob]:
        reasons = {1: "AssocGrpGRESMinutes"} if wrong == "stuck" else {}
        return {number: SlurmJob(number, "PENDING", reasons.get(number, "Resources")) for number in jobs(ids)}

    site.slurm.submit, site.slurm.jobs, site.api.waiting = of_second, first_is_stuck, 1  # type: ignore[method-assign]
    for _ in range(4):
        site.look(after_s=31)
    pools = sorted(one.pool for one in PilotFolders(site.home).read())
    assert pools == (["second", "slurm"] if wrong == "stuck" else ["second"])
    site.api.waiting = 0
    site.stay(60)
    assert site.pilots == []


def test_a_pilot_that_was_cancelled_before_it_started_says_nothing_against_the_nodes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.slurm, "ended", lambda job: "CANCELLED, Resources, exit code 0:0")
    site.requested()
    site.slurm.there.clear()
    site.look()
    said = json.loads((site.home.pilots / "slurm.problem").read_bytes())
    assert said["problem"].endswith("(CANCELLED, Resources, exit code 0:0). Slurm had not started it.")
