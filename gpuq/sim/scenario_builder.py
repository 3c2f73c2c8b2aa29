"""Builds a scenario from an imported trace: so many of its jobs, at a load, on a number of devices, with a workload for each
kind.

Every rule that is applied is written to the scenario's notes, so that a report can show what its figures rest on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.random import Generator

from gpuq.core.state.job import JobId
from gpuq.errors import BadInput
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.traces.requests import (
    ImportedTrace,
    TraceJob,
    about_kinds,
    consecutive,
    from_zero,
    load_of,
    narrow,
    owned,
    scaled,
)
from gpuq.sim.world import World, machines
from gpuq.sim.worlds.workload_set import WorkloadSet

HOST_DEVICES = 8
# A choice, not measured: the time that a framework needs to start and to read a checkpoint back.
RESTART_S = 60.0


@dataclass(frozen=True)
class Scenario:
    """A trace and the world it is played in."""

    trace: Trace
    world: World

    @property
    def notes(self) -> tuple[str, ...]:
        """How it was made, in sentences for people."""
        return (*self.trace.notes, *self.world.notes)


@dataclass(frozen=True)
class ScenarioOptions:
    """How an imported trace is played. None: submission times, or the number of jobs, as they were.

    `load` is the work asked for as a share of what `gpus` do with each job alone. Hosts have `per_host` GPUs. `preemptible`
    holds for jobs of which the trace does not say it.
    """

    gpus: int | None
    load: float | None = None
    jobs: int | None = None
    seed: int = 1
    preemptible: bool = True
    per_host: int = HOST_DEVICES

    @property
    def devices(self) -> int:
        """The number of GPUs. Raises BadInput where neither the trace nor the caller gives one."""
        if self.gpus is None:
            raise BadInput("The trace does not say how many GPUs there are.", fix="Say so, as in `--gpus 8`.")
        return self.gpus


def build_scenario(found: ImportedTrace, workload_set: WorkloadSet, options: ScenarioOptions) -> Scenario:
    """The same arguments give the same scenario; owners, kinds and jobs are the same at every load and with every workload
    set.
    """
    trace, jobs = timed_trace(found, options)
    return Scenario(trace, build_world(workload_set, jobs, options))


def timed_trace(found: ImportedTrace, options: ScenarioOptions) -> tuple[Trace, list[TraceJob]]:
    """The jobs that fit on a host, with owners and kinds, at the load: as a trace, and as they were imported."""
    kept, left_out, missing = narrow(found.jobs, min(options.per_host, options.devices))
    notes = [f"seed {options.seed}", *found.notes, *left_out]
    if options.jobs is not None:
        kept, drawn = consecutive(kept, options.jobs, _random(options.seed, 0))
        notes += drawn
    whole = owned(kept, _random(options.seed, 1))
    if options.load is None:
        timed = from_zero(whole)
        as_is = load_of(timed, options.devices)
        asked = "" if as_is is None else f": {as_is:.0%} of {options.devices} devices"
        notes.append(f"submission times as they are, over {timed[-1].submit_s / 86_400:.1f} days{asked}")
    else:
        timed, scaling = scaled(whole, options.devices, options.load)
        notes.append(scaling)
    trace = Trace(
        found.name if options.load is None else f"{found.name}, {options.load:.0%} load",
        tuple(_arrival(number, job, options) for number, job in enumerate(timed, 1)),
        (*notes, *about_kinds(kept, whole)),
        missing,
    )
    return trace, timed


def build_world(workload_set: WorkloadSet, jobs: Sequence[TraceJob], options: ScenarioOptions) -> World:
    """A world of the set's devices in which each kind of these jobs has one of the set's workloads."""
    workload_of, rule = deal_workloads(jobs, workload_set, _random(options.seed, 2))
    has_memory = any(workload.memory_bytes is not None for workload in workload_set.workloads.values())
    no_memory = "memory was not measured: no job runs out of it, save pairs that did not run together"
    return World(
        workload_set.name,
        machines(
            options.devices, workload_set.device_type, workload_set.device_memory, workload_set.sharing,
            per_host=options.per_host,
        ),
        workload_set.workloads, workload_of, workload_set.pairs,
        restart_s=RESTART_S,
        notes=(
            f"world {workload_set.name}: {len(workload_set.workloads)} workloads",
            *workload_set.notes, *(() if has_memory else (no_memory,)), rule,
            f"{RESTART_S:g} s are lost at each start after a job's first (a choice)",
        ),
    )  # fmt: skip


def deal_workloads(
    jobs: Sequence[TraceJob], workload_set: WorkloadSet, random: Generator
) -> tuple[Mapping[str, str], str]:
    """The workload of each kind by name, and the rule in words.

    A kind whose jobs ask for a part of a device gets a workload with the nearest utilisation, drawn among equals. The others
    are dealt from shuffled decks, so that no workload is used much more often than another.
    """
    work: dict[str, float] = defaultdict(float)
    shares: dict[str, list[float]] = defaultdict(list)
    for job in jobs:
        kind = job.kind or ""
        work[kind] += job.work_s
        if job.share_pct is not None:
            shares[kind].append(job.share_pct)
    names = sorted(workload_set.workloads)
    found: dict[str, str] = {}
    deck: list[str] = []
    for kind in sorted(work, key=lambda kind: (-work[kind], kind)):
        if kind in shares:
            share_pct = median(shares[kind])
            off = {name: abs(workload_set.workloads[name].utilization_pct - share_pct) for name in names}
            nearest = [name for name in names if off[name] == min(off.values())]
            found[kind] = nearest[int(random.integers(len(nearest)))]
        else:
            deck = deck or [names[place] for place in random.permutation(len(names))]
            found[kind] = deck.pop()
    rules = {
        f"{len(shares)} kinds get a workload with the nearest utilisation, drawn among equals": len(shares),
        f"{len(work) - len(shares)} kinds, most device time first, are dealt the {len(names)} workloads from decks shuffled by "
        "the seed": len(work) - len(shares),
    }
    return found, "; ".join(rule for rule, count in rules.items() if count)


def _arrival(number: int, job: TraceJob, options: ScenarioOptions) -> JobArrival:
    return JobArrival(
        JobId(number), job.submit_s, job.duration_s, job.devices, job.kind or "", job.owner or job.group,
        priority=job.priority, deadline_s=job.deadline_s, declared_memory=job.declared_memory,
        preemptible=options.preemptible if job.preemptible is None else job.preemptible,
    )  # fmt: skip


def _random(seed: int, what: int) -> Generator:
    """A random generator of its own for each thing that is drawn, so that a further draw of one changes no other."""
    return np.random.default_rng([seed, what])
