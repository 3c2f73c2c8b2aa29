"""Checks the core's decisions about sharing against the world, which the core cannot see.

A start beside a partner was wrong if the world then slows one of them beyond the budget. A refusal was wrong if all of them
would have stayed within budget and memory. A refusal counts once per job and set of partners' kinds, since the core repeats it
at each pass.
"""

from __future__ import annotations

from gpuq.core.state.job import JobId
from gpuq.core.state.verdict import Rule, Verdict
from gpuq.sim.cluster import RunningAttempt, SimulatedCluster
from gpuq.sim.memory import peak_memory
from gpuq.sim.record import AdmissionCounts
from gpuq.sim.trace import JobArrival

# Refusals for what a pair would do to each other. Other rules are about room, or about what is not known yet.
_OF_PAIRS = frozenset(
    {
        Rule.PREDICTED_LOAD, Rule.PREDICTED_MEMORY, Rule.SLOWDOWN_BUDGET, Rule.SLOWDOWN_RISK, Rule.PACKING_SAVING,
        Rule.UNSAFE_PAIR,
    }
)  # fmt: skip


class Audit:
    """Counts right and wrong decisions in `counts`, against the slowdown budget `max_slowdown`."""

    def __init__(self, cluster: SimulatedCluster, max_slowdown: float) -> None:
        self.counts = AdmissionCounts()
        self._cluster = cluster
        self._budget = max_slowdown
        self._seen: set[tuple[JobId, tuple[str, ...]]] = set()

    def start(self, newcomer: RunningAttempt) -> None:
        """Check an attempt that was just started, beside what runs on its devices."""
        groups = [self._cluster.on[device] for device in newcomer.run.devices]
        if any(len(group) > 1 for group in groups):
            self.counts.shared += 1
            self.counts.wrongly_shared += not all(
                self._within_budget(tuple(sorted(resident.kind for resident in group))) for group in groups
            )

    def refuse(self, arrival: JobArrival, verdict: Verdict) -> None:
        """Check a job's refusal. Call it before the state changes: it is judged by what runs on the device now."""
        if verdict.rule not in _OF_PAIRS or verdict.device is None:
            return
        residents = self._cluster.on[verdict.device]
        beside = tuple(sorted(resident.kind for resident in residents))
        if not beside or (arrival.job, beside) in self._seen:
            return
        self._seen.add((arrival.job, beside))
        self.counts.refused += 1
        needs = [peak_memory(self._cluster.world, arrival), *(resident.peak_bytes for resident in residents)]
        fits = sum(need or 0 for need in needs) <= self._cluster.devices[verdict.device].total_memory
        self.counts.wrongly_refused += fits and self._within_budget(tuple(sorted((*beside, arrival.kind))))

    def _within_budget(self, kinds: tuple[str, ...]) -> bool:
        """Whether jobs of these kinds, together on one device, all stay within the slowdown budget."""
        return all(
            self._cluster.slowdown(kind, kinds[:index] + kinds[index + 1 :]) <= self._budget
            for index, kind in enumerate(kinds)
        )
