"""What a partner costs, as gpuq measures it, against long runs alone and long runs together: real trainings on one CPU core.

The truth: each job alone and both together, in processes of their own, without a blink, forwards and backwards in time so
that a slow drift of the machine cancels. The measurement: one more run together, in which the parts of the worker service pause
one of them now and then (`gpuq_workers.measuring.blink`), and before and after which each is alone for a while. Blinks and
shims are the real ones, but in a hurry: nothing has to be earned first, so that a minute has as many blinks as half an
hour otherwise; windows last half a second instead of five. What blinks cost is reckoned back to their real spacing.

All jobs run on the last core, everything else on the others. Needs a quiet machine: `BLINK_PAIRS=light:heavy` limits it,
and `BLINK_PAIRS=short:long` is a pair that stands a noisy one better.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from gpuq_workers.measuring import blink
from gpuq_workers.measuring.progress import Progress, hook_environment, read_progress
from gpuq_workers.measuring.sample import Sampler, WatchedResident
from gpuq_workers.measuring.sampler_thread import SamplerThread
from gpuq_workers.shim.blink import EARN

from benchmarks.site import ROOT
from benchmarks.table import Row
from gpuq.adapters.devices import DriverFault, Placement, ResidentProcess, Snapshot
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.measuring.slowdown import Basis, Slowdown, rates, slowdowns
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId

PAIRS = ("light:heavy", "heavy:memory", "bursty:light", "keras:heavy")
ALONE_S, TOGETHER_S, BLINKING_S, EDGE_S = 4.0, 5.0, 26.0, 4.0
# Keras is read five times a second, so its windows are coarse, and more of them are wanted.
_LONGER = {"keras": 2.0}
_WARM_S = 1.0
_HURRY = 1.6
_WINDOW_S = 0.5
_REACH_PCT = 5.0
_DEVICE = DeviceId("here/cpu0")
_CORE = max(os.sched_getaffinity(0))
_SHIM = "import sys; from gpuq_workers.shim import blink, main; blink.EARN = 0.0; sys.exit(main.main([sys.argv[1]]))"


def run() -> list[Row]:
    """Per pair: the error of each job's slowdown by blinks and within the attempt; and what the blinks cost."""
    pairs = os.environ.get("BLINK_PAIRS", ",".join(PAIRS)).split(",")
    others = os.sched_getaffinity(0) - {_CORE}
    if others:
        os.sched_setaffinity(0, others)
    blink.EARN, blink._WARM_AFTER_S, blink._TRY_AGAIN_S = _HURRY, 2 * _WARM_S, 1.0
    rows, costs = [], []
    for pair in pairs:
        a, _, b = pair.partition(":")
        with _device():
            judged = asyncio.run(_judge(a, b))
        rows += (new := [row for one in judged for row in one.rows()])
        print(
            *(f"{row.name}: {row.value} {row.unit}, {row.note}" for row in new), sep="\n", file=sys.stderr, flush=True
        )
        costs += [one.cost_pct for one in judged if one.cost_pct is not None]
    spacing = 2.02 * EARN * blink.PAUSE_S
    note = f"one pause of {blink.PAUSE_S:g} s in {spacing:.0f} s, and what else it cost; mean {fmean(costs or [0]):.2f}"
    return [
        *rows,
        Row("blinks: a job's own time lost, the worst of all jobs", max(costs, default=None), "%", 1.0, note=note),
    ]


