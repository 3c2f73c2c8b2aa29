"""The process that keeps pools, with a Slurm and an API that are lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuq.adapters.slurm import SlurmJob
from gpuq.errors import BadInput, Conflict, Unreachable
from gpuq.home import Home
from gpuq.pools import pool
from gpuq.pools.pool import Pool
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

    def problem(self, name: str = "slurm") -> Any:
        """What is said of a pool that gets no pilots; None for nothing."""
        file = self.home.pilots / f"{name}.problem"
        return json.loads(file.read_bytes()) if file.exists() else None

    @property
    def pilots(self) -> list[str]:
        return sorted(file.parent.name for file in self.home.pilots.glob("*/pilot.json"))
