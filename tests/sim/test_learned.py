"""The daemon's own learning in virtual time: it sees what a worker service would, and no more."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.forecast import MEASURED, UNKNOWN, Forecast, Question
from gpuq.core.state.job import KindId
from gpuq.core.state.verdict import Rule
from gpuq.sim.learned import Learned
from gpuq.sim.noise import repeated
from gpuq.sim.record import SimulatedAttempt, Stretch
from gpuq.sim.run import simulate
from gpuq.sim.trace import JobArrival
from gpuq.sim.world import Workload, World
from tests.sim.small import GIB, HEAVY, LIGHT, PACKED, arrival, trace, world

SMALL = world()


def ran(
    come: JobArrival, *stretches: Stretch, ending: Ending = Ending.EXITED, memory: int | None = None
) -> SimulatedAttempt:
    """An attempt that began at 0 and is over."""
    (device,) = SMALL.devices
    return SimulatedAttempt(
        AttemptId(come.job, 1), come, (device.id,), device.type, 0.0, UNKNOWN, Rule.IDLE, memory_bytes=memory,
        ended_at=sum(stretch.seconds for stretch in stretches), ending=ending,
        exit_code=0 if ending is Ending.EXITED else None, stretches=list(stretches),
    )  # fmt: skip


def alone(seconds: float) -> Stretch:
    return Stretch((), seconds, seconds, 1.0)


def beside(kind: str, seconds: float, slowdown: float) -> Stretch:
    return Stretch((kind,), seconds, seconds / slowdown, slowdown)


def forecast_for(learned: Learned, come: JobArrival, *others: str) -> Forecast:
    kinds = tuple(KindId(other) for other in others)
    asked = Question(learned.signature(come), KindId(come.kind), "P100", kinds, "mps" if others else None)
    return learned.answer([asked])[asked]


def test_forecast_is_unknown_at_first_and_known_after_one_run() -> None:
    learned = Learned(SMALL)
    assert not forecast_for(learned, arrival(1, "light")).known
    learned.learn(ran(arrival(1, "light"), alone(100), memory=2 * GIB), 100)
    found = forecast_for(learned, arrival(2, "light"))
    assert found.peak_utilization_pct == pytest.approx(40, rel=0.3)
    assert found.peak_memory_bytes == 2 * GIB
    assert found.duration_p50_s == 100
    assert not forecast_for(learned, arrival(3, "heavy")).known


def test_duration_is_not_learned_from_failed_attempts() -> None:
    learned = Learned(SMALL)
    learned.learn(ran(arrival(1, "light"), alone(60), ending=Ending.STOPPED), 60)
    found = forecast_for(learned, arrival(1, "light"))
    assert found.duration_p50_s is None
    assert found.known


def test_pair_needs_enough_time_together_and_a_rate_alone() -> None:
    learned = Learned(SMALL)
    learned.learn(ran(arrival(1, "heavy"), alone(100)), 100)
    learned.learn(ran(arrival(2, "light"), beside("heavy", 1000, 2.0)), 1000)
    assert all(cost.evidence != MEASURED for cost in forecast_for(learned, arrival(3, "light"), "heavy").pairs)
    learned.learn(ran(arrival(4, "light"), alone(100), beside("heavy", 10, 2.0)), 1200)
    assert all(cost.evidence != MEASURED for cost in forecast_for(learned, arrival(3, "light"), "heavy").pairs)
    learned.learn(ran(arrival(5, "light"), alone(100), beside("heavy", 100, 2.0)), 1400)
    (cost,) = forecast_for(learned, arrival(3, "light"), "heavy").pairs
    assert cost.evidence == MEASURED
    assert cost.newcomer == pytest.approx(2.0, rel=0.3)


def test_peak_is_unknown_beside_a_partner_on_a_full_device() -> None:
    learned = Learned(SMALL)
    learned.learn(ran(arrival(1, "heavy"), beside("heavy", 1000, 1.0)), 1000)
    assert forecast_for(learned, arrival(2, "heavy")).peak_utilization_pct is None
    learned.learn(ran(arrival(3, "light"), beside("light", 1000, 1.1)), 2000)
    assert forecast_for(learned, arrival(4, "light")).peak_utilization_pct == pytest.approx(40 / 1.1, rel=0.3)


def test_out_of_memory_teaches_a_lower_bound_and_an_unsafe_pair() -> None:
    learned = Learned(SMALL)
    learned.learn(ran(arrival(1, "light"), alone(100), memory=8 * GIB), 100)
    died = ran(arrival(2, "light"), beside("heavy", 50, 2.0), ending=Ending.OUT_OF_MEMORY, memory=2 * GIB)
    learned.learn(died, 200)
    found = forecast_for(learned, arrival(3, "light"), "heavy")
    assert found.peak_memory_bytes == 8 * GIB
    assert found.pairs[0].unsafe


def test_attempt_that_never_ran_teaches_nothing() -> None:
    learned = Learned(SMALL)
    learned.learn(ran(arrival(1, "light"), Stretch((), 0.0, 0.0, 1.0), ending=Ending.OUT_OF_MEMORY), 0)
    assert forecast_for(learned, arrival(2, "light")) == UNKNOWN


def test_noise_is_that_of_repeated_runs_and_the_same_for_the_same_name() -> None:
    """A run repeated differs by 4% median and 22% at the 99th percentile (see `learn.statistics`)."""
    off = sorted(abs(repeated(f"run {n}") / repeated(f"again {n}") - 1) for n in range(2000))
    assert off[1000] == pytest.approx(0.04, abs=0.015)
    assert off[1980] == pytest.approx(0.2, abs=0.08)
    assert repeated("one") == repeated("one") != repeated("other")


def workload_set(kinds: int) -> World:
    """Kinds of two families, each in its own batch size; those that want more than a device has slow each other."""
    made = [Workload(f"resnet-{n}", "resnet50", 2.0 ** (n / 4), 10.0 + n, GIB + n * GIB // 32) for n in range(kinds)]
    made += [Workload(f"bert-{n}", "bert", 2.0 ** (n / 4), 50.0 + n, 5 * GIB + n * GIB // 16) for n in range(kinds)]
    pairs = {
        (a.name, b.name): max(1.0, (a.utilization_pct + b.utilization_pct) / 100) for a in made for b in made
    }  # fmt: skip
    return World(
        "workload set", world(devices=4).devices, {w.name: w for w in made}, {w.name: w.name for w in made}, pairs,
    )  # fmt: skip


def days(of: World, jobs: int, seed: int = 1) -> Sequence[JobArrival]:
    chance = random.Random(seed)
    at = 0.0
    made = []
    for number in range(1, jobs + 1):
        at += chance.expovariate(1 / 2000)
        kinds = sorted(of.workload_of)[number % 7 :: 7]
        made.append(arrival(number, chance.choice(kinds), at, chance.uniform(600, 7200)))
    return made


def test_after_some_nights_a_model_serves_and_pairs_share() -> None:
    of = workload_set(30)
    come = trace(*days(of, 90))
    learned = Learned(of, limits=PACKED.limits)
    run = simulate(come, of, learned, PACKED)
    assert run.trainings
    assert any(train.published for train in run.trainings)
    assert all(train.reason for train in run.trainings)
    assert learned.predictor.version is not None
    assert run.admissions.shared > 0
    again = simulate(come, of, Learned(of, limits=PACKED.limits), PACKED)
    assert replace(again, pass_seconds=[], trainings=[]) == replace(run, pass_seconds=[], trainings=[])


def test_no_training_with_too_few_new_attempts() -> None:
    learned = Learned(world(light=LIGHT, heavy=HEAVY))
    assert learned.train(0.0) is None
    for number in range(1, 9):
        assert learned.train(number * 86_400.0) is None
        learned.learn(ran(arrival(number, "light"), alone(100)), number * 86_400.0)
    taught = learned.train(9 * 86_400.0)
    assert taught is not None
    assert not taught.published
    assert learned.train(10 * 86_400.0) is None
