"""Pilots that come and go, over and over: none is left, none is kept idle for longer than it may be, and Slurm is seldom called.

In virtual time, with a site that also fails: `pytest tests/pools/test_cycles.py --count 1000 -s` for as many cycles.
"""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from gpuq.adapters.slurm import SlurmJob
from gpuq.errors import GpuqError, Unreachable
from gpuq.pools import pool
from gpuq.pools.pool import Pool
from tests.pools.site import FakeSlurm, Site

LOOK_S, IDLE_S = 3.0, 60.0


class BusySlurm(FakeSlurm):
    """Counts the calls of its controller, and is away at times."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance, self.calls, self.away = chance, 0, 0.05

    def _called(self) -> None:
        self.calls += 1
        if self.chance.random() < self.away:
            raise Unreachable("Slurm does not answer.")

    def submit(self, script: str, options: list[str]) -> int:
        self._called()
        number = super().submit(script, options)
        if self.chance.random() < self.away:
            raise Unreachable("The answer is lost.")
        return number

    def jobs(self, ids: set[int]) -> dict[int, SlurmJob]:
        self._called()
        return super().jobs(ids)

    def jobs_in(self, folders: set[str]) -> dict[str, SlurmJob]:
        self._called()
        return super().jobs_in(folders)

    def ended(self, job: int) -> str:
        self._called()
        return super().ended(job)

    def cancel(self, ids: list[int]) -> None:
        if ids:
            self._called()
        super().cancel(ids)


class Cycles:
    """A site that runs one burst of jobs after the other, and loses a pilot or the process that keeps pools now and then."""

    def __init__(self, folder: Path) -> None:
        self.chance = random.Random(1)
        self.site = Site(folder)
        self.site.slurm = self.slurm = BusySlurm(self.chance)
        pool.remove(self.site.home, "slurm")
        pool.add(self.site.home, Pool(name="slurm", most=3, idle_s=IDLE_S))
        self.site.restart()
        self.idle_s: dict[str, float] = {}

    def look(self) -> None:
        with suppress(GpuqError):  # as `gpuq.pools` does: the next look is in three seconds
            self.site.look(after_s=LOOK_S)
        hosts = self.site.api.hosts
        running = {name for name, host in hosts.items() if host["state"] == "ok"}
        for name in running:
            self.idle_s[name] = 0.0 if hosts[name]["jobs"] else self.idle_s.get(name, 0.0) + LOOK_S
        for number, name in self.of_slurm().items():
            if number not in self.slurm.there and name in running:
                hosts[name]["state"] = "silent"

    def of_slurm(self) -> dict[int, str]:
        return {one.slurm_job: one.name for one in self.site.pools._folders.read() if one.slurm_job is not None}

    def cycle(self) -> None:
        """A burst: pilots start, run it, and are idle then; some end without notice, and their jobs run elsewhere."""
        api = self.site.api
        api.waiting = self.chance.randint(1, 3)
        for _ in range(1000):
            self.look()
            if not api.waiting:
                break
            waiting_pilots = [name for number, name in self.of_slurm().items() if number in self.slurm.there]
            for name in waiting_pilots:
                if name not in api.hosts and self.chance.random() < 0.3 and api.waiting:
                    api.join(name, 7)
                    api.waiting -= 1
            if self.chance.random() < 0.02:
                self.site.restart()
        for _ in range(self.chance.randint(1, 30)):
            self.look()
        lost = [number for number in self.slurm.there if self.chance.random() < 0.1]
        for number in lost:
            del self.slurm.there[number]
        self.look()
        for host in api.hosts.values():
            if host["state"] == "ok":
                host["jobs"] = []
        for _ in range(400):
            if not self.of_slurm() and not api.hosts:
                return
            self.look()
        raise AssertionError(f"left: {self.of_slurm()}, {api.hosts}, {self.slurm.there}")


def test_no_pilot_leaks_and_none_is_idle_for_longer_than_it_may_be(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cycles, count = Cycles(tmp_path), request.config.getoption("--count") or 20
    for _ in range(count):
        cycles.cycle()
    assert cycles.slurm.there == {}
    assert not list(cycles.site.home.pilots.glob("*/"))
    pilots, idle_s = cycles.slurm.submitted, max(cycles.idle_s.values())
    calls = cycles.slurm.calls / pilots
    print(
        f"{count} cycles, {pilots} pilots, none left; idle for {idle_s:.0f} s at most; {calls:.1f} calls of Slurm a pilot"
    )
    # Two looks for draining and ending it, and more where Slurm is away just then.
    assert idle_s <= IDLE_S + 10 * LOOK_S
    assert calls <= 10
