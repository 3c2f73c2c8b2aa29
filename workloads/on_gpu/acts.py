"""What is done on the machine: each act works in its step's folder, keeps every finished piece there, and goes on with the next.

Everything runs as users run it: `gpuq` by its command, the trainings by theirs. Nothing here needs a network, a Redis server or
TensorFlow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from gpuq_workers import mps
from gpuq_workers.backend import open_backend
from gpuq_workers.measuring.progress import hook_environment, read_progress
from gpuq_workers.shim.mps import PIPES

from gpuq.adapters.devices import Backend, ResidentProcess
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.settings import Devices, load
from workloads.demo.gpuq import Gpuq
from workloads.on_gpu.steps import OutOfTime, Room

Facts = dict[str, Any]
GPUQ = Path(sys.executable).with_name("gpuq")
_ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED", "NODE_FAIL"}
_RESERVE_S = 20.0


@dataclass(frozen=True)
class Plan:
    """Which trainings are used. A training is its words after `python`, without a limit of its own; `backend` as in [devices]."""

    backend: str
    sharing_jobs: tuple[tuple[str, ...], tuple[str, ...]]
    memory_jobs: tuple[tuple[str, ...], ...]
    hook_job: tuple[str, ...]
    campaign: Path
    campaign_pairs: int = 20
    hook_pairs: int = 6
    train_s: float = 40.0


# --- 1: the driver's answers ---------------------------------------------------------------------------------------


def driver(plan: Plan, room: Room) -> Facts:
    """What the driver answers to every question of ours; on a CPU, that there is none."""
    if plan.backend == "cpu":
        return {"skipped": "CPU devices have no driver"}
    done = _python(["-m", "workloads.on_gpu.record_driver"], room, os.environ)
    found: Facts = json.loads(done.stdout)
    return found


# --- 2: two jobs that share, through all of gpuq ---------------------------------------------------------------------


def share(plan: Plan, room: Room) -> Facts:
    """Two trainings, each alone first so that it is known, then both at once; what gpuq measured, predicted and decided."""
    settings = {"GPUQ_DEVICES_BACKEND": plan.backend, "GPUQ_ADMISSION_MAX_SLOWDOWN": "3.0"}
    facts: Facts = {"jobs": {}}
    with Gpuq(settings) as gpuq:
        gpuq.wait_ready()
        facts["devices"] = gpuq.get("/api/v1/gpus")
        for number in (0, 1):
            facts["jobs"][f"alone{number}"] = _finished(gpuq, [_submit(gpuq, plan, number)], room)[0]
        together = [_submit(gpuq, plan, number) for number in (0, 1)]
        seen: list[Any] = []
        for number, job in enumerate(_finished(gpuq, together, room, lambda: seen.append(gpuq.get("/api/v1/gpus")))):
            facts["jobs"][f"together{number}"] = job
        facts["most_on_one_device"] = max((len(one["residents"]) for look in seen for one in look), default=0)
        facts["devices_while_shared"] = next(
            (look for look in seen if any(len(one["residents"]) > 1 for one in look)), None
        )
    states = {name: job["state"] for name, job in facts["jobs"].items()}
    if set(states.values()) != {"COMPLETED"}:
        raise RuntimeError(f"not all jobs completed: {states}")
    return facts


def _submit(gpuq: Gpuq, plan: Plan, number: int) -> int:
    script, *words = plan.sharing_jobs[number]
    return int(gpuq.ask("submit", "--json", script, *words, "--seconds", f"{plan.train_s:g}")["id"])


def _finished(gpuq: Gpuq, jobs: Sequence[int], room: Room, look: Callable[[], None] | None = None) -> list[Facts]:
    while True:
        found = [gpuq.job(job) for job in jobs]
        if all(job["state"] in _ENDED for job in found):
            return found
        if room.left() < _RESERVE_S:
            raise OutOfTime("the jobs did not end in time; all of this step is repeated")
        if look is not None:
            look()
        time.sleep(1)


# --- 3: the campaign -------------------------------------------------------------------------------------------------


def campaign(plan: Plan, room: Room, sharing: str) -> Facts:
    """Every training of the list alone, then pairs, under one way of sharing; `gpuq characterize` keeps its own place."""
    words = [str(GPUQ), "characterize", str(plan.campaign), "--out", str(room.folder), "--backend", plan.backend]
    words += ["--pairs", str(plan.campaign_pairs), "--json", "--for", f"{max(1, int(room.left() - _RESERVE_S))}s"]
    # A rehearsal on CPU devices is to go through, not to measure.
    words += ["--busy-anyway"] if plan.backend == "cpu" else ["--sharing", sharing]
    with _mps(plan, room, sharing == "mps" and plan.backend != "cpu") as environment:
        try:
            done = subprocess.run(
                words, env=environment, capture_output=True, text=True, check=False, timeout=max(1.0, room.left())
            )
        except subprocess.TimeoutExpired as error:
            raise OutOfTime("gpuq characterize did not end by itself in time; what it noted is kept") from error
    (room.folder / "said.txt").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise RuntimeError(f"gpuq characterize ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    result: Facts = json.loads(done.stdout.splitlines()[-1])
    if any(result["left"].values()):
        raise OutOfTime(f"left: {result['left']}, about {result['seconds_left'] / 60:.0f} minutes")
    return {**result, "out": str(room.folder)}


@contextmanager
def _mps(plan: Plan, room: Room, wanted: bool) -> Iterator[dict[str, str]]:
    """The environment of its clients, with MPS running meanwhile; ours unchanged where it is not wanted."""
    if not wanted:
        yield dict(os.environ)
        return
    home = {"GPUQ_HOME": str(room.folder / "home")}
    settings = replace(load(home), devices=Devices(backend=plan.backend, mps=True))
    settings.home.create()
    mps.start(settings)
    try:
        yield {**os.environ, PIPES: str(settings.home.mps_pipes)}
    finally:
        mps.stop(settings)


# --- 4: the driver's memory against the allocator's -------------------------------------------------------------------


def memory(plan: Plan, room: Room) -> Facts:
    """Each training's peak memory as gpuq reads it, beside what its framework's allocator says of itself."""
    rows: list[Facts] = []
    backend = open_backend(replace(load({"GPUQ_HOME": str(room.folder)}), devices=Devices(backend=plan.backend)))
    try:
        for number, words in enumerate(plan.memory_jobs):
            rows.append(_kept(room, f"job{number}", lambda words=words: _peaks(plan, words, room, backend)))
    finally:
        backend.close()
    ratios = [
        row["read_peak_bytes"] / row["allocator_reserved_bytes"] for row in rows if row["allocator_reserved_bytes"]
    ]
    return {"jobs": rows, "read_over_reserved": {"median": median(ratios), "n": len(ratios)} if ratios else None}


def _peaks(plan: Plan, words: Sequence[str], room: Room, backend: Backend) -> Facts:
    device = backend.devices()[0].id
    placement = backend.placement([device])
    env = {**os.environ, **placement.env, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    log = room.folder / "training.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *words, "--seconds", f"{plan.train_s / 2:g}"], env=env, stdout=output
        )
        me = ResidentProcess(AttemptId(JobId(1), 1), process.pid, (device,))
        read: list[int] = []
        try:
            while process.poll() is None:
                used = backend.read(time.time(), [me]).usage[me.attempt].memory_bytes
                read += [used] if used else []
                if room.left() < _RESERVE_S / 2:
                    raise OutOfTime("a training did not end in time")
                time.sleep(0.5)
        finally:
            process.kill()
            process.wait()
    summary = _summary(log.read_text())
    reported = {name: summary.get(name) for name in ("allocator_peak_bytes", "allocator_reserved_bytes", "steps_per_s")}
    return {
        "training": [Path(words[0]).name, *words[1:]],
        "read_peak_bytes": max(read, default=None),
        "looks": len(read),
        **reported,
    }


# --- 5: the hook ------------------------------------------------------------------------------------------------------


def hook(plan: Plan, room: Room) -> Facts:
    """Steps per second with the progress hook and without it, in turns: what it costs, and that it counted."""
    rows = [_kept(room, f"pair{number}", lambda n=number: _pair(plan, room, n)) for number in range(plan.hook_pairs)]
    ratios = sorted(row["without"] / row["with"] for row in rows)
    return {"pairs": rows, "time_ratio": {"median": median(ratios), "least": ratios[0], "most": ratios[-1]}}


def _pair(plan: Plan, room: Room, number: int) -> Facts:
    """One run with the hook and one without. Which runs first alternates, so that a drift of the machine cancels out."""
    rates: Facts = {}
    for name in ("with", "without") if number % 2 else ("without", "with"):
        progress = room.folder / "progress"
        progress.unlink(missing_ok=True)
        env = {**os.environ, **(hook_environment(os.environ, progress) if name == "with" else {})}
        done = _python([*plan.hook_job, "--seconds", f"{plan.train_s:g}"], room, env)
        summary = _summary(done.stdout)
        if not summary["steps_per_s"]:
            raise RuntimeError(
                f"{Path(plan.hook_job[0]).name} made no two steps in {plan.train_s:g} s: no rate to compare"
            )
        rates[name] = summary["steps_per_s"]
        if name == "with":
            counted = read_progress(progress)
            rates |= {"steps": summary["steps"], "counted": None if counted is None else counted.steps}
    return rates


# --- shared -----------------------------------------------------------------------------------------------------------


def _kept(room: Room, name: str, make: Callable[[], Facts]) -> Facts:
    """A piece of a step that was finished before, or is now."""
    path = room.folder / f"{name}.json"
    if not path.exists():
        if room.left() < _RESERVE_S:
            raise OutOfTime(f"stopped before {name}")
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(make()))
        aside.rename(path)
    found: Facts = json.loads(path.read_text())
    return found


def _python(words: Sequence[str], room: Room, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(
            [sys.executable, *words],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=max(1.0, room.left()),
        )
    except subprocess.TimeoutExpired as error:
        raise OutOfTime(f"{words[0]} did not end in time") from error
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    return done


def _summary(output: str) -> Facts:
    """The last line of a training's output."""
    found: Facts = json.loads(output.strip().splitlines()[-1])
    return found
