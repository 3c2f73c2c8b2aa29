"""What gpuq is compared with, in the same core and the same world: the entry points `gpuq.candidates`.

A rival is an order, a backfill, a placement, limits, and a view of the forecasts. Each is made from the world, of which some
rivals know more than gpuq does, and from gpuq's own limits. Make a new one for each simulation: some have state.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuq.lab.rivals import ablations, exclusive, sharing
from gpuq.sim.extensions import MakeCandidate
from gpuq.sim.named import BASELINE, exclusive_fifo

RIVALS: Mapping[str, MakeCandidate] = {
    BASELINE: exclusive_fifo,
    "exclusive-shortest-backfill": exclusive.shortest_backfill,
    "least-attained-preemptive": exclusive.least_attained,
    "declared-memory-only": sharing.declared_memory,
    "two-per-gpu-always": sharing.two_always,
    "utilisation-80-oom-retry": sharing.threshold_80,
    "speed-classes": sharing.speed_classes,
    "sum-of-utilisation": sharing.sum_of_utilization,
}
"""Queues that people use, or have published."""

BOUNDS: Mapping[str, MakeCandidate] = {
    "oracle-packing": sharing.oracle_packing,
    "oracle-exclusive": sharing.oracle_exclusive,
    "oracle-shortest-remaining-first": exclusive.shortest_remaining,
}
"""What perfect knowledge would give."""

ABLATIONS: Mapping[str, MakeCandidate] = {
    "packed": ablations.whole,
    "packed-exclusive": ablations.without_sharing,
    "packed-needs-known": ablations.needs_known,
    "packed-saving": ablations.for_saving,
    "packed-blind": ablations.blind,
    "packed-arrival-order": ablations.first_come,
    "packed-strict": ablations.strictly,
    "packed-easy": ablations.reserving,
}
"""The default policy, and the same with one part changed."""