@contextmanager
def _device() -> Iterator[None]:
    """What `short` and `long` share, beside the core; of no use to the others."""
    with tempfile.TemporaryDirectory(prefix="blink-") as folder:
        os.environ["STEPPERS_DEVICE"] = f"{folder}/device"
        process = subprocess.Popen([sys.executable, "-m", "benchmarks.steppers", "device"], cwd=ROOT)
        try:
            while not Path(os.environ["STEPPERS_DEVICE"]).exists():
                time.sleep(0.01)
            yield
        finally:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Judged:
    """One job of a pair: the truth, and what was measured. Rates in steps/s, of the two runs of each sort."""

    name: str
    alone: Sequence[float]
    together: Sequence[float]
    measurement: Measurement
    pauses: int
    lasted_s: float

    @property
    def truth(self) -> float:
        """The slowdown by the long runs."""
        return fmean(self.alone) / fmean(self.together)

    @property
    def apart_pct(self) -> float:
        """By how much the truths of the two halves differ, in percent."""
        first, second = (one / other for one, other in zip(self.alone, self.together, strict=True))
        return 100 * (max(first, second) / min(first, second) - 1)

    @property
    def cost_pct(self) -> float | None:
        """Of its time, at the real spacing of blinks: the pause itself, and what it ran slower between pauses than without."""
        shared = rates(self.measurement).shared_rate
        if shared is None or not self.pauses:
            return None
        slower = 1 - shared / fmean(self.together)
        aside = slower * (self.lasted_s - self.pauses * blink.PAUSE_S) / self.pauses
        return 100 * (blink.PAUSE_S + max(0.0, aside)) / (2.02 * EARN * blink.PAUSE_S)

    def rows(self) -> list[Row]:
        """One row per basis, and by how much the truth itself was unstable."""
        found = {cost.basis: cost for cost in slowdowns(self.measurement)}
        runs = f"runs alone differ by {100 * _spread(self.alone):.1f}%, together by {100 * _spread(self.together):.1f}%"
        return [
            *(self._row(basis, found.get(basis)) for basis in (Basis.BLINK, Basis.WITHIN_ATTEMPT)),
            Row("  its truth before and after", self.apart_pct, "% apart", note=runs),
        ]

    def _row(self, basis: Basis, cost: Slowdown | None) -> Row:
        note = f"truth {self.truth:.3f}, {self.apart_pct:.1f}% apart"
        if cost is not None:
            interval = f" [{cost.low:.3f}, {cost.high:.3f}]" if cost.low is not None and cost.high is not None else ""
            note += f", measured {cost.value:.3f}{interval}, {self._windows(basis)} windows"
        error = None if cost is None else 100 * abs(cost.value / self.truth - 1)
        return Row(f"slowdown of {self.name}, {basis}", error, "% off", _REACH_PCT, note=note)

    def _windows(self, basis: Basis) -> int:
        wanted = basis is Basis.BLINK
        return sum(s.windows for s in self.measurement.segments if s.blink is wanted and bool(s.partners) is wanted)


def _spread(values: Sequence[float]) -> float:
    return max(values) / min(values) - 1


async def _judge(a: str, b: str) -> tuple[Judged, Judged]:
    """All runs of one pair, forwards and backwards around the one that is judged."""
    longer = max(_LONGER.get(name, 1.0) for name in (a, b))
    alone_s = longer * ALONE_S
    alone: dict[str, list[float]] = {a: [], b: []}
    together: list[tuple[float, float]] = []
    alone[a] += await _rates([a], alone_s)
    together.append(await _both(a, b, longer * TOGETHER_S))
    alone[b] += await _rates([b], alone_s)
    blinked = await _blinking(a, b, longer)
    alone[b] += await _rates([b], alone_s)
    together.append(await _both(a, b, longer * TOGETHER_S))
    alone[a] += await _rates([a], alone_s)
    shared = list(zip(*together, strict=True))
    names = (f"{a} beside {b}", f"{b} beside {a}")
    one, other = (
        Judged(names[i], alone[(a, b)[i]], shared[i], blinked.measurements[i], blinked.pauses[i], blinked.lasted_s)
        for i in (0, 1)
    )
    return one, other


async def _both(a: str, b: str, seconds: float) -> tuple[float, float]:
    first, second = await _rates([a, b], seconds)
    return first, second


async def _rates(names: Sequence[str], seconds: float) -> list[float]:
    """Steps per second of these jobs, started together, over so long a time after they have warmed up."""
    async with AsyncExitStack() as stack:
        jobs = [await stack.enter_async_context(Job(number, name)) for number, name in enumerate(names, 1)]
        for job in jobs:
            await job.steps()
        await asyncio.sleep(_WARM_S)
        before = [await job.steps() for job in jobs]
        await asyncio.sleep(seconds)
        after = [await job.steps() for job in jobs]
    return [
        (end.steps - begin.steps) / (end.last_step_at - begin.last_step_at)
        for begin, end in zip(before, after, strict=True)
    ]


