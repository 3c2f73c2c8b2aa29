"""What every handler works with: the record, the stream, the live view, the committer, and a few threads.

Arrives: the parts, as Protocols, so that tests pass small ones. Leaves: `CONTEXT`, the key under which the application
carries them. Nothing here outlives the process; all that matters is in the record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from aiohttp import web

from gpuq.adapters.store.contract import Store
from gpuq.api.fits import KnownDevices
from gpuq.api.live import LiveReader
from gpuq.api.models import ExplainedForecast
from gpuq.api.submit import Committer, WakeUpSender
from gpuq.core.state.device import Device
from gpuq.core.state.job import JobId
from gpuq.messages.submission import JobRecord, Submission
from gpuq.messages.wire import Message
from gpuq.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

Describe = Callable[[Submission, str], tuple[str, str, dict[str, Any]]]
"""(submission, owner) -> (kind, signature, features); pure."""

READ_THREADS = 4


class Stream(Protocol):
    """What the API needs of Redis. Every call raises `gpuq.errors.Unreachable` when Redis does not answer."""

    async def view(self) -> bytes | None:
        """The dispatcher's latest view as JSON, or None."""
        ...

    async def waiting(self) -> Sequence[int]:
        """The waiting jobs' ids in the dispatcher's order."""
        ...

    async def add(self, message: Message, /) -> object:
        """Put one message into the dispatcher's inbox."""
        ...


class Models(Protocol):
    """The model shelf, read-only. Every call blocks."""

    def status(self) -> dict[str, Any]:
        """What serves, since when, and how well."""
        ...

    def forecast(self, record: JobRecord) -> dict[str, Any]:
        """A plain Forecast for this job alone on a device."""
        ...

    def forecasts(self, records: Iterable[JobRecord]) -> dict[str, dict[str, Any]]:
        """Signature -> the same, for many jobs."""
        ...

    def explained_forecasts(
        self, record: JobRecord, questions: Sequence[tuple[Device, tuple[str, ...]]]
    ) -> list[ExplainedForecast]:
        """For each type of device and the kinds it would be beside there: the forecast, and what it rests on."""
        ...


@dataclass(frozen=True)
class Parts:
    """What the endpoint is made of."""

    settings: Settings
    store: Store
    stream: Stream
    describe: Describe
    models: Models | None = None
    clock: Callable[[], float] = time.time


@dataclass
class Context:
    """The parts, and what one running process adds to them."""

    parts: Parts
    token: str
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    training: asyncio.Lock = field(default_factory=asyncio.Lock)
    openapi: bytes = b""

    def __post_init__(self) -> None:
        self.readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="record")
        self.ringer = WakeUpSender(self.parts.stream)
        self.committer = Committer(self.parts.store, self.ringer.ring)
        self.devices = KnownDevices(self.parts.store.devices, self.parts.clock)
        self.live = LiveReader(self.parts.stream, self.parts.clock, self.parts.settings.admission.stale_after_s)

    @property
    def store(self) -> Store:
        """The record. Blocking: call it through `read`."""
        return self.parts.store

    @property
    def settings(self) -> Settings:
        """Every setting."""
        return self.parts.settings

    def now(self) -> float:
        """Unix seconds."""
        return self.parts.clock()

    async def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one blocking call in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.readers, partial(call, *args, **kwargs))

    async def ask(self, verb: str, jobs: Sequence[JobId], by: str) -> None:
        """Commit a request for each of these jobs, then ring."""
        await self.read(self.store.add_requests, verb, jobs, by, self.now())
        self.ringer.ring()


CONTEXT = web.AppKey("context", Context)


def context_of(request: web.Request) -> Context:
    """The context of the application that serves this request."""
    return request.app[CONTEXT]
