"""The small scenarios of the conformance test: mixtures of everything, and streams of jobs that never let up beside one
victim.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.forecast import UNKNOWN
from gpuq.core.state.job import JobId
from gpuq.lab.rivals.views import FilteredForecaster
from gpuq.settings import Scheduling
from gpuq.sim.forecaster import Cold, Forecaster, Oracle
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import Workload, World

_GIB = 2**30
_LIMITS = Limits(patience_s=300.0, patience_ratio=1.0)
# Ageing that is quick enough to have an effect in a stream of two hours.
_SCHEDULING = Scheduling(overtaking=2.0, ageing_s=300.0)
_STREAM_S = 7_500.0
_JOB_S = 600.0
_VICTIM = JobId(1)
_VICTIM_AT = 600.0


@dataclass(frozen=True)
class Exercise:
    """One scenario. The jobs `victims` must start although others keep coming; those in `never` fit nowhere."""

    name: str
    trace: Trace
    world: World
    forecaster: Callable[[], Forecaster]
    limits: Limits = _LIMITS
    scheduling: Scheduling = _SCHEDULING
    victims: frozenset[JobId] = frozenset()
    never: frozenset[JobId] = frozenset()


def exercises() -> Iterator[Exercise]:
    """All exercises, the same at each call."""
    yield from _mixtures()
    yield from _streams()


def _mixtures() -> Iterator[Exercise]:
    world, (trace, never) = _world(hosts=2, devices=4), _mixture(random.Random(1))  # noqa: S311 - no secret
    known = Exercise("a mixture", trace, world, lambda: Oracle(world), never=never)
    yield known
    yield replace(known, name="a mixture of unknown jobs", forecaster=Cold)
    yield replace(known, name="a mixture half of which is unknown", forecaster=lambda: _half_known(world))
    yield replace(known, name="a mixture with preemption", scheduling=replace(_SCHEDULING, preemption=True))
    yield replace(known, name="a mixture, one job on a device", limits=replace(_LIMITS, residents_per_device=1))


def _mixture(rng: random.Random) -> tuple[Trace, frozenset[JobId]]:
    arrivals = [
        JobArrival(
            JobId(number),
            submit_s=number * 40.0 if number % 10 else (number - 1) * 40.0,
            duration_s=rng.choice([20.0, 100.0, 700.0]),
            devices=rng.choice([1, 1, 1, 2, 4]),
            kind=rng.choice(["light", "heavy", "middle"]),
            owner=rng.choice(["ada", "bob", "eve"]),
            priority=rng.choice([0, 0, 0, 1, 5]),
            deadline_s=rng.choice([None, number * 40.0 + 1_000.0]),
            declared_memory=rng.choice([None, None, 2 * _GIB]),
            preemptible=rng.random() < 0.5,
        )
        for number in range(1, 41)
    ]
    wide = replace(arrivals[6], devices=5)
    large = replace(arrivals[12], declared_memory=64 * _GIB)
    arrivals[6], arrivals[12] = wide, large
    return Trace("a mixture", tuple(arrivals)), frozenset({wide.job, large.job})


def _streams() -> Iterator[Exercise]:
    """Streams that ask for twice what the devices do, from before the victim is submitted until long after."""
    world = _world(hosts=1, devices=4)
    single = JobArrival(_VICTIM, _VICTIM_AT, _JOB_S, 1, "light", "ada")
    victims = {
        "a gang beside single jobs": (replace(single, devices=4), {}),
        "a long job beside short ones": (replace(single, duration_s=4 * _JOB_S), {}),
        "a heavy job beside light ones": (replace(single, kind="heavy"), {}),
        "a low priority beside a high one": (single, {"priority": 3}),
        "no deadline beside deadlines": (single, {"deadline": True}),
    }
    for name, (victim, others) in victims.items():
        trace = _stream(victim, **others)  # type: ignore[arg-type]
        known = Exercise(name, trace, world, lambda: Oracle(world), victims=frozenset({_VICTIM}))
        yield known
        if victim.devices > 1:
            yield replace(known, name=f"{name}, unknown", forecaster=Cold)


def _stream(victim: JobArrival, *, priority: int = 0, deadline: bool = False) -> Trace:
    every = _JOB_S / 8
    times = [number * every for number in range(int(_STREAM_S / every))]
    others = [
        JobArrival(
            JobId(number), at, _JOB_S, 1, "light", ("bob", "eve")[number % 2], priority,
            deadline_s=at + _JOB_S if deadline else None,
        )
        for number, at in enumerate(times, 2)
    ]  # fmt: skip
    return Trace("a stream", tuple(sorted([victim, *others], key=lambda arrival: arrival.submit_s)))


def _half_known(world: World) -> Forecaster:
    """A forecaster that knows every second job."""
    return FilteredForecaster(
        Oracle(world), lambda question, found: UNKNOWN if int(question.signature.split("#")[1]) % 2 else found
    )


def _world(*, hosts: int, devices: int) -> World:
    """`light` slows `light` by a tenth, `heavy` nearly doubles everything, `middle` is in between."""
    slow: Mapping[str, float] = {"light": 0.05, "middle": 0.3, "heavy": 0.9}
    use = {"light": 35.0, "middle": 60.0, "heavy": 95.0}
    return World(
        "exercises",
        tuple(
            Device(DeviceId(f"host{h}/{d}"), HostId(f"host{h}"), "sim", "GPU", 16 * _GIB, "mps")
            for h in range(hosts)
            for d in range(devices)
        ),
        {name: Workload(name, name, 8, used, 3 * _GIB) for name, used in use.items()},
        {name: name for name in use},
        {(own, other): 1 + slow[own] + slow[other] for own in use for other in use},
    )
