"""A queue at one moment, to train and compare planners on: a scenario's jobs all waiting, half of the devices busy.

The scenario may be drawn from a seed alone (`made_up`). Everything is forecast rightly.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.state.actions import Launch
from gpuq.core.state.apply import apply
from gpuq.core.state.device import Device, HostId, Reading
from gpuq.core.state.events import HostReported, Started, Submitted
from gpuq.core.state.forecast import Question
from gpuq.core.state.job import Job, KindId
from gpuq.core.state.state import State
from gpuq.learn.interference.law import slowdown
from gpuq.policies.planners.batch import Batch
from gpuq.policies.planners.batch_builder import build_batch, foremost
from gpuq.policies.planners.pairing import PairBook
from gpuq.sim.forecaster import Oracle
from gpuq.sim.scenario_builder import Scenario, ScenarioOptions, build_scenario
from gpuq.sim.traces.requests import TraceJob, imported
from gpuq.sim.world import Workload
from gpuq.sim.worlds.workload_set import WorkloadSet

LIMITS = Limits(max_slowdown=1.2)
_NOW = 0.0
_GIB = 2**30


def queue(scenario: Scenario, seed: int, most: int, limits: Limits = LIMITS) -> tuple[SchedulingContext, PairBook]:
    """A context with at most `most` waiting jobs of the scenario in a drawn order, and one running job on every second device.

    All pairs are known, as after some time of use.
    """
    state, oracle = State(), Oracle(scenario.world)
    hosts: dict[HostId, list[Device]] = {}
    for device in scenario.world.devices:
        hosts.setdefault(device.host, []).append(device)
    for host, mine in hosts.items():
        readings = tuple((device.id, Reading(_NOW, 0, 0.0, 0, 0.0)) for device in mine)
        apply(state, HostReported(host, "boot", _NOW, tuple(mine), readings, ()), _NOW)
    arrivals = random.Random(seed).sample(scenario.trace.arrivals, len(scenario.trace.arrivals))  # noqa: S311 - a simulation's random numbers
    jobs = [Job(a.job, KindId(a.kind), oracle.signature(a), a.owner, _NOW, device_count=a.devices) for a in arrivals]
    busy = scenario.world.devices[::2]
    residents = [job for job in jobs if job.device_count == 1][: len(busy)]
    for job in residents:
        apply(state, Submitted(job), _NOW)
    _start(state, oracle, limits, [Proposal(job, (device,)) for job, device in zip(residents, busy, strict=False)])
    taken = {job.id for job in residents}
    for job in [job for job in jobs if job.id not in taken][:most]:
        apply(state, Submitted(job), _NOW)
    context = SchedulingContext(state, ForecastTable(oracle.answer), PassCache(), limits, _NOW)
    return context, _whole_book(scenario, oracle, context)


def batch_of(scenario: Scenario, seed: int, most: int, limits: Limits = LIMITS) -> Batch:
    """The batch that a planner would get of that queue."""
    context, book = queue(scenario, seed, most, limits)
    return build_batch(context, foremost(context.waiting, most), context.snapshots, book)


def made_up(seed: int) -> Batch:
    """A batch of a drawn world: 4 to 24 devices on hosts of 4 or 8, one to eight jobs a device.

    12 workloads of 5 to 100% utilisation and 0.5 to 14 of 16 GiB; pairs cost what the contention model says, with noise of 5%;
    durations are log-normal, with a median of an hour and a drawn spread; one job in eight is a gang.
    """
    chance = np.random.default_rng([seed, 40])
    gpus, per_host = int(chance.integers(2, 13)) * 2, int(chance.choice((4, 8)))
    most = int(gpus * chance.uniform(1, 8))
    trace = imported(f"made up {seed}", _jobs(chance, most + gpus, min(gpus, per_host)), ())
    scenario = build_scenario(trace, _workload_set(chance), ScenarioOptions(gpus, None, None, seed, per_host=per_host))
    return batch_of(scenario, seed, most)


def _jobs(chance: Generator, count: int, widest: int) -> list[TraceJob]:
    spread = chance.uniform(0.7, 2.5)
    widths = [width for width in (2, 4, 8) if width <= widest] or [1]
    return [
        TraceJob(
            float(number), float(3600 * np.exp(spread * chance.standard_normal())),
            1 if chance.random() > 1 / 8 else int(chance.choice(widths)), "all", "all", f"kind {chance.integers(40)}",
        )
        for number in range(count)
    ]  # fmt: skip


def _workload_set(chance: Generator) -> WorkloadSet:
    levels = {f"w{number}": float(chance.uniform(5, 100)) for number in range(12)}
    sizes = {name: int(_GIB * math.exp(chance.uniform(math.log(0.5), math.log(14)))) for name in levels}
    noise = 0.05 * chance.standard_normal((len(levels), len(levels)))
    pairs = {
        (a, b): max(1.0, (slowdown(levels[a], levels[b]) or 1.0) * math.exp(noise[i, j]))
        for i, a in enumerate(levels)
        for j, b in enumerate(levels)
    }
    workloads = {name: Workload(name, name, None, level, sizes[name]) for name, level in levels.items()}
    return WorkloadSet("made up", "any GPU", "mps", workloads, pairs, device_memory=16 * _GIB)


def _start(state: State, oracle: Oracle, limits: Limits, proposals: Sequence[Proposal]) -> None:
    for action in decide(state, ForecastTable(oracle.answer), PassCache(), limits, lambda _: iter(proposals), _NOW):
        if isinstance(action, Launch):
            apply(state, action, _NOW)
            apply(state, Started(action.attempt.id, _NOW, 1, ""), _NOW)


def _whole_book(scenario: Scenario, oracle: Oracle, context: SchedulingContext) -> PairBook:
    book, device = PairBook(), scenario.world.devices[0]
    kinds = {job.kind: job for job in context.waiting}
    for kind, job in kinds.items():
        asked = [Question(job.signature, kind, device.type, (other,), device.sharing) for other in kinds]
        for forecast in oracle.answer(asked).values():
            book.note(kind, (device.type, device.sharing), forecast)
    return book
