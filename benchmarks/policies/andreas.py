"""ANDREAS against first-principle methods, by its own prices, in the world of measured times and powers of four types of GPU.

Everybody sees true forecasts and knows the deadlines and priorities. The others take the fastest type of GPU that is idle, as many
GPUs as the job asks for (or the most it may have), and skip what does not fit now. The total is all energy until the last end, idle
GPUs included, and the lateness of each job by its priority.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean, median

from benchmarks.table import Row, lines
from gpuq.core.board import Board
from gpuq.core.job import Job
from gpuq.core.limits import Limits
from gpuq.core.policy import Policy, Proposal
from gpuq.policies.andreas import Andreas, Prices
from gpuq.settings import Scheduling
from gpuq.sim.beliefs import Oracle
from gpuq.sim.contender import Contender
from gpuq.sim.record import Run
from gpuq.sim.run import simulate
from gpuq.sim.world import World
from gpuq.sim.worlds.zeus import zeus

SEEDS = (1, 2, 3, 4, 5)
LOADS = (0.7, 0.9, 1.1)
GPUS, JOBS = 32, 300
# Nobody shares: what pairs cost was not measured here.
LIMITS = Limits(residents_per_device=1)
REACH = 0.30

Key = Callable[[Job], tuple[float, ...]]
ORDERS: dict[str, Key] = {
    "FIFO": lambda job: (job.submitted_at,),
    "EDF": lambda job: (job.deadline_at or float("inf"), job.submitted_at),
    "priority": lambda job: (-job.priority, job.submitted_at),
}


@dataclass(frozen=True)
class Bill:
    """What one run cost, in money."""

    energy: float
    lateness: float

    @property
    def total(self) -> float:
        return self.energy + self.lateness


def in_order(key: Key, *, most: bool) -> Policy:
    """Jobs by `key`, each on the fastest idle GPUs of one host: as many as it asks for, or as many of `counts` as there are."""

    def policy(board: Board) -> Iterator[Proposal]:
        for job in sorted(board.waiting, key=key):
            if board.refused(job):
                continue
            for count in reversed(job.counts) if most else (job.device_count,):
                found = next(_gang(board, count), None)
                if found is not None:
                    yield Proposal(job, found)
                    break

    return policy


def _gang(board: Board, count: int):
    hosts: dict[str, list] = {}
    for place in board.places:
        if not place.residents and not board.given(place.device.id) and not place.reserved:
            hosts.setdefault(place.device.host, []).append(place.device)
    # Hosts come in the world's order: the fastest type first.
    return (tuple(devices[:count]) for devices in hosts.values() if len(devices) >= count)


def bill(run: Run, world: World, prices: Prices) -> Bill:
    """All energy until the last end, and all lateness."""
    attempts = [attempt for job in run.jobs for attempt in job.attempts]
    end = max(attempt.ended_at or 0.0 for attempt in attempts)
    idle_s = dict.fromkeys(world.idle_powers, 0.0)
    for device in world.devices:
        idle_s[device.type] += end
    energy = 0.0
    for attempt in attempts:
        seconds = ((attempt.ended_at or end) - attempt.started_at) * len(attempt.devices)
        idle_s[attempt.device_type] -= seconds
        energy += prices.energy_cost(world.workload(attempt.arrival.kind).powers[attempt.device_type], seconds)
    energy += sum(prices.energy_cost(world.idle_powers[kind], seconds) for kind, seconds in idle_s.items())
    late = sum(
        max(0.0, (job.ended_at or float("inf")) - (job.arrival.deadline_s or float("inf")))
        * prices.late_cost_per_s(job.arrival.priority)
        for job in run.jobs
    )
    return Bill(energy, late)


def bills(data: Path, policy: Policy, load: float, seed: int, prices: Prices) -> Bill:
    """One run's bill."""
    trace, world = zeus(data, gpus=GPUS, jobs=JOBS, load=load, seed=seed)
    run = simulate(trace, world, Oracle(world), Contender("x", policy, LIMITS), seed=seed)
    assert len(run.jobs) == JOBS
    assert all(job.ended_at is not None for job in run.jobs)
    return bill(run, world, prices)


def contenders(prices: Prices) -> dict[str, Policy]:
    asked = {name: in_order(key, most=False) for name, key in ORDERS.items()}
    most = {f"{name}, most GPUs": in_order(key, most=True) for name, key in ORDERS.items()}
    return {"andreas": Andreas(prices), **asked, **most}


def run(data: Path) -> list[Row]:
    """Rows for the judged seeds."""
    scheduling = Scheduling()
    return compare(data, SEEDS, LOADS, Prices(scheduling.energy_price_per_kwh, scheduling.late_price_per_hour))


def compare(data: Path, seeds: tuple[int, ...], loads: tuple[float, ...], prices: Prices) -> list[Row]:
    found: dict[str, dict[float, list[Bill]]] = {}
    for name, policy in contenders(prices).items():
        found[name] = {load: [bills(data, policy, load, seed, prices) for seed in seeds] for load in loads}
    rows = []
    for name, by_load in found.items():
        for load, each in by_load.items():
            note = f"energy {fmean(b.energy for b in each):.0f}, lateness {fmean(b.lateness for b in each):.0f}; mean of {len(each)} seeds"
            rows.append(Row(f"{name}: cost at {load:.0%}", fmean(b.total for b in each), "money", note=note))
    for name in found:
        if name == "andreas":
            continue
        saved = {
            load: [1 - a.total / b.total for a, b in zip(found["andreas"][load], found[name][load], strict=True)]
            for load in loads
        }
        each = list(chain.from_iterable(saved.values()))
        note = ", ".join(f"{load:.0%}: {median(values):.0%}" for load, values in saved.items())
        rows.append(
            Row(
                f"andreas saves against {name}",
                fmean(each),
                "of cost",
                REACH,
                ">=",
                f"worst {min(each):.0%}; medians {note}",
            )
        )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=(101, 102, 103))
    parser.add_argument("--late", type=float, default=Scheduling().late_price_per_hour)
    asked = parser.parse_args()
    print(
        "\n".join(
            lines(compare(asked.data, tuple(asked.seeds), LOADS, Prices(Scheduling().energy_price_per_kwh, asked.late)))
        )
    )
