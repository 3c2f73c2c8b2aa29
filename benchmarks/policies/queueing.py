"""Start times foretold to those who wait, against what came: Philly arrivals, 64 GPUs, durations learnt by kind from ended jobs.

Of every job that could not start when it came, the median and 90th percentile that its user would have been told then. The plain
M/G/k figure, which knows only the traffic, stands beside the mean wait.
"""

from __future__ import annotations

import argparse
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from statistics import fmean, median

from benchmarks.table import Row, lines
from gpuq.core.board import Board
from gpuq.core.forecast import Forecast, Question
from gpuq.core.job import JobId
from gpuq.core.limits import Limits
from gpuq.core.policy import Eviction, Policy, Proposal
from gpuq.policies import registry
from gpuq.policies.mgk import observed
from gpuq.policies.teller import Teller
from gpuq.policies.waiting import ExpectedStart, quantile
from gpuq.settings import Scheduling
from gpuq.sim.beliefs import Oracle
from gpuq.sim.contender import Contender
from gpuq.sim.record import AttemptRun
from gpuq.sim.run import simulate
from gpuq.sim.scenario import philly

SEEDS = (1, 2, 3, 4, 5)
LOADS = (0.7, 0.9, 1.1)
GPUS, JOBS = 64, 1500


class Remembered(Oracle):
    """True memory and pairs, but of durations only what ended jobs of the kind took: their median and 90th percentile, or those
    of all jobs where the kind is new."""

    def __init__(self, world) -> None:
        super().__init__(world)
        self._of_kind: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=50))
        self._of_all: deque[float] = deque(maxlen=500)
        self._kinds: dict[str, str] = {}

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        return {question: self._guess(question, answer) for question, answer in super().answer(questions).items()}

    def learn(self, attempt: AttemptRun, now: float) -> None:  # noqa: ARG002 - beliefs
        if attempt.exit_code == 0:
            for known in (self._of_kind[attempt.arrival.kind], self._of_all):
                known.append(attempt.work_s)

    def _guess(self, question: Question, truth: Forecast) -> Forecast:
        own = self._of_kind[str(question.kind)]
        known = own if len(own) >= 3 else self._of_all
        if len(known) < 3:
            return replace(truth, duration_p50_s=None, duration_p90_s=None)
        return replace(truth, duration_p50_s=median(known), duration_p90_s=quantile(known, 0.9))


@dataclass
class Watched:
    """A policy, and what would have been told to each job that it did not start when it came."""

    policy: Policy
    teller: Teller
    told: dict[JobId, ExpectedStart] = field(default_factory=dict)
    seen: set[JobId] = field(default_factory=set)

    def __call__(self, board: Board) -> Iterator[Proposal | Eviction]:
        self.teller.watch(board)
        yield from self.policy(board)
        waiting = [job for job in board.waiting if not board.placed(job)]
        if len(waiting) < len(board.waiting):
            return  # the next pass, at the same moment, sees who is left
        fresh = [job for job in waiting if job.id not in self.seen and not job.attempt]
        self.seen.update(job.id for job in fresh)
        if fresh:
            starts = self.teller.look(board)
            self.told.update({job.id: starts[job.id] for job in fresh})


@dataclass(frozen=True)
class Outcome:
    """(told, waited) of one run, and the mean waits of all jobs: measured, and by M/G/k."""

    pairs: list[tuple[ExpectedStart, float]]
    mean_wait_s: float
    mgk_wait_s: float

    @property
    def coverage(self) -> float:
        return fmean(waited <= told.p90_s for told, waited in self.pairs)


def outcome(data: Path, name: str, load: float, seed: int, jobs: int = JOBS) -> Outcome:
    """One run of one policy."""
    scenario = philly(data, pairs="mps", gpus=GPUS, load=load, jobs=jobs, seed=seed, preemptible=False)
    scheduling = Scheduling()
    alone = name != "packed"
    shortest = name in {"packed", "shortest"}
    teller = Teller(overtaking=scheduling.overtaking if shortest else 0.0, skips=name != "fifo")
    watched = Watched(registry.recipe(name).make(scheduling), teller)
    limits = Limits(residents_per_device=1) if alone else Limits()
    run = simulate(
        scenario.trace, scenario.world, Remembered(scenario.world), Contender(name, watched, limits), seed=seed
    )
    start = {job.arrival.job: inf if job.first_started_at is None else job.first_started_at for job in run.jobs}
    waits = [start[job.arrival.job] - job.arrival.submit_s for job in run.jobs]
    at = {job.arrival.job: wait for job, wait in zip(run.jobs, waits, strict=True)}
    assert inf not in start.values()
    traffic = observed([(a.submit_s, a.duration_s, a.devices) for a in scenario.trace.arrivals])
    assert traffic is not None
    return Outcome([(told, at[job]) for job, told in watched.told.items()], fmean(waits), traffic.mean_wait_s(GPUS))


def run(data: Path) -> list[Row]:
    """Rows for the judged seeds."""
    return compare(data, SEEDS, LOADS)


def compare(
    data: Path, seeds: tuple[int, ...], loads: tuple[float, ...], names=("fifo", "shortest", "packed"), jobs=JOBS
) -> list[Row]:
    rows = []
    for name in names:
        for load in loads:
            found = [outcome(data, name, load, seed, jobs) for seed in seeds]
            each = [one.coverage for one in found if one.pairs]
            pairs = [pair for one in found for pair in one.pairs]
            error = median(abs(told.p50_s - waited) for told, waited in pairs)
            ratio = median((told.p90_s + 60) / (waited + 60) for told, waited in pairs)
            late = fmean(waited > told.p50_s for told, waited in pairs)
            note = (
                f"{len(pairs)} jobs that waited; by seed {', '.join(f'{one:.0%}' for one in each)}; median error of p50 {error / 60:.0f} min, "
                f"median wait {median(w for _, w in pairs) / 60:.0f} min, later than p50 {late:.0%}, p90 is {ratio:.1f} times the wait"
            )
            held = median(each)
            rows.append(Row(f"{name} at {load:.0%}: p90 covers", held, "of jobs", 0.85, ">=", note))
            rows.append(Row(f"{name} at {load:.0%}: p90 is not too wide", held, "of jobs", 0.95, "<="))
            wait, mgk = (median(getattr(one, key) for one in found) / 60 for key in ("mean_wait_s", "mgk_wait_s"))
            rows.append(Row(f"{name} at {load:.0%}: mean wait", wait, "min", note=f"M/G/k says {mgk:.0f} min"))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=(101,))
    parser.add_argument("--policies", nargs="+", default=("fifo", "shortest", "packed"))
    parser.add_argument("--loads", type=float, nargs="+", default=LOADS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    asked = parser.parse_args()
    print("\n".join(lines(compare(asked.data, tuple(asked.seeds), tuple(asked.loads), asked.policies, asked.jobs))))
