"""The memory that a simulated job holds on each device: a quarter while it loads, then its peak until its end.

The peak is its workload's, times a factor that stands for the difference between runs of the same work. It never exceeds the
largest device, since the job did run in the trace. In a world without memory no job holds any.
"""

from __future__ import annotations

from gpuq.learn.statistics import SAME_KIND_MEMORY
from gpuq.sim.noise import repeated
from gpuq.sim.trace import JobArrival
from gpuq.sim.world import World

# A choice, not measured: a framework's own context and the first tensors, until the first step is done.
STARTING_SHARE = 0.25


def peak_memory(world: World, arrival: JobArrival) -> int | None:
    """Bytes that this job needs on each device; None in a world without memory."""
    usual = world.workload(arrival.kind).memory_bytes
    if usual is None:
        return None
    return min(world.largest_memory, round(usual * repeated(f"memory of job {arrival.job}", SAME_KIND_MEMORY)))
