"""The whole ring on GPUs: a real gpuq on eight emulated H100s, with NVIDIA's mock of its driver library.

The emulator has the truth: what each job takes of a GPU, and by how much those that share one are slowed. A window of progress
lasts five seconds, so all that can happen at once happens at once, on different GPUs.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuq.cli.client import HttpClient
from tests.support.mock_gpus import MockGpus, emulated
from tests.support.site import Site, wait_for
from tests.support.top_screen import opened_top

STEP = Path(__file__).with_name("emulated_step.py")
MIB = 2**20
LOOK_S = 0.25
# The first window begins five seconds after the first step, and the last one counts from half of that on.
MEASURED_S = 5 + 2.5 + 4 * LOOK_S

# What a job of each kind takes of its GPU: percent, MiB.
NEEDS = {"heavy": (60, 25_000), "heavier": (73, 25_000), "light": (40, 25_000), "lighter": (50, 20_000)}
GANG, HIDDEN, FAULTY, FOREIGN = (45, 15_000), (33, 7_000), (20, 1_000), (30, 60_000)
XID_79 = "{mode: ecc_uncorrectable, after_calls: 1, xid: {code: 79}}"
LOST = "{mode: lost, after_calls: 1}"


class Machine:
    """A gpuq on emulated GPUs."""

    def __init__(self, site: Site, gpus: MockGpus) -> None:
        self.site, self.gpus = site, gpus

    def train(self, kind: str, needs: tuple[float, int], seconds: float, **fields: Any) -> int:
        env = {"PATH": os.environ["PATH"], "EMULATE": str(self.gpus.folder)}
        job = self.site.submit(sys.executable, str(STEP), kind=kind, env=env, **fields)
        self.gpus.plan(job, *needs, seconds)
        return job

    def where(self, job: int) -> list[int]:
        """The GPUs of a job, once it runs."""
        return [int(uuid[-1]) for uuid in self.site.wait(job, "RUNNING", within_s=20)["devices"]]

    def gpu(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.site.get("/api/v1/gpus")[1][number]
        return found

    @contextmanager
    def foreign(self, gpu: int, needs: tuple[float, int]) -> Iterator[None]:
        """A process on this GPU that gpuq did not start."""
        env = {"EMULATE": str(self.gpus.folder), "CUDA_VISIBLE_DEVICES": str(gpu), **emulated(*needs, 100)}
        process = subprocess.Popen([sys.executable, str(STEP)], env=env)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def test_the_ring_on_eight_gpus() -> None:
    with MockGpus() as gpus:
        # The mock is written in Go, which reads the environment that a program was started with.
        site = Site(interpreters=True, devices_backend="nvml", worker_sample_every_s=LOOK_S, admission_risk=1)
        site.env.update(gpus.environ)
        with site:
            machine = Machine(site, gpus)
            alone_on_their_gpus(machine)
            two_on_one_gpu(machine)


def alone_on_their_gpus(machine: Machine) -> None:
    """First runs: each job has its GPUs to itself. On one GPU processes are hidden; two GPUs break, one after foreign load."""
    site, gpus = machine.site, machine.gpus
    gpus.hidden.add(0)
    hidden = machine.train("hidden", HIDDEN, MEASURED_S)
    assert machine.where(hidden) == [0]
    first = {kind: machine.train(kind, needs, MEASURED_S) for kind, needs in NEEDS.items()}
    gang = machine.train("gang", GANG, 5, gpus=2)
    faulty, lost = (machine.train(kind, FAULTY, 60) for kind in ("faulty", "lost"))

    (broken,) = machine.where(faulty)
    with machine.foreign(broken, FOREIGN):
        # A process is on its GPU before its load shows, so a first reading may know only one of the two loads.
        both = pytest.approx(FAULTY[0] + FOREIGN[0], abs=2)
        seen = wait_for(
            lambda: (gpu := machine.gpu(broken))["foreign_memory_bytes"] and gpu["utilization_pct"] == both and gpu, 20
        )
        (resident,) = seen["residents"]
        assert seen["foreign_memory_bytes"] == pytest.approx(FOREIGN[1] * MIB, rel=0.01)
        assert resident["memory_bytes"] == pytest.approx(FAULTY[1] * MIB, rel=0.01)
        assert resident["utilization_pct"] == pytest.approx(FAULTY[0], abs=2)
    gpus.fail(broken, XID_79)
    wait_for(lambda: machine.gpu(broken)["unwell"], 20)
    gpus.crash(broken)
    ended = site.wait(faulty)
    assert (ended["state"], "XID 79" in ended["reason"]) == ("NODE_FAIL", True), ended
    assert ended["actual"]["foreign_load"] > 0

    ended = site.wait(gang)
    assert len(ended["devices"]) == 2
    takes(ended, *GANG)
    assert machine.gpu(0)["processes_visible"] is False
    takes(site.wait(hidden), *HIDDEN)
    (away,) = machine.where(lost)
    gpus.fail(away, LOST)
    wait_for(lambda: machine.gpu(away)["read_at"] is None, 20)
    gpus.crash(away)
    ended = site.wait(lost)
    assert (ended["state"], "did not answer" in ended["reason"]) == ("NODE_FAIL", True), ended
    assert "XID 79" in machine.gpu(broken)["unwell"]

    for kind, job in first.items():
        takes(site.wait(job), *NEEDS[kind])


def two_on_one_gpu(machine: Machine) -> None:
    """What sharing costs, on two GPUs; on a third a job outgrows what is left beside its partner, and has one to itself then."""
    site, gpus = machine.site, machine.gpus
    # Where processes are hidden, jobs that share a GPU have no figures of their own, nor has one that soon follows another.
    gpus.hidden.clear()
    rest = machine.train(
        "rest", (10, 1_000), 60, gpus=3
    )  # all GPUs but two that are broken and three for the residents
    residents = [
        machine.train("heavy", NEEDS["heavy"], 60, max_slowdown=1.4),
        machine.train("light", NEEDS["light"], 60, max_slowdown=1.05),
        machine.train("heavy", NEEDS["heavy"], 60, max_slowdown=1.4),
    ]
    for job in (rest, *residents):
        machine.where(job)
    asyncio.run(shown_by_top(site, residents[0], *NEEDS["heavy"]))
    pairs = {
        1.33 * 1.03: machine.train("heavier", NEEDS["heavier"], MEASURED_S, max_slowdown=1.4),
        1.03: machine.train("lighter", NEEDS["lighter"], MEASURED_S, max_slowdown=1.05),
    }
    for job in pairs.values():
        machine.where(job)
    wait_for(lambda: {round(truth, 4) for truth in pairs} <= {round(value, 4) for value in gpus.slowed()}, 10)
    too_large = machine.train("heavier", (73, 70_000), 4, max_slowdown=1.4)
    wait_for(lambda: [one for one in site.job(too_large)["attempts"] if one["ended_at"]], 20)
    site.request("POST", f"/api/v1/jobs/{rest}/cancel")  # so that there is a GPU to start again on

    ended = site.wait(too_large)
    outgrown, alone = ended["attempts"]
    assert (outgrown["ending"], outgrown["actual"]["memory_cause"]) == ("out of memory", "own growth")
    # It may end before the first look at it, so what tells is where it ran.
    assert outgrown["devices"] in [site.job(one)["devices"] for one in residents]
    assert (ended["state"], alone["actual"]["partners"]) == ("COMPLETED", [])
    takes(ended, 73, 70_000)

    for truth, job in pairs.items():
        measured = site.wait(job)["actual"]
        assert measured["slowdown"] == pytest.approx(truth, rel=0.02), measured


async def shown_by_top(site: Site, job: int, percent: float, mib: int) -> None:
    """The job stands beside its device, with what it takes of it, and what it was forecast to take."""
    async with opened_top(lambda: HttpClient(None, site.env)) as screen:
        shown = f"{percent}/{percent}%"
        # Another job of the same kind runs on another device, so the line is the one that names the job too.
        text = await screen.until(lambda text: line_with(text, shown, f"/79.0G {job}") is not None)
        assert f" {mib / 1024:.1f}/" in (line_with(text, shown, f"/79.0G {job}") or "")


def line_with(text: str, *parts: str) -> str | None:
    """The first line of the text that has all of the parts, the last at its end."""
    lines = (line.rstrip() for line in text.splitlines())
    return next((line for line in lines if line.endswith(parts[-1]) and all(part in line for part in parts)), None)


def takes(ended: dict[str, Any], percent: float, mib: int) -> None:
    """What was measured of a job is what it took."""
    measured = ended["actual"]
    assert ended["state"] == "COMPLETED", ended
    assert measured["peak_memory_bytes"] == pytest.approx(mib * MIB, rel=0.01)
    assert measured["peak_utilization_pct"] == pytest.approx(percent, abs=2)
