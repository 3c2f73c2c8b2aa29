"""gpuq against its rivals: the same jobs, the same worlds, the same core.

Philly arrivals on 64 devices, scaled to 70, 90 and 110% of exclusive capacity; what the jobs are made of comes from the measured
pairs of `alnair_mps_pairs` and from Gavel's of the P100. Every seed has another stretch of arrivals and draw of workloads.
All candidates whose forecasts matter learn from nothing, night by night, as the daemon does; the bounds know everything. The
slowdown budget is 1.2 for all who look at one.

Writes `build/bench-policies-runs.jsonl`: every figure of every run, a line for each as it ends. What is broken off goes on there:
a run whose line was written by the very same code is not played again.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import chain, product
from pathlib import Path
from statistics import median

from benchmarks.table import BUILD, Row, number
from gpuq.core.scheduling.limits import Limits
from gpuq.home import Home
from gpuq.lab.rivals import BOUNDS, RIVALS
from gpuq.lab.traces.named import philly_scenario
from gpuq.settings import Settings
from gpuq.sim.forecaster import Cold, Forecaster, Oracle
from gpuq.sim.learned import Learned
from gpuq.sim.named import candidate_named
from gpuq.sim.report.figures import RunFigures, figures
from gpuq.sim.run import DAY_S, simulate
from gpuq.sim.scenario_builder import Scenario

WORLDS = ("mps", "gavel-p100")
LOADS = (0.7, 0.9, 1.1)
SEEDS = (1, 2, 3, 4, 5)
JOBS = 1500
GPUS = 64
BUDGET = 1.2
SETTLED_S = 7 * DAY_S

# They look at no forecast, so that none need be learnt for them.
_BLIND = frozenset(
    {
        "exclusive-fifo", "least-attained-preemptive", "declared-memory-only", "two-per-gpu-always",
        "utilisation-80-oom-retry",
    }
)  # fmt: skip
_OURS, _ALONE, _FIFO, _BOUND = "packed", "packed-exclusive", "exclusive-fifo", "oracle-packing"
_NEEDS_KNOWN, _ORDER_KNOWN = "packed-needs-known", "oracle-exclusive"
# With the objective `saving` it is asked what a pair saves and not how much it slows a job, as these rivals do not ask either.
_SAVING, _CARELESS = "packed-saving", ("declared-memory-only", "two-per-gpu-always", "utilisation-80-oom-retry")
CANDIDATES = (_OURS, _SAVING, _ALONE, _NEEDS_KNOWN, *RIVALS, *BOUNDS)
# What perfect knowledge would add to our order without sharing: to sharing, to the order, to both.
_PARTS = {
    "packed, needs and pairs known": _NEEDS_KNOWN,
    "durations known, no sharing": _ORDER_KNOWN,
    "all known": _BOUND,
}


@dataclass(frozen=True)
class Task:
    """One run."""

    data: Path
    world: str
    load: float
    candidate: str
    seed: int

    @property
    def cell(self) -> tuple[str, float]:
        """Where it is compared with others."""
        return self.world, self.load


@dataclass(frozen=True)
class Played:
    """What came of it: over all jobs, and over those submitted after seven nights."""

    task: Task
    whole: RunFigures
    settled: RunFigures
    seconds: float


def run(data: Path) -> list[Row]:
    """The rows. Seed by seed, and each run is kept as it ends: a bench that is broken off has all seeds before."""
    BUILD.mkdir(exist_ok=True)
    context = multiprocessing.get_context("spawn")
    tasks = [Task(data, *rest, seed) for seed, *rest in product(SEEDS, WORLDS, LOADS, CANDIDATES)]
    path, code = BUILD / "bench-policies-runs.jsonl", fingerprint()
    played = {one.task: one for one in _kept(path, code, data)}
    with (
        ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=context) as pool,
        path.open("w", encoding="utf-8") as kept,
    ):
        for one in chain(list(played.values()), pool.map(play, [task for task in tasks if task not in played])):
            played[one.task] = one
            kept.write(json.dumps({**_plain(one), "code": code}) + "\n")
            kept.flush()
    return list(rows([played[task] for task in tasks]))


def fingerprint(root: Path = BUILD.parent) -> str:
    """Of all code that a run could depend on."""
    found = hashlib.sha256()
    for path in sorted([*(root / "gpuq").rglob("*.py"), *(root / "benchmarks" / "policies").glob("*.py")]):
        found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def _kept(path: Path, code: str, data: Path) -> Iterator[Played]:
    """What this very code has played before; a line that was broken off is none."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        row = json.loads(line) if line.endswith("\n") else {}
        if row.get("code") == code:
            task = Task(data, row["world"], row["load"], row["candidate"], row["seed"])
            whole, settled = (
                RunFigures(**{**row[part], "seeds": tuple(row[part]["seeds"])}) for part in ("whole", "settled")
            )
            yield Played(task, whole, settled, row["seconds"])


