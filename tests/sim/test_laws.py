"""Properties of every simulation, whatever the trace, world, policy, forecasts and seed."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Eviction, Proposal
from gpuq.core.state.apply import apply
from gpuq.core.state.forecast import UNKNOWN, Forecast, Question
from gpuq.core.state.job import JobState
from gpuq.core.state.state import State
from gpuq.core.state.validate import validate
from gpuq.policies.lists.packed import packed
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Forecaster, Oracle
from gpuq.sim.record import HostLoss, SimulationRun
from gpuq.sim.run import Simulation
from gpuq.sim.trace import Trace
from gpuq.sim.world import World
from tests.sim.small import GIB, HEAVY, LIGHT, NEVER_TOGETHER, PAIRS, arrival, host_loss, trace, world


def at_random(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
    """Proposes and evicts what it likes, the same at the same moment."""
    chance = random.Random(context.now)
    snapshots = list(context.snapshots)
    for job in context.waiting:
        running = list(context.state.attempts)
        if running and chance.random() < 0.2:
            yield Eviction(chance.choice(running), job)
        count = chance.choice(job.counts)
        yield Proposal(job, tuple(one.device for one in chance.sample(snapshots, min(count, len(snapshots)))))


class Rumours(Oracle):
    """Sometimes right, sometimes unknown, sometimes far too little."""

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        return {question: self._rumour(question, found) for question, found in super().answer(questions).items()}

    @staticmethod
    def _rumour(question: Question, found: Forecast) -> Forecast:
        match random.Random(str(question)).randrange(3):
            case 0:
                return UNKNOWN
            case 1:
                return replace(found, upper_memory_bytes=GIB, peak_utilization_pct=10.0, pairs=(), pairs_known=False)
            case _:
                return found


_POLICIES = {"packed": packed, "at random": at_random}


@st.composite
def worlds(draw: st.DrawFn) -> World:
    memory = draw(st.sampled_from([None, 3 * GIB, 9 * GIB]))
    return world(
        devices=draw(st.integers(1, 3)),
        hosts=draw(st.integers(1, 2)),
        light=replace(LIGHT, memory_bytes=memory, speedups={1: 1.0, 2: 1.7}),
        heavy=replace(HEAVY, memory_bytes=memory, speeds={"P100": draw(st.sampled_from([0.5, 1.0]))}),
        pairs=draw(st.sampled_from([PAIRS, NEVER_TOGETHER])),
        restart_s=draw(st.sampled_from([0.0, 7.0])),
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    moments = sorted(draw(st.lists(st.integers(0, 400), min_size=1, max_size=8)))
    return trace(
        *(
            arrival(
                number,
                draw(st.sampled_from(["light", "heavy"])),
                at=float(at),
                duration_s=float(draw(st.integers(1, 300))),
                devices=draw(st.sampled_from([1, 1, 2])),
                most_devices=draw(st.sampled_from([None, 2])),
                preemptible=draw(st.booleans()),
                priority=draw(st.integers(0, 1)),
            )
            for number, at in enumerate(moments, 1)
        )
    )


def candidates() -> st.SearchStrategy[Candidate]:
    limits = st.builds(
        Limits, residents_per_device=st.integers(1, 3), objective=st.sampled_from(["slowdown", "saving"])
    )
    named = st.sampled_from(sorted(_POLICIES))
    return st.builds(lambda name, held: Candidate(name, _POLICIES[name], held), named, limits)


def losses() -> st.SearchStrategy[Sequence[HostLoss]]:
    loss = st.builds(host_loss, st.sampled_from(["h0", "h1"]), st.integers(0, 500), st.integers(1, 200))
    return st.lists(loss, max_size=2)


def simulation(
    of: World, come: Trace, who: Candidate, lost: Sequence[HostLoss], forecaster: Forecaster | None = None, **more: Any
) -> Simulation:
    return Simulation(come, of, forecaster or Rumours(of), who, losses=lost, **more)


def without_clocks(run: SimulationRun) -> SimulationRun:
    return replace(run, pass_seconds=[], trainings=[])


@settings(max_examples=40, deadline=None)
@given(worlds(), traces(), candidates(), losses())
def test_no_device_is_overcommitted_and_work_is_conserved(
    of: World, come: Trace, who: Candidate, lost: Sequence[HostLoss]
) -> None:
    events: list[tuple[Any, float]] = []

    def watch(item: object, now: float, state: State) -> None:
        events.append((item, now))
        validate(state)
        for simulated in played_by:
            for device in of.devices:
                assert simulated._cluster.used_memory(device.id) <= device.total_memory or _just_came(state)

    played_by: list[Simulation] = []
    played = simulation(of, come, who, lost, watch=watch)
    played_by.append(played)
    run = played.play()
    _work_is_conserved(run)
    _devices_are_had_by_as_many_as_may(run, who.limits.residents_per_device)
    _the_same_events_give_the_same_state(events, played.state)


def _just_came(state: State) -> bool:
    """Who finds no room at once is there for as long as it takes to say so."""
    return any(attempt.started_at == attempt.launched_at for attempt in state.attempts.values())


def _work_is_conserved(run: SimulationRun) -> None:
    for job in run.jobs:
        done, lost = sum(a.work_s for a in job.attempts), sum(a.lost_s for a in job.attempts)
        if job.state is JobState.COMPLETED:
            assert math.isclose(done, job.arrival.duration_s + lost, rel_tol=1e-9, abs_tol=1e-6)
        else:
            assert done - lost <= job.arrival.duration_s + 1e-6
        for attempt in job.attempts:
            assert attempt.ended_at is not None
            assert math.isclose(
                sum(stretch.seconds for stretch in attempt.stretches), attempt.ended_at - attempt.started_at,
                rel_tol=1e-9, abs_tol=1e-6,
            )  # fmt: skip
            assert all(stretch.slowdown >= 1 and stretch.seconds >= 0 for stretch in attempt.stretches)


def _devices_are_had_by_as_many_as_may(run: SimulationRun, most: int) -> None:
    for device in run.devices:
        on = [a for job in run.jobs for a in job.attempts if device.id in a.devices]
        for moment in {a.started_at for a in on}:
            there = [a for a in on if a.started_at <= moment < (a.ended_at or math.inf)]
            assert len(there) <= most
    for job in run.jobs:
        assert all(count == 1 for count in Counter(a.started_at for a in job.attempts if a.work_s).values())


def _the_same_events_give_the_same_state(events: Sequence[tuple[Any, float]], state: State) -> None:
    again = State()
    for item, now in events:
        assert apply(again, item, now)
    assert again == state


@settings(max_examples=15, deadline=None)
@given(worlds(), traces(), candidates(), losses())
def test_the_same_seed_gives_the_same_run(of: World, come: Trace, who: Candidate, lost: Sequence[HostLoss]) -> None:
    one, other = (without_clocks(simulation(deepcopy(of), come, who, lost).play()) for _ in range(2))
    assert one == other


@settings(max_examples=15, deadline=None)
@given(traces())
def test_jobs_alone_take_their_duration_in_the_trace(come: Trace) -> None:
    alone = Candidate("alone", packed, Limits(residents_per_device=1))
    of = world(devices=2)
    run = simulation(of, come, alone, (), Oracle(of)).play()
    for job in run.jobs:
        (attempt,) = job.attempts
        assert math.isclose((attempt.ended_at or 0) - attempt.started_at, job.arrival.duration_s, rel_tol=1e-9)
        assert attempt.slowdown == 1
