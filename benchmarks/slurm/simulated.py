"""`python -m benchmarks.slurm.simulated`: the jobs of the comparison in the simulator, for many seeds in minutes.

Slowdowns are those of the emulator: the sum of the demands on a device if it is above 100%, and 3% for each partner. The best
other way is two shards for each GPU, first come, first served, with the same slowdowns. What a Slurm takes to start jobs is left
out on both sides; a pilot takes `--wait` seconds to join. Policies are chosen on other seeds than those they are judged on.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.slurm.work import Work, drawn
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId
from gpuq.policies.lists import packed
from gpuq.settings import Scheduling
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Forecaster, Oracle
from gpuq.sim.learned import Learned
from gpuq.sim.pilots import PilotSimulation, SimulatedPool
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import Workload, World

GPUS = 8
MIB, MEMORY_MIB = 2**20, 80 * 1024
PENALTY = 0.03


@dataclass(frozen=True)
class Emulated(World):
    """A world with the slowdowns of the emulator."""

    def slowdown(self, kind: str, beside: Iterable[str]) -> float:
        """Of all on the device alike."""
        kinds = [kind, *beside]
        if sum(self.workload(one).memory_bytes or 0 for one in kinds) > MEMORY_MIB * MIB:
            return float("inf")
        return slowed([self.workload(one).utilization_pct for one in kinds])


def slowed(percents: Sequence[float]) -> float:
    """How much longer each takes of jobs with these demands on one device."""
    return max(1.0, sum(percents) / 100) * (1 + PENALTY * (len(percents) - 1))


def world(work: Sequence[Work]) -> Emulated:
    """Eight hosts with a device each: one for each pilot."""
    kinds = {one.kind: Workload(one.kind, one.kind, None, one.percent, one.mib * MIB) for one in work}
    devices = tuple(
        Device(DeviceId(f"h{n}/0"), HostId(f"h{n}"), "sim", "H100", MEMORY_MIB * MIB, "mps") for n in range(GPUS)
    )
    return Emulated("emulated", devices, kinds, {kind: kind for kind in kinds}, {}, starting_s=0.0)


def shards(work: Sequence[Work], each: int = 2) -> tuple[float, float]:
    """(GPU-hours, makespan) of so many jobs on each GPU, in their order, the emptiest GPU first."""
    now, hours, waiting = 0.0, 0.0, list(work)
    on: list[list[list[float]]] = [[] for _ in range(GPUS)]  # percent, seconds left
    while waiting or any(on):
        for _ in range(each * GPUS):
            place = min(on, key=len)
            if waiting and len(place) < each:
                one = waiting.pop(0)
                place.append([one.percent, one.seconds])
        paces = [slowed([percent for percent, _ in place]) if place else 1.0 for place in on]
        step = min(left * pace for place, pace in zip(on, paces, strict=True) for _, left in place)
        for place, pace in zip(on, paces, strict=True):
            hours += step * len(place) / each / 3600
            for resident in place:
                resident[1] -= step / pace
            place[:] = [resident for resident in place if resident[1] > 1e-9]
        now += step
    return hours, now


def gpuq(
    work: Sequence[Work], pool: SimulatedPool, limits: Limits, *, known: bool, order: str, level_after_s: float | None
) -> tuple[float, float]:
    """(GPU-hours, makespan) of gpuq's pilots."""
    jobs = [JobArrival(JobId(n), 0.0, one.seconds, 1, one.kind, "ada") for n, one in enumerate(work, 1)]
    there = world(work)
    candidate = Candidate("packed", packed.make(Scheduling(order=order)), limits)  # type: ignore[arg-type]
    forecaster: Forecaster = Oracle(there) if known else Learned(there, limits=limits)
    parts = (pool, Trace("jobs", tuple(jobs)), there, forecaster, candidate)
    done = PilotSimulation(*parts, level_after_s=level_after_s).play_pilots()
    return done.device_hours, max(job.ended_at or 0.0 for job in done.run.jobs)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm.simulated")
    parser.add_argument("instances", type=Path, help="pai_instances.csv")
    parser.add_argument("--seeds", default="2,3,4")
    parser.add_argument("--short", type=int, default=200)
    parser.add_argument("--long", type=int, default=20)
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--order", default="longest")
    parser.add_argument("--residents", type=int, default=8)
    parser.add_argument("--max-slowdown", type=float, default=1.5)
    parser.add_argument("--idle", type=float, default=20.0)
    parser.add_argument("--wait", type=float, default=8.0)
    parser.add_argument("--scaling", default="thrifty")
    parser.add_argument("--max", type=int, default=GPUS, help="pilots at once")
    parser.add_argument("--level-after", type=float, help="a running job counts after so many seconds (default: never)")
    asked = parser.parse_args()
    pool = SimulatedPool(asked.scaling, most=asked.max, idle_s=asked.idle, queue_wait_s=asked.wait)
    limits = Limits(residents_per_device=asked.residents, max_slowdown=asked.max_slowdown)
    ratios = []
    for seed in map(int, asked.seeds.split(",")):
        work = drawn(asked.instances, asked.short, asked.long, 20.0, 200.0, seed)
        alone = sum(one.seconds for one in work) / 3600
        best, ours = (
            shards(work),
            gpuq(work, pool, limits, known=asked.known, order=asked.order, level_after_s=asked.level_after),
        )
        ratios.append((ours[0] / best[0], ours[1] / best[1]))
        line = [f"seed {seed}: alone {alone:.3f} h"]
        line += [f"{name} {hours:.3f} h {span:.0f} s" for name, (hours, span) in {"shards": best, "gpuq": ours}.items()]
        print(", ".join(line), "ratios {:.2f} {:.2f}".format(*ratios[-1]), flush=True)
    print("mean ratios", *(f"{statistics.mean(column):.3f}" for column in zip(*ratios, strict=True)))


if __name__ == "__main__":
    main()
