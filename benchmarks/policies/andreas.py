"""ANDREAS against first-principle methods, by its own prices, in the world of measured times and powers of four types of GPU.

Every policy has true forecasts and knows deadlines and priorities. The others are gpuq's FIFO, deadline and priority policies:
as many GPUs as the job asks for, of the fastest type that is idle (the world lists it first). `FIFO, skipping` passes by
what does not fit; `most GPUs` gives each job as many of those it may have as are idle on a host. The total is energy until
the last end, idle GPUs included, and the lateness of each job by its priority.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean, median

from benchmarks.table import Row, lines
from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Policy, Proposal
from gpuq.core.state.device import Device, HostId
from gpuq.core.state.job import Job
from gpuq.lab.worlds.zeus import zeus
from gpuq.policies.lists import backfill, order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.order import QueueOrder
from gpuq.policies.planners.andreas import Andreas, Prices
from gpuq.settings import Scheduling
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Oracle
from gpuq.sim.record import SimulationRun
from gpuq.sim.run import simulate
from gpuq.sim.world import World

SEEDS = (1, 2, 3, 4, 5)
LOADS = (0.7, 0.9, 1.1)
GPUS, JOBS = 32, 300
# No job shares a device: the slowdown of pairs was not measured in this world.
LIMITS = Limits(residents_per_device=1)
REACH = 0.30


@dataclass(frozen=True)
class Bill:
    """What one run cost, in money."""

    energy: float
    lateness: float

    @property
    def total(self) -> float:
        return self.energy + self.lateness


def fastest(board: SchedulingContext, job: Job) -> Iterator[tuple[DeviceSnapshot, ...]]:
    """As many idle GPUs of one host as the job asks for: the world names the hosts of the fastest type first."""
    for devices in _idle(board):
        if len(devices) >= job.device_count:
            yield tuple(board.snapshot(device.id) for device in devices[: job.device_count])


def with_most(order: QueueOrder) -> Policy:
    """Jobs in this order, each on the first host with enough idle GPUs: as many of `counts` as there are anywhere."""

    def policy(board: SchedulingContext) -> Iterator[Proposal]:
        rank = order.ranking(board)
        for job in sorted(board.waiting, key=lambda job: (rank(job), job.id)):
            idle = _idle(board)
            most = max(map(len, idle), default=0)
            fitting = [count for count in job.counts if count <= most]
            if fitting:
                devices = next(devices for devices in idle if len(devices) >= fitting[-1])
                yield Proposal(job, tuple(devices[: fitting[-1]]))

    return policy


def _idle(board: SchedulingContext) -> list[list[Device]]:
    """The idle GPUs of each host, in the world's order: the fastest type first."""
    hosts: dict[HostId, list[Device]] = {}
    for snapshot in sorted(board.snapshots, key=lambda one: one.device.id):
        if not snapshot.residents and not board.given(snapshot.device.id):
            hosts.setdefault(snapshot.device.host, []).append(snapshot.device)
    return list(hosts.values())


def bill(run: SimulationRun, world: World, prices: Prices) -> Bill:
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
    run = simulate(trace, world, Oracle(world), Candidate("x", policy, LIMITS), seed=seed)
    assert len(run.jobs) == JOBS
    assert all(job.ended_at is not None for job in run.jobs)
    return bill(run, world, prices)


def candidates(prices: Prices) -> dict[str, Policy]:
    """By name; ANDREAS first."""
    scheduling = Scheduling()
    by_priority = order.priority_first(order.ARRIVAL, scheduling.ageing_s)
    return {
        "andreas": Andreas(prices),
        "FIFO": list_scheduler(order.ARRIVAL, backfill.strict, fastest),
        "FIFO, skipping": list_scheduler(order.ARRIVAL, placement=fastest),
        "EDF": list_scheduler(order.deadline(scheduling.ageing_s), placement=fastest),
        "priority": list_scheduler(by_priority, backfill.easy, fastest),
        "FIFO, most GPUs": with_most(order.ARRIVAL),
        "EDF, most GPUs": with_most(order.deadline(scheduling.ageing_s)),
        "priority, most GPUs": with_most(by_priority),
    }


def run(data: Path) -> list[Row]:
    """Rows for the judged seeds."""
    scheduling = Scheduling()
    usual = Prices(scheduling.energy_price_per_kwh, scheduling.late_price_per_hour)
    cheap = Prices(usual.energy, usual.late / 10)
    return [
        *compare(data, SEEDS, LOADS, usual),
        *compare(data, SEEDS, (0.9,), cheap, "lateness at a tenth of the price: "),
    ]


def compare(data: Path, seeds: tuple[int, ...], loads: tuple[float, ...], prices: Prices, where: str = "") -> list[Row]:
    found: dict[str, dict[float, list[Bill]]] = {}
    for name, policy in candidates(prices).items():
        found[name] = {load: [bills(data, policy, load, seed, prices) for seed in seeds] for load in loads}
    rows = []
    for name, by_load in found.items():
        for load, each in by_load.items():
            energy, late = fmean(b.energy for b in each), fmean(b.lateness for b in each)
            note = f"energy {energy:.0f}, lateness {late:.0f}; mean of {len(each)} seeds"
            rows.append(Row(f"{where}{name}: cost at {load:.0%}", fmean(b.total for b in each), "money", note=note))
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
