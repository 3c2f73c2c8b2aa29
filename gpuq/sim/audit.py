"""Which of the core's decisions about sharing were wrong, by the truth that it cannot see.

Arrives: starts and refusals, as they happen. Leaves: counts. A refusal is counted when its reason is new for the job (the core
says it once), and once for each set of kinds that the job was refused beside.
"""

from __future__ import annotations

from gpuq.core.state.job import JobId
from gpuq.core.state.verdict import Rule, Verdict
from gpuq.sim.cluster import RunningAttempt, SimulatedCluster
from gpuq.sim.memory import peak_memory
from gpuq.sim.record import AdmissionCounts
from gpuq.sim.trace import JobArrival

# Refusals that speak of what the two would do to each other; the others speak of room, or of what is not known yet.
_OF_PAIRS = frozenset(
    {Rule.PREDICTED_LOAD, Rule.PREDICTED_MEMORY, Rule.SLOWDOWN_BUDGET, Rule.PACKING_SAVING, Rule.UNSAFE_PAIR}
)


class Audit:
    """See the module's own words."""

    def __init__(self, cluster: SimulatedCluster, max_slowdown: float) -> None:
        self.counts = AdmissionCounts()
        self._cluster = cluster
        self._budget = max_slowdown
        self._seen: set[tuple[JobId, tuple[str, ...]]] = set()

    def start(self, newcomer: RunningAttempt) -> None:
        """It was let in, beside whoever is there."""
        groups = [self._cluster.on[device] for device in newcomer.run.devices]
        if any(len(group) > 1 for group in groups):
            self.counts.shared += 1
            self.counts.wrongly_shared += not all(
                self._suits(tuple(sorted(resident.kind for resident in group))) for group in groups
            )

    def refuse(self, arrival: JobArrival, verdict: Verdict) -> None:
        """It was kept from a device, for the reason that the verdict names. To be told before anything else happens."""
        if verdict.rule not in _OF_PAIRS or verdict.device is None:
            return
        there = self._cluster.on[verdict.device]
        beside = tuple(sorted(resident.kind for resident in there))
        if not beside or (arrival.job, beside) in self._seen:
            return
        self._seen.add((arrival.job, beside))
        self.counts.refused += 1
        needs = [peak_memory(self._cluster.world, arrival), *(resident.peak_bytes for resident in there)]
        fits = sum(need or 0 for need in needs) <= self._cluster.devices[verdict.device].total_memory
        self.counts.wrongly_refused += fits and self._suits(tuple(sorted((*beside, arrival.kind))))

    def _suits(self, kinds: tuple[str, ...]) -> bool:
        """Whether all of these together, on one device, stay within the budget."""
        return all(
            self._cluster.slowdown(kind, kinds[:place] + kinds[place + 1 :]) <= self._budget
            for place, kind in enumerate(kinds)
        )
