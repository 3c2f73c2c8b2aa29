"""How fast is the simulator, and so the core? The Philly trace on 2,500 GPUs in hosts of 8, policy `packed` with exact forecasts.

Each size is the trace's first so many jobs, replayed in a process of its own on one core; seconds are those of its processor, so
that a neighbour does not count. Jobs that want more than 8 GPUs fit no host and are left out. A kind is a virtual cluster and a
band of durations; four made-up workloads stand in for what the jobs were. An oracle answers, for which each job is a
question of its own: the dearest case. An event is a submission or an end.
"""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.table import Row
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId
from gpuq.policies.lists.packed import packed
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Oracle
from gpuq.sim.run import simulate
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import Workload, World

SIZES = (8_000, 25_000, 82_247)
_GPUS, _PER_HOST = 2_500, 8
_GIB = 2**30
_BANDS_S = (300.0, 3_600.0, 36_000.0)
_WORKLOADS = (
    Workload("small", "small", 8, 30.0, 4 * _GIB),
    Workload("middle", "middle", 8, 60.0, 8 * _GIB),
    Workload("large", "large", 8, 95.0, 14 * _GIB),
    Workload("tiny", "tiny", 8, 15.0, 2 * _GIB),
)


def run(data: Path) -> list[Row]:
    """Seconds, cost per event and memory at each size; then how much dearer an event is in the largest."""
    rows = []
    costs = []
    for size in SIZES:
        found = _in_a_process(data, size)
        largest = size == SIZES[-1]
        events = found["events"]
        costs.append(1e6 * found["seconds"] / events)
        note = (
            f"{events / found['seconds']:,.0f} events/s, {1000 * found['slowest_pass']:.0f} ms the slowest pass; "
            + (
                f"{found['left_out']} jobs of more than {_PER_HOST} GPUs left out, {found['shared']} launches beside another"
            )
        )
        name = f"Philly, {found['jobs']:,.0f} jobs on {_GPUS:,} GPUs, packed"
        rows += [
            Row(name, found["seconds"], "s", 120.0 if largest else None, note=note),
            Row("  cost of an event", costs[-1], "us"),
            Row("  peak memory", found["peak_bytes"] / _GIB, "GiB", 2.0 if largest else None),
        ]
    ratio = Row("cost of an event, largest / smallest", costs[-1] / costs[0], "times", 1.3, note="1 is flat")
    return [*rows, ratio]


def _in_a_process(data: Path, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.policies.speed", str(data), str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _replay(data: Path, size: int) -> dict[str, float]:
    arrivals, left_out = _arrivals(data / "philly_jobs.csv", size)
    world = _world(sorted({arrival.kind for arrival in arrivals}))
    trace = Trace(f"Philly, the first {size}", tuple(arrivals))
    began = time.process_time()
    played = simulate(trace, world, Oracle(world), Candidate("packed", packed))
    seconds = time.process_time() - began
    unfinished = sum(job.ended_at is None for job in played.jobs)
    if unfinished:
        raise RuntimeError(f"{unfinished} jobs never ended")
    return {
        "jobs": len(arrivals),
        "left_out": left_out,
        "events": 2 * len(arrivals),
        "seconds": seconds,
        "slowest_pass": max(played.pass_seconds),
        "shared": sum(any(stretch.beside for stretch in a.stretches) for job in played.jobs for a in job.attempts),
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def _arrivals(path: Path, size: int) -> tuple[list[JobArrival], int]:
    """The first jobs of the trace, in order, and how many of them were too large."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [row for _, row in zip(range(size), csv.DictReader(lines), strict=False)]
    fitting = [(number, row) for number, row in enumerate(rows, 1) if int(row["num_gpus"]) <= _PER_HOST]
    arrivals = [_arrival(number, row) for number, row in fitting]
    return sorted(arrivals, key=lambda arrival: (arrival.submit_s, arrival.job)), len(rows) - len(arrivals)


def _arrival(number: int, row: dict[str, str]) -> JobArrival:
    duration = max(1.0, float(row["duration_s"]))
    band = sum(duration > edge for edge in _BANDS_S)
    kind = f"{row['vc']}-{band}"
    return JobArrival(JobId(number), float(row["submit_s"]), duration, int(row["num_gpus"]), kind, row["vc"])


def _world(kinds: list[str]) -> World:
    """Workloads in turn; each is slowed by a five-hundredth per percent of its partner's load, and half that of its own."""
    devices = tuple(
        Device(DeviceId(f"h{number // _PER_HOST}/{number % _PER_HOST}"), HostId(f"h{number // _PER_HOST}"), "sim", "P100",
               16 * _GIB, "mps")
        for number in range(_GPUS)
    )  # fmt: skip
    pairs = {
        (own.name, other.name): 1 + 0.002 * other.utilization_pct + 0.001 * own.utilization_pct
        for own in _WORKLOADS
        for other in _WORKLOADS
    }
    workload_of = {kind: _WORKLOADS[number % len(_WORKLOADS)].name for number, kind in enumerate(kinds)}
    return World("made up", devices, {w.name: w for w in _WORKLOADS}, workload_of, pairs)


if __name__ == "__main__":
    print(json.dumps(_replay(Path(sys.argv[1]), int(sys.argv[2]))))