def play(task: Task) -> Played:
    """Play it."""
    started = time.perf_counter()
    scenario = philly_scenario(task.data, pairs=task.world, gpus=GPUS, load=task.load, jobs=JOBS, seed=task.seed)
    settings = Settings(Home(Path("unused")), None, "", admission=Limits(max_slowdown=BUDGET))
    candidate = candidate_named(task.candidate, settings, scenario.world)
    forecaster = _forecaster(task, scenario, settings)
    found = simulate(scenario.trace, scenario.world, forecaster, candidate, seed=task.seed)
    late = replace(found, jobs=[job for job in found.jobs if job.arrival.submit_s >= SETTLED_S])
    return Played(task, figures(found, budget=BUDGET), figures(late, budget=BUDGET), time.perf_counter() - started)


def rows(played: Sequence[Played]) -> Iterator[Row]:
    """What the reaches speak of, then every rival in every cell."""
    found = _by_cell(played)
    for (world, load), of in found.items():
        at = f"{world} {load:.0%}"
        yield from _against_fifo(at, load, of)
        yield from _settled(at, of)
    for (world, load), of in found.items():
        yield from _against_rivals(f"{world} {load:.0%}", of)
        yield from _for_saving(f"{world} {load:.0%}", of)
    slowest = max(played, key=lambda one: one.seconds)
    note = f"slowest: {slowest.task.candidate} in {slowest.task.world} at {slowest.task.load:.0%}, seed {slowest.task.seed}"
    yield Row("one simulation, median", median(one.seconds for one in played), "s", note=note)


Cell = Mapping[str, Mapping[int, Played]]


def _against_fifo(at: str, load: float, of: Cell) -> Iterator[Row]:
    reach = {0.9: 0.4, 1.1: 0.25}.get(load)
    ratios = _ratios(of, _OURS, _FIFO, "completion_mean_s")
    yield Row(f"{at}: mean completion, packed / exclusive FIFO", median(ratios), "x", reach, note=_spread(ratios))
    ratios = _ratios(of, _ALONE, _FIFO, "completion_mean_s")
    yield Row(f"{at}: order and backfill alone / exclusive FIFO", median(ratios), "x", note=_spread(ratios))
    ratios = _ratios(of, _OURS, _ALONE, "completion_mean_s")
    reach = 0.85 if load == 0.9 else None
    yield Row(f"{at}: packed / the same without sharing", median(ratios), "x", reach, note=_spread(ratios))
    ratios = _ratios(of, _SAVING, _ALONE, "completion_mean_s")
    yield Row(f"{at}: packed for saving / the same without sharing", median(ratios), "x", reach, note=_spread(ratios))
    late = _ratios(of, _OURS, _ALONE, "completion_mean_s", "settled")
    yield Row(f"{at}: the same, jobs after 7 nights", median(late), "x", note=_spread(late))
    for what, candidate in _PARTS.items():
        part = _ratios(of, candidate, _ALONE, "completion_mean_s")
        yield Row(f"{at}: {what} / order and backfill alone", median(part), "x", note=_spread(part))
    waits = _ratios(of, _OURS, _ALONE, "wait_mean_s")
    yield Row(f"{at}: packed / the same without sharing, mean waiting", median(waits), "x", note=_spread(waits))


