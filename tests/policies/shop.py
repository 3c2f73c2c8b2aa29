"""A small cluster with forecasts that follow from the names of kinds and signatures, so that tests can compute them by hand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Policy, Proposal
from gpuq.core.state.actions import Action, Launch
from gpuq.core.state.apply import apply
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.events import HostReported, Started, Submitted
from gpuq.core.state.forecast import MEASURED, Forecast, PairCost, Question
from gpuq.core.state.job import Job
from gpuq.core.state.state import State
from gpuq.policies.planners.batch import Batch
from gpuq.policies.planners.batch_builder import build_batch, foremost
from gpuq.policies.planners.pairing import PairBook
from tests.support.nouns import GIB, a_job, a_reading

NOW = 1000.0
# Seeds of `drawn` for property tests.
seeds = st.integers(0, 10_000)
tried = settings(max_examples=30, deadline=None)
# (percent of a device, GiB). Two jobs slow each other by 0.1% for each percent that they use together.
KINDS = {"light": (20.0, 1), "middling": (50.0, 4), "heavy": (90.0, 8)}


def work(number: int, kind: str = "light", hours: float | None = 1.0, **changes: Any) -> Job:
    """A waiting job with this forecast duration alone."""
    return a_job(number, kind=kind, signature=f"{kind} {hours}", **changes)


def slowdown(one: str, other: str) -> float:
    return 1 + (KINDS[one][0] + KINDS[other][0]) / 1000


class Shop:
    """Hosts with idle devices of 16 GiB. Tests submit and start jobs."""

    def __init__(self, *devices_per_host: int, types: str = "A", limits: Limits | None = None) -> None:
        self.state, self.limits = State(), limits or Limits()
        for host, count in enumerate(devices_per_host or (1,)):
            kind = types[host % len(types)]
            devices = tuple(
                Device(DeviceId(f"h{host}/{n}"), HostId(f"h{host}"), "sim", kind, 16 * GIB) for n in range(count)
            )
            readings = tuple((device.id, a_reading(NOW)) for device in devices)
            apply(self.state, HostReported(HostId(f"h{host}"), "boot", NOW, devices, readings, ()), NOW)

    def submit(self, *jobs: Job) -> None:
        for job in jobs:
            apply(self.state, Submitted(job), NOW)

    def start(self, job: Job, *devices: str) -> None:
        """Start the job on these devices now. Admission must allow it."""
        self.submit(job)
        there = tuple(self.state.devices[DeviceId(device)] for device in devices)
        actions = self.play(lambda _: iter([Proposal(job, there)]))
        assert any(isinstance(action, Launch) for action in actions)

    def play(self, policy: Policy, now: float = NOW) -> list[Action]:
        """Run one pass with this policy and apply its actions."""
        actions = decide(self.state, self._answers(), PassCache(), self.limits, policy, now)
        for action in actions:
            apply(self.state, action, now)
            if isinstance(action, Launch):
                apply(self.state, Started(action.attempt.id, now, 1, ""), now)
        return actions

    def context(self) -> SchedulingContext:
        return SchedulingContext(self.state, self._answers(), PassCache(), self.limits, NOW)

    def batch(self, book: PairBook | None = None) -> Batch:
        context = self.context()
        return build_batch(context, foremost(context.waiting, 200), context.snapshots, book or self.book())

    def book(self) -> PairBook:
        """A book with the costs of all pairs."""
        book = PairBook()
        for dclass in {(device.type, device.sharing) for device in self.state.devices.values()}:
            for kind in KINDS:
                pairs = tuple(_cost(kind, other) for other in KINDS)
                book.note(kind, dclass, Forecast(pairs=pairs))  # type: ignore[arg-type]
        return book

    def _answers(self) -> ForecastTable:
        return ForecastTable(lambda questions: {question: _forecast(question) for question in questions})


def drawn(seed: int) -> Shop:
    """One to three hosts of up to three devices, a few residents, up to seven jobs, some of them gangs."""
    rng = random.Random(seed)
    shop = Shop(*(rng.randint(1, 3) for _ in range(rng.randint(1, 3))), types=rng.choice(("A", "AB")))
    devices = list(shop.state.devices)
    for number, device in enumerate(rng.sample(devices, rng.randint(0, len(devices) - 1)), 100):
        shop.start(work(number, rng.choice(list(KINDS)), rng.choice((0.5, 1, 8))), device)
    for number in range(1, rng.randint(2, 8)):
        kind, hours = rng.choice(list(KINDS)), rng.choice((0.01, 0.2, 1, 1.5, 6, 50, None))
        shop.submit(work(number, kind, hours, device_count=rng.choice((1, 1, 1, 2, 3)), priority=rng.choice((0, 0, 5))))
    return shop


def best_of_all(batch: Batch) -> float:
    """The value of the optimal plan, by exhaustive search."""
    order = sorted(range(batch.size), key=lambda option: -batch.value[option])

    def search(at: int, left: Any) -> float:
        best = 0.0
        for index in range(at, len(order)):
            option = order[index]
            if (left[batch.rows[option]] >= batch.counts[option]).all():
                after = left.copy()
                np.subtract.at(after, batch.rows[option], batch.counts[option])
                best = max(best, float(batch.value[option]) + search(index + 1, after))
        return best

    return search(0, batch.capacity)


def _forecast(question: Question) -> Forecast:
    load, gib = KINDS[question.kind]
    hours = question.signature.split()[1]
    # Type B is twice as fast.
    seconds = None if hours == "None" else float(hours) * 3600 / (2 if question.device_type == "B" else 1)
    return Forecast(
        peak_utilization_pct=load,
        peak_memory_bytes=gib * GIB,
        upper_memory_bytes=gib * GIB,
        duration_p50_s=seconds,
        duration_p90_s=seconds,
        pairs=tuple(_cost(question.kind, beside) for beside in question.beside),
        pairs_known=True,
    )


def _cost(kind: str, beside: str) -> PairCost:
    value = slowdown(kind, beside)
    return PairCost(beside, value, value, value, value, evidence=MEASURED)  # type: ignore[arg-type]