class Job:
    """One of the trainings under a real shim, pinned to the core; ended with its context."""

    def __init__(self, number: int, name: str) -> None:
        self.attempt = AttemptId(JobId(number), 1)
        self.name = name

    async def __aenter__(self) -> Job:
        self._home = tempfile.TemporaryDirectory(prefix="blink-")
        self.folder = Path(self._home.name)
        order = {
            "command": [sys.executable, "-m", "benchmarks.steppers", self.name],
            "cwd": str(ROOT),
            "env": {**_environment(), **hook_environment({}, self.folder / "progress")},
            "cores": [_CORE],
            "time_limit_s": None,
            "grace_s": 0.0,
            "log_limit_bytes": 1 << 20,
            "blink": True,
        }
        (self.folder / "order.json").write_text(json.dumps(order))
        self._shim = subprocess.Popen([sys.executable, "-c", _SHIM, str(self.folder)], cwd=ROOT)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()
        with suppress(OSError):
            self._home.cleanup()

    async def end(self) -> None:
        """See it off."""
        (self.folder / "stop.json").write_text('{"reason": "done"}')
        self._shim.send_signal(signal.SIGTERM)
        await asyncio.to_thread(self._shim.wait)

    async def steps(self) -> Progress:
        """What it has counted; waits for the first step."""
        for _ in range(1200):
            progress = read_progress(self.folder / "progress")
            if progress is not None:
                return progress
            await asyncio.sleep(0.05)
        raise RuntimeError(f"{self.name} makes no steps: {(self.folder / 'output.log').read_text()[-500:]}")

    def watched(self) -> WatchedResident:
        """As the worker service sees it."""
        return WatchedResident(self.attempt, self._shim.pid, (_DEVICE,), self.folder, time.time(), blink=True)


def _environment() -> dict[str, str]:
    one = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    return {
        **{name: os.environ[name] for name in ("PATH", "STEPPERS_DEVICE")},
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        **dict.fromkeys(one, "1"),
    }


@dataclass(frozen=True)
class Blinked:
    """The judged run of two jobs: what was measured of each, how often each was paused, and how long they were together."""

    measurements: tuple[Measurement, Measurement]
    pauses: tuple[int, int]
    lasted_s: float


async def _blinking(a: str, b: str, longer: float) -> Blinked:
    """The first alone, both together with blinks, the second alone; watched by the worker service's own parts."""
    here: list[Job] = []
    sampler = Sampler(_NoUsage(), window_s=_WINDOW_S)
    watch = SamplerThread(sampler, 0.2)
    await watch.look([])
    blinker = blink.Blinker(True, lambda: [j.watched() for j in here], watch, random.Random(1))
    blinking = asyncio.Event()
    looks = [asyncio.create_task(_look(watch, here)), asyncio.create_task(_blink(blinker, blinking))]
    try:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(Job(1, a))
            here.append(first)
            await first.steps()
            await asyncio.sleep(2 * _WARM_S + longer * EDGE_S)
            second = await stack.enter_async_context(Job(2, b))
            here.append(second)
            await second.steps()
            began = time.monotonic()
            blinking.set()
            await asyncio.sleep(longer * BLINKING_S)
            blinking.clear()
            await asyncio.sleep(1)  # for a blink under way
            lasted = time.monotonic() - began
            here.remove(first)
            one = sampler.finish(first.attempt)
            await first.end()
            await asyncio.sleep(_WARM_S + longer * EDGE_S)
            other = sampler.finish(second.attempt)
    finally:
        failed = next((task for task in looks if task.done()), None)
        for task in looks:
            task.cancel()
        watch.close()
    if failed is not None:
        failed.result()  # raises what ended it
    pauses = [sum(s.windows for s in measured.segments if s.blink) for measured in (other, one)]
    return Blinked((one, other), (pauses[0], pauses[1]), lasted)


async def _look(watch: SamplerThread, here: Sequence[Job]) -> None:
    while True:
        await watch.look([job.watched() for job in here])
        await asyncio.sleep(0.1)


async def _blink(blinker: blink.Blinker, wanted: asyncio.Event) -> None:
    while True:
        await wanted.wait()
        await blinker.poll()
        await asyncio.sleep(0.05)


_DEVICES = (Device(_DEVICE, HostId("here"), "cpu", "cpu-1", 2**30),)


class _NoUsage:
    """A backend for those who only want the steps."""

    def devices(self) -> tuple[Device, ...]:
        return _DEVICES

    def read(self, _now: float, _residents: Sequence[ResidentProcess]) -> Snapshot:
        return Snapshot({}, {})

    def faults(self) -> Sequence[DriverFault]:
        return ()

    def placement(self, _devices: Sequence[DeviceId]) -> Placement:
        return Placement({}, None)

    def close(self) -> None:
        return None
