"""Run the sampler in a thread of its own, off the event loop.

A driver may hang in a call. So it is called from one thread only, and the event loop waits for a limited time, and no second
time while that call goes on: then readings are missing, which keeps jobs off the devices, but starts and ends are still reported.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device
from gpuq_workers.attempts import AttemptFolder
from gpuq_workers.measuring.sample import AloneSteps, Sample, Sampler, WatchedResident, saved_measurement

log = logging.getLogger(__name__)

_FINISH_WITHIN_S = 5.0
_SAMPLES_A_READING_LIVES = 3.0


class SamplerThread:
    """A sampler in its thread, and its newest sample."""

    def __init__(self, sampler: Sampler, every_s: float) -> None:
        self._sampler, self._every_s = sampler, every_s
        self._hangs = False
        self.devices: tuple[Device, ...] = ()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sampler")
        self._newest: tuple[float, Sample] | None = None

    @property
    def sample(self) -> Sample | None:
        """The newest sample; None if it is older than three sampling periods."""
        if self._newest is None:
            return None
        taken, sample = self._newest
        return sample if time.monotonic() - taken < max(_SAMPLES_A_READING_LIVES * self._every_s, 1.0) else None

    async def look(self, residents: Sequence[WatchedResident]) -> None:
        """Take one sample; returns when it is taken."""
        loop = asyncio.get_running_loop()
        self._newest = await loop.run_in_executor(self._thread, self._take, residents)
        self._hangs = False

    async def look_at_memory(self, residents: Sequence[WatchedResident]) -> None:
        """Add the memory of these residents to their peaks; returns when it is read."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._sampler.sample_memory, residents)

    def _take(self, residents: Sequence[WatchedResident]) -> tuple[float, Sample]:
        self.devices = self._sampler.devices()
        return time.monotonic(), self._sampler.sample(time.time(), residents)

    async def finish(self, folder: AttemptFolder) -> Measurement:
        """The final measurement of an attempt. If the sampler hangs, what is saved in its folder."""
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._thread, self._sampler.finish, folder.attempt, folder.path)
        # Not cancelled where it comes too late: the sampler forgets the attempt then.
        done, _ = await asyncio.wait({work}, timeout=0 if self._hangs else _FINISH_WITHIN_S)
        if done:
            return work.result()
        if not self._hangs:
            log.warning("the sampler hangs; of attempts that end meanwhile what was last saved counts")
        self._hangs = True
        return saved_measurement(folder.path)

    async def pause(self, attempts: Sequence[AttemptId]) -> None:
        """Count nothing of these attempts until `resume`; returns after a sample that is being taken."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._sampler.pause, attempts)

    async def resume(self, attempts: Sequence[AttemptId], measured: AloneSteps | None) -> None:
        """Count these attempts again, and add what was measured in the pause."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._sampler.resume, attempts, measured)

    async def note(self, attempt: AttemptId, why_not: str) -> None:
        """Record why no partner is paused to measure this attempt."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._sampler.note, attempt, why_not)

    def close(self) -> None:
        """End the thread without waiting for a call that hangs."""
        self._thread.shutdown(wait=False, cancel_futures=True)
