"""Start times foretold to those who wait, against what came: Philly arrivals, 64 GPUs, and the real learning, from cold.

Of every job that could not start when it came, the median and 90th percentile that its user would have been told then. The plain
M/G/k figure, which knows only the traffic, stands beside the mean wait.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import fmean, median

from benchmarks.table import Row, lines
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.job import JobId
from gpuq.lab.traces.named import philly_scenario
from gpuq.policies import registry
from gpuq.policies.estimates.estimator import Teller
from gpuq.policies.estimates.mgk import observed
from gpuq.policies.estimates.waiting import ExpectedStart
from gpuq.settings import Scheduling
from gpuq.sim.candidate import Candidate
from gpuq.sim.learned import Learned
from gpuq.sim.run import simulate

SEEDS = (1, 2, 3, 4, 5)
LOADS = (0.7, 0.9, 1.1)
POLICIES = ("fifo", "packed")
GPUS, JOBS = 64, 600


@dataclass
class Watched:
    """A policy, and what would have been told to each job that it did not start when it came."""

    policy: Policy
    teller: Teller
    told: dict[JobId, ExpectedStart] = field(default_factory=dict)
    seen: set[JobId] = field(default_factory=set)

    def __call__(self, board: SchedulingContext) -> Iterator[Proposal | Eviction]:
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
    scenario = philly_scenario(data, pairs="mps", gpus=GPUS, load=load, jobs=jobs, seed=seed, preemptible=False)
    scheduling = Scheduling()
    alone = name != "packed"
    shortest = name in {"packed", "shortest"}
    teller = Teller(overtaking=scheduling.overtaking if shortest else 0.0, skips=name != "fifo")
    watched = Watched(registry.spec(name).make(scheduling), teller)
    limits = Limits(residents_per_device=1) if alone else Limits()
    run = simulate(
        scenario.trace, scenario.world, Learned(scenario.world, seed=seed), Candidate(name, watched, limits), seed=seed
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
    data: Path, seeds: Sequence[int], loads: Sequence[float], names: Sequence[str] = POLICIES, jobs: int = JOBS
) -> list[Row]:
    rows = []
    for name in names:
        for load in loads:
            rows += _rows(f"{name} at {load:.0%}", [outcome(data, name, load, seed, jobs) for seed in seeds])
    return rows


def _rows(where: str, found: Sequence[Outcome]) -> list[Row]:
    """The share covered is of all jobs that waited, whatever the seed: in some hardly any did."""
    pairs = [pair for one in found for pair in one.pairs]
    held = fmean(waited <= told.p90_s for told, waited in pairs)
    seeds = ", ".join(f"{one.coverage:.0%} of {len(one.pairs)}" for one in found if one.pairs)
    error = median(abs(told.p50_s - waited) for told, waited in pairs) / 60
    long = [waited <= told.p90_s for told, waited in pairs if waited > 60]
    early = fmean(waited <= told.p50_s for told, waited in pairs)
    wide = median((told.p90_s + 60) / (waited + 60) for told, waited in pairs)
    usual = median(waited for _, waited in pairs) / 60
    wait, mgk = (median(getattr(one, key) for one in found) / 60 for key in ("mean_wait_s", "mgk_wait_s"))
    return [
        Row(f"{where}: p90 covers", held, "of jobs", 0.85, ">=", f"by seed: {seeds}"),
        Row(
            f"{where}: p90 covers",
            held,
            "of jobs",
            0.95,
            "<=",
            f"{fmean(long):.0%} of those who waited over a minute; the p90 is {wide:.1f} times the wait in the median",
        ),
        Row(
            f"{where}: error of p50", error, "min", note=f"median; median wait {usual:.0f} min; p50 covers {early:.0%}"
        ),
        Row(f"{where}: mean wait", wait, "min", note=f"of all jobs, median of seeds; M/G/k says {mgk:.0f} min"),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=(101,))
    parser.add_argument("--policies", nargs="+", default=("fifo", "shortest", "packed"))
    parser.add_argument("--loads", type=float, nargs="+", default=LOADS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    asked = parser.parse_args()
    print("\n".join(lines(compare(asked.data, tuple(asked.seeds), tuple(asked.loads), asked.policies, asked.jobs))))
