"""What a job really has of a device's memory: little while it loads, then its peak until its end.

The peak is the kind's as the world has it, times what differs from run to run of the same work; it never exceeds the largest
device, on which the job ran in the trace. In a world without memory nobody has any.
"""

from __future__ import annotations

from gpuq.learn.statistics import SAME_KIND_MEMORY
from gpuq.sim.noise import repeated
from gpuq.sim.trace import Arrival
from gpuq.sim.world import World

# A choice: a framework's own context and the first tensors, until the first step is done.
STARTING_SHARE = 0.25
STARTING_S = 60.0


def peak_memory(world: World, arrival: Arrival) -> int | None:
    """Bytes that this job needs on each device; None in a world without memory."""
    usual = world.workload(arrival.kind).memory_bytes
    if usual is None:
        return None
    return min(world.largest_memory, round(usual * repeated(f"memory of job {arrival.job}", SAME_KIND_MEMORY)))
