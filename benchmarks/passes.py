"""One scheduling pass (decide with the answers of the real predictor, apply) over queues and device counts of several sizes.

A run starts with all devices idle and passes until nothing more starts: the first passes give every device a job, the next
give partners, the last find no room. What counts is the slowest pass of that run. The worst case has as many kinds as
jobs, so that no answer serves twice.
"""

from __future__ import annotations

import gc
import math
import random
import time
from statistics import median
from typing import Any

from benchmarks import reference
from benchmarks.table import Row
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.events import HostReported, Submitted
from gpuq.core.state.job import Job, JobId, KindId
from gpuq.core.state.state import State
from gpuq.learn.history.history import History, Outcome
from gpuq.learn.serving.predictor import Predictor
from gpuq.policies.lists.packed import packed
from gpuq.settings import Learning

ROUNDS = 5
KINDS = 200
_GIB = 2**30
_NOW = 1000.0
_MOST_PASSES = 60
# devices, waiting jobs, reach in ms; the last three grow in proportion, so that their times show the growth.
_SIZES = ((8, 1000, 50.0), (100, 1000, None), (316, 3160, None), (1000, 10_000, 500.0))


def run() -> list[Row]:
    """The slowest pass of a run, median of the rounds."""
    gc.freeze()  # as the dispatcher does, so that no collection looks through all modules
    rows = []
    slowest: dict[int, float] = {}
    for devices, jobs, reach in _SIZES:
        passes = [_passes(devices, jobs, KINDS, seed) for seed in range(ROUNDS)]
        slowest[devices] = median(max(each) for each in passes)
        full = median(each[-1] for each in passes)
        name = f"slowest pass of a fill: {devices:,} devices, {jobs:,} jobs, {KINDS} kinds"
        rows.append(Row(name, slowest[devices], "ms", reach, note=f"{full:.0f} ms once there is no room left"))
    return [*rows, _growth(slowest), *_worst_cases()]


def _growth(slowest: dict[int, float]) -> Row:
    (few, *_), _, (many, *_) = _SIZES[1:]
    exponent = math.log(slowest[many] / slowest[few]) / math.log(many / few)
    return Row("  growth from 100 to 1,000 devices, jobs in proportion", exponent, "exponent", note="1 is linear")


def _worst_cases() -> list[Row]:
    rows = []
    for devices, jobs, reach in _SIZES[::3]:
        worst = median(max(_passes(devices, jobs, jobs, seed)) for seed in range(ROUNDS))
        rows.append(Row(f"worst case, every job of another kind: {devices:,} and {jobs:,}", worst, "ms", reach))
    return rows


def pass_with_array(tasks: int) -> list[Row]:
    """The slowest pass of a fill of 100 devices from one array, beside as many jobs of 200 kinds."""
    one = {"array": JobId(0), "most_at_once": None}
    limited = {"array": JobId(0), "most_at_once": 50}
    jobs, array, part = (
        median(max(_passes(100, tasks, kinds, seed, **of)) for seed in range(ROUNDS))
        for kinds, of in ((KINDS, {}), (1, one), (1, limited))
    )
    return [
        Row(
            f"slowest pass of a fill of 100 devices: an array of {tasks:,} / as many jobs of {KINDS} kinds",
            array / jobs,
            "times",
            1.0,
        ),
        Row("  jobs", jobs, "ms"),
        Row("  array", array, "ms"),
        Row("  array of which 50 may run", part, "ms"),
    ]


def _passes(devices: int, jobs: int, kinds: int, seed: int, **of_each: Any) -> list[float]:
    """Milliseconds of each pass until nothing more starts; `of_each` are further fields of the jobs."""
    rng = random.Random(seed)
    predictor = _predictor(kinds, rng)
    state = _state(devices, jobs, kinds, rng, **of_each)
    cache, forecasts = PassCache(), ForecastTable(predictor.answer)
    took = []
    gc.collect()
    for _ in range(_MOST_PASSES):
        reference.time_loop()
        began = time.perf_counter()
        started = _one_pass(state, cache, forecasts)
        took.append(1000 * (time.perf_counter() - began))
        if not started:
            break
    return took


def _one_pass(state: State, cache: PassCache, forecasts: ForecastTable) -> bool:
    """One turn of the ring without its commit; whether it did anything."""
    actions = decide(state, forecasts, cache, Limits(), packed, _NOW)
    for action in actions:
        apply(state, action, _NOW)
    return bool(actions) or cache.tried is not None


def _state(devices: int, jobs: int, kinds: int, rng: random.Random, **of_each: Any) -> State:
    state = State()
    host = HostId("host")
    made = tuple(Device(DeviceId(f"gpu{i}"), host, "sim", "A", 24 * _GIB) for i in range(devices))
    readings = tuple((device.id, Reading(_NOW, 0, 0.0, 0, 0.0)) for device in made)
    apply(state, HostReported(host, "boot", _NOW, made, readings, ()), _NOW)
    for number in range(jobs):
        kind = f"kind{rng.randrange(kinds)}" if kinds < jobs else f"kind{number}"
        job = Job(JobId(number), KindId(kind), kind, "ada", submitted_at=_NOW - jobs + number, **of_each)
        apply(state, Submitted(job), _NOW)
    return state


def _predictor(kinds: int, rng: random.Random) -> Predictor:
    predictor = Predictor(History(), None, Learning())
    for number in range(kinds):
        predictor.learn(_outcome(f"kind{number}", rng.uniform(10, 95), int(rng.uniform(1, 20) * _GIB)))
    return predictor


def _outcome(kind: str, utilization: float, memory: int) -> Outcome:
    """A finished attempt that ran alone."""
    return Outcome(
        kind=kind,
        signature=kind,
        script_sha256=None,
        device_type="A",
        features={},
        peak_utilization_pct=utilization,
        peak_memory_bytes=memory,
        duration_s=60.0,
        alone_rate=10.0,
        shared_rate=None,
        slowdowns=(),
        ending=Ending.EXITED,
        shared=False,
        ended_at=_NOW,
    )
