"""The sampler in its thread, while a driver hangs in a call."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from gpuq_workers.attempts import AttemptFolder, counter_path
from gpuq_workers.measuring import sampler_thread
from gpuq_workers.measuring.sample import Sampler, WatchedResident
from gpuq_workers.measuring.sampler_thread import SamplerThread

from gpuq.adapters.devices import ResidentProcess, ResidentUsage, Snapshot
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from tests.workers.measuring.test_sample import DEVICE, Twin


class HangingTwin(Twin):
    """A backend whose call returns once `answers` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    def read(self, now: float, residents: Sequence[ResidentProcess]) -> Snapshot:
        self.hangs.set()
        self.answers.wait()
        return super().read(now, residents)


def a_resident(root: Path, job: int, steps: int) -> WatchedResident:
    folder = root / f"{job}-1"
    folder.mkdir()
    header = struct.pack("<8sII", b"GPUQPRG1", 1, 0).ljust(64, b"\0")
    slot = (bytes(16) + struct.pack("<Qdd", steps, 10.0, 24.0)).ljust(64, b"\0")
    counter_path(folder).write_bytes(header + slot)
    return WatchedResident(AttemptId(JobId(job), 1), 1000 + job, (DEVICE,), folder, 5.0)


async def test_ends_are_measured_at_once_while_the_driver_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = HangingTwin()
    watch = SamplerThread(Sampler(twin), every_s=1.0)
    monkeypatch.setattr(sampler_thread, "_FINISH_WITHIN_S", 0.01)
    residents = [a_resident(tmp_path, job, steps=100 * job) for job in (1, 2)]
    twin.usage = {one.attempt: ResidentUsage(700, 40.0) for one in residents}
    await watch.look(residents)
    twin.hangs.clear()
    twin.answers.clear()
    looking = asyncio.ensure_future(watch.look(residents))
    await asyncio.to_thread(twin.hangs.wait)

    first = await watch.finish(AttemptFolder(residents[0].folder, residents[0].attempt))
    monkeypatch.setattr(sampler_thread, "_FINISH_WITHIN_S", 3600.0)
    second = await asyncio.wait_for(watch.finish(AttemptFolder(residents[1].folder, residents[1].attempt)), 60)
    assert [(one.peak_memory_bytes, one.steps) for one in (first, second)] == [(700, 100), (700, 200)]

    twin.answers.set()
    await looking
    await watch.look([])
    measured = await watch.finish(AttemptFolder(residents[1].folder, residents[1].attempt))
    assert measured.steps == 200, "it is waited for again"
    watch.close()
