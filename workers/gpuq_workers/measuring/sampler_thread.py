"""Sampling off the event loop: residents go in, the newest sample and final measurements come out.

A driver may hang in a call. So it is asked from one thread of its own, and whoever waits for it waits only so long: then
readings are missing (missing readings admit nobody), but starts and ends are still reported.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device
from gpuq_workers.attempts import AttemptFolder
from gpuq_workers.measuring.sample import AloneSteps, Sample, WatchedResident, read_measurement

log = logging.getLogger(__name__)

_FINISH_WITHIN_S = 5.0
_SAMPLES_A_READING_LIVES = 3.0


class SamplerLike(Protocol):
    """`gpuq_workers.measuring.sample.Sampler`, or its stand-in in tests."""

    def sample(self, now: float, residents: Sequence[WatchedResident]) -> Sample:
        """One look at all devices and residents."""
        ...

    def finish(self, attempt: AttemptId, folder: Path | None = None) -> Measurement:
        """The final measurement of an attempt; it is forgotten then."""
        ...

    def pause(self, attempts: Sequence[AttemptId]) -> None:
        """One of these is about to be paused: until `resume` nothing that they do counts."""
        ...

    def resume(self, attempts: Sequence[AttemptId], measured: AloneSteps | None) -> None:
        """The pause is over, and this was measured in it."""
        ...

    def note(self, attempt: AttemptId, why_not: str) -> None:
        """Why nobody is paused to measure this attempt."""
        ...


class SamplerThread:
    """The sampler in its thread."""

    def __init__(self, sampler: SamplerLike, list_devices: Callable[[], tuple[Device, ...]], every_s: float) -> None:
        self._sampler, self._list_devices, self._every_s = sampler, list_devices, every_s
        self.devices: tuple[Device, ...] = ()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sampler")
        self._newest: tuple[float, Sample] | None = None

    @property
    def sample(self) -> Sample | None:
        """The newest sample; None while there is none that is fresh."""
        if self._newest is None:
            return None
        taken, sample = self._newest
        return sample if time.monotonic() - taken < max(_SAMPLES_A_READING_LIVES * self._every_s, 1.0) else None

    def looked(self) -> tuple[Sequence[Device], Sample] | None:
        """The devices and the newest sample; None while there is none that is fresh."""
        sample = self.sample
        return None if sample is None else (self.devices, sample)

    async def look(self, residents: Sequence[WatchedResident]) -> None:
        """Take one sample; returns when it is there."""
        loop = asyncio.get_running_loop()
        self._newest = await loop.run_in_executor(self._thread, self._take, residents)

    def _take(self, residents: Sequence[WatchedResident]) -> tuple[float, Sample]:
        self.devices = self._list_devices()
        return time.monotonic(), self._sampler.sample(time.time(), residents)

    async def finish(self, folder: AttemptFolder) -> Measurement:
        """The final measurement of an attempt; what earlier processes measured, or nothing, if it cannot be had now."""
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._thread, self._sampler.finish, folder.attempt, folder.path)
        try:
            return await asyncio.wait_for(work, _FINISH_WITHIN_S)
        except TimeoutError:
            log.warning("attempt %s: the sampler does not answer; its last saved measurement counts", folder.attempt)
            return read_measurement(folder.path) or Measurement()

    async def pause(self, attempts: Sequence[AttemptId]) -> None:
        """As the sampler's; what comes back is after its look of this moment."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._sampler.pause, attempts)

    async def resume(self, attempts: Sequence[AttemptId], measured: AloneSteps | None) -> None:
        """As the sampler's."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._sampler.resume, attempts, measured)

    async def note(self, attempt: AttemptId, why_not: str) -> None:
        """As the sampler's."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._sampler.note, attempt, why_not)

    def close(self) -> None:
        """Let go of the thread, also if it hangs."""
        self._thread.shutdown(wait=False, cancel_futures=True)