def _settled(at: str, of: Cell) -> Iterator[Row]:
    """Of jobs submitted after seven nights."""
    gains = [_gain(of, seed) for seed in of[_OURS]]
    yield Row(
        f"{at}: share of the oracle's gain over FIFO, after 7 nights", median(gains), "%", 85, ">=", note=_spread(gains)
    )
    ours = [of[_OURS][seed].settled for seed in of[_OURS]]
    over = [100 * (one.over_budget or 0.0) for one in ours]
    yield Row(f"{at}: jobs over their budget, after 7 nights", median(over), "%", 2, note=_spread(over))
    ooms = 1000 * sum(one.ooms or 0 for one in ours) / sum(one.jobs for one in ours)
    yield Row(f"{at}: out of memory per 1,000 jobs, after 7 nights", ooms, "", 1, note="all seeds together")

    saving = [of[_SAVING][seed] for seed in of[_SAVING]]
    over = [100 * (one.settled.over_budget or 0.0) for one in saving]
    yield Row(f"{at}: for saving: jobs slowed beyond {BUDGET:g}, after 7 nights", median(over), "%", note=_spread(over))
    ooms = sum(one.whole.ooms or 0 for one in saving)
    yield Row(f"{at}: for saving: out of memory", ooms, "", note="all seeds together, from the first job on")


def _gain(of: Cell, seed: int) -> float:
    fifo, ours, bound = (of[name][seed].settled.completion_mean_s or 0.0 for name in (_FIFO, _OURS, _BOUND))
    return 100 * (fifo - ours) / (fifo - bound)


def _against_rivals(at: str, of: Cell) -> Iterator[Row]:
    for rival in (*RIVALS, *BOUNDS):
        reach = None if rival in BOUNDS else 1.0
        for name, figure in (("mean completion", "completion_mean_s"), ("p99 wait", "wait_p99_s")):
            ratios = _ratios(of, _OURS, rival, figure)
            over, ooms = (
                median(getattr(one.whole, key) or 0.0 for one in of[rival].values()) for key in ("over_budget", "ooms")
            )
            note = f"{_spread(ratios)}; its jobs over budget {over:.1%}, out of memory {ooms:g}"
            yield Row(f"{at}: {name}, packed / {rival}", median(ratios), "x", reach, note=note)


def _for_saving(at: str, of: Cell) -> Iterator[Row]:
    for rival in _CARELESS:
        for name, figure in (("mean completion", "completion_mean_s"), ("p99 wait", "wait_p99_s")):
            ratios = _ratios(of, _SAVING, rival, figure)
            yield Row(f"{at}: {name}, packed for saving / {rival}", median(ratios), "x", note=_spread(ratios))


def _ratios(of: Cell, one: str, other: str, figure: str, part: str = "whole") -> list[float]:
    """Per seed; what takes no time on either side is level."""
    of_one, of_other = ([getattr(of[name][seed], part) for seed in of[one]] for name in (one, other))
    pairs = [(getattr(a, figure), getattr(b, figure)) for a, b in zip(of_one, of_other, strict=True)]
    return [first / second if second else (1.0 if not first else float("inf")) for first, second in pairs]


def _by_cell(played: Iterable[Played]) -> dict[tuple[str, float], dict[str, dict[int, Played]]]:
    found: dict[tuple[str, float], dict[str, dict[int, Played]]] = {}
    for one in played:
        found.setdefault(one.task.cell, {}).setdefault(one.task.candidate, {})[one.task.seed] = one
    return found


def _spread(values: Sequence[float]) -> str:
    return f"{len(values)} seeds: {number(min(values))} to {number(max(values))}"


def _forecaster(task: Task, scenario: Scenario, settings: Settings) -> Forecaster:
    if task.candidate in BOUNDS:
        return Oracle(scenario.world)
    if task.candidate in _BLIND:
        return Cold()
    # Also for those who do not share: a model forecasts the durations of new kinds, and so decides the order.
    return Learned(scenario.world, settings.learning, settings.admission, seed=task.seed)


def _plain(one: Played) -> dict[str, object]:
    task = one.task
    names = {"world": task.world, "load": task.load, "seed": task.seed, "candidate": task.candidate}
    return {**names, "seconds": one.seconds, "whole": asdict(one.whole), "settled": asdict(one.settled)}
