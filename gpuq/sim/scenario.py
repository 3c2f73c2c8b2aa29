"""What is played, and the truth it is played in: a trace and its world, made together so that every kind has a workload.

Arrives: a source of arrivals, workloads measured in pairs, how many devices, what load, a seed. Leaves: a `Scenario`. The
same arguments give the same scenario; all that was drawn or left out stands in the notes of trace and world.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuq.core.job import JobId
from gpuq.sim.trace import Arrival, Trace
from gpuq.sim.traces import philly as philly_trace
from gpuq.sim.traces.asked import Owned, owned, scaled, spread
from gpuq.sim.world import World
from gpuq.sim.worlds.machines import machines
from gpuq.sim.worlds.public import zoo_named

HOST_DEVICES = 8
# A choice: nobody measured it for these jobs. A minute is a framework's start and a checkpoint read back.
RESTART_S = 60.0


@dataclass(frozen=True)
class Scenario:
    """A trace and the world it is played in."""

    trace: Trace
    world: World

    @property
    def notes(self) -> tuple[str, ...]:
        """All that people should know of how it was made."""
        return (*self.trace.notes, *self.world.notes)


def philly(
    data: Path, *, pairs: str, gpus: int = 64, load: float = 0.9, jobs: int = 1500, seed: int = 1,
    preemptible: bool = True, restart_s: float = RESTART_S,
) -> Scenario:  # fmt: skip
    """Philly arrivals in a world of measured pairs, `mps` or `gavel-p100`, at `load` of exclusive capacity.

    The same seed gives the same jobs at every load and in every world. Raises BadInput, and OSError without the data.
    """
    kept, left_out = philly_trace.usable(philly_trace.jobs(data), min(HOST_DEVICES, gpus))
    found, told = philly_trace.stretch(kept, jobs, seed)
    drawn = owned(found, random.Random(f"owners {seed}"))
    times, factor = scaled(found, gpus, load)
    arrivals = tuple(
        Arrival(
            JobId(number), job.submit_s, job.duration_s, job.devices, who.kind, who.owner, preemptible=preemptible,
        )
        for number, (job, who) in enumerate(zip(times, drawn, strict=True), 1)
    )  # fmt: skip
    notes = (
        f"seed {seed}",
        *left_out,
        *told,
        f"submission times multiplied by {factor:.2f}: {load:.0%} of {gpus} devices over {times[-1].submit_s / 86_400:.1f} days",
        *_of_kinds(drawn),
    )
    zoo, memory = zoo_named(pairs, data)
    workload_of, rule = dealt(_by_work(drawn), sorted(zoo.workloads), random.Random(f"kinds {seed}"))
    world = World(
        zoo.name, machines(gpus, zoo.device_type, memory, zoo.sharing, per_host=HOST_DEVICES),
        zoo.workloads, workload_of, zoo.pairs, restart_s=restart_s,
        notes=(
            f"pairs: {zoo.name}, {len(zoo.workloads)} workloads",
            *zoo.notes,
            rule,
            f"{restart_s:g} s are lost at each start after the first (a choice)",
        ),
    )  # fmt: skip
    return Scenario(Trace(f"philly {load:.0%} seed {seed}", arrivals, notes), world)


def dealt(kinds: Sequence[str], workloads: Sequence[str], rng: random.Random) -> tuple[Mapping[str, str], str]:
    """A workload for each kind, and the rule in words: dealt from shuffled decks, so that none comes up much more often."""
    found: dict[str, str] = {}
    deck: list[str] = []
    for kind in kinds:
        if not deck:
            deck = rng.sample(workloads, len(workloads))
        found[kind] = deck.pop()
    return found, (
        f"{len(kinds)} kinds, most device time first, are dealt the {len(workloads)} workloads from decks shuffled by the seed"
    )


def _by_work(drawn: Sequence[Owned]) -> list[str]:
    work: Counter[str] = Counter()
    for who in drawn:
        work[who.kind] += who.asked.duration_s * who.asked.devices
    return [kind for kind, _ in sorted(work.items(), key=lambda item: (-item[1], item[0]))]


def _of_kinds(drawn: Sequence[Owned]) -> list[str]:
    counts = Counter(who.kind for who in drawn)
    apart = spread([(who.kind, who.asked.duration_s) for who in drawn])
    often = sum(count for count in counts.values() if count >= 5)
    return [
        f"{len({who.owner for who in drawn})} owners: one per 100 jobs of a virtual cluster; what it submits less than 5 "
        "minutes apart with one device count is one owner's",
        f"{len(counts)} kinds: owner, decade of duration, device count; {often / len(drawn):.0%} of jobs are of kinds with "
        f"five or more" + ("" if apart is None else f", whose durations have p90 / p50 of {apart:.2f} in the median"),
    ]
