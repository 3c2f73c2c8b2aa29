"""What every handler works with: the store, the live view, the committer, a few threads, and `reply` for the answer.

Dependencies are Protocols, so that tests pass small ones. `CONTEXT` is the key under which the application carries the context.
Nothing here outlives the process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec
from aiohttp import web

from gpuq.adapters.job_log import Chunk
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Entry
from gpuq.adapters.supervise import python_module
from gpuq.api.contract.problem import TooManyAtOnce
from gpuq.api.deadline import ANALYSIS_WITHIN_S, ANSWER_WITHIN_S, within
from gpuq.api.journal_reader import JournalReader, Place
from gpuq.api.kept import KeptResults, SharedResults
from gpuq.api.live import DispatcherLink, LiveReader
from gpuq.api.models import ExplainedForecast
from gpuq.api.recent import RecentRuns
from gpuq.api.submit import Committer, WakeUpSender
from gpuq.api.threads import ASKING, SharedThreads
from gpuq.core.state.device import Device
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.job import JobId, JobState
from gpuq.learn.features.kind import Describe
from gpuq.messages.job_record import JobRecord, ListedRecord, QueuedRecord
from gpuq.messages.launch import ChannelName
from gpuq.messages.live import LiveView
from gpuq.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

READ_THREADS = 4
"""For short reads of the database and of logs."""
READS_OF_USER = 2
"""Of these, for one user."""
ANALYSES_WAITING = 8
"""Of one user, besides the one that runs."""
USER_THREADS = 4
"""For what users send: long bodies, and the files of `gpuq submit --sync`."""
JOURNAL_AT_ONCE = 500
"""Entries of the journal that one read gives at most."""
MOST_REQUESTS = 2000
"""Requests of one user about jobs that wait for the dispatcher, beyond which no more come that are about many jobs. It handles
those of all users in their order."""
_LOOK_EVERY_S = 0.1
_DEVICES_REUSED_S = 2.0
_COUNTED_FOR_S = 1.0
_encoder = msgspec.json.Encoder()


class HostLogReader(Protocol):
    """The logs of attempts that ran on other hosts."""

    async def read(self, host: str, job: int, attempt: int, offset: int, limit: int) -> Chunk | None:
        """As `job_log.read`, on that host. Raises Unreachable if it does not answer."""
        ...


class JobChannels(Protocol):
    """Connections to interactive jobs."""

    async def open(self, host: str, job: int, attempt: int, name: ChannelName) -> socket.socket:
        """A connection to this socket of an attempt, or for its files. Raises Unreachable if its host does not answer, Conflict
        if the job does not listen there."""
        ...


class Models(Protocol):
    """The prediction models, read-only. Calls block."""

    def status(self) -> dict[str, Any]:
        """The serving version and each version with its model card, as JSON values."""
        ...

    def watch(self, view: LiveView | None) -> None:
        """Let the attempts that run in this view count as evidence, in place of those of the last one."""
        ...

    def forecasts(self, records: Iterable[JobRecord | ListedRecord | QueuedRecord]) -> dict[str, dict[str, Any]]:
        """Signature -> Forecast as JSON values, for each job alone on a device."""
        ...

    def explained_forecasts(
        self, kind: str, features: Mapping[str, Any], questions: Sequence[tuple[Device, tuple[str, ...]]]
    ) -> list[ExplainedForecast]:
        """For each type of device and the kinds it would be beside there: the forecast, and what it rests on."""
        ...


@dataclass
class ApiContext:
    """The parts that the endpoint is made of, and the state of one running process."""

    settings: Settings
    store: Store
    """The database. Its calls block: make them through `read`."""
    stream: DispatcherLink
    describe: Describe
    token: str
    """The secret that TCP callers must send."""
    models: Models | None = None
    host_logs: HostLogReader | None = None
    channels: JobChannels | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.ending = asyncio.Event()
        """Set by the signals that end the process, and when one of its background tasks has ended."""
        self.stopping = asyncio.Event()
        """Set once no request is taken any more."""
        self.training = asyncio.Lock()
        self.readers = SharedThreads(READ_THREADS, READS_OF_USER, "record")
        self.analysts = SharedThreads(1, 1, "analysis", ANALYSES_WAITING)
        self.user_threads = SharedThreads(USER_THREADS, 1, "users")
        self.body_bytes: Counter[str] = Counter()
        self._requesting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.open_requests: Counter[tuple[str, str]] = Counter()
        """Of each kind and user."""
        self.ringer = WakeUpSender(self.stream)
        self.committer = Committer(self.store, self.ringer.ring)
        self.live = LiveReader(self.stream, self.clock, self.settings.admission.stale_after_s)
        self.runs = RecentRuns(self.store, self.clock)
        self.kept = KeptResults(self.clock)
        self.once = SharedResults(self.clock)
        self.journal = JournalReader(self._journal)
        self._devices: list[Device] = []
        self._devices_read_at = float("-inf")
        self._names: tuple[LiveView | None, list[Device], DeviceNames] | None = None

    def devices(self, *, latest: bool = False) -> list[Device]:
        """The record's devices, read again when older than two seconds, as they change rarely and submissions come often, or if
        the `latest` are asked for. Blocks."""
        now = self.now()
        if latest or not 0 <= now - self._devices_read_at < _DEVICES_REUSED_S:
            self._devices = self.store.devices(forgotten=False)
            self._devices_read_at = now
        return self._devices

    def devices_to_fit(self) -> Sequence[Device]:
        """The devices that a job has to fit to be accepted; none where a pool may bring others, for which it waits. Blocks."""
        try:
            has_pools = bool(msgspec.json.decode(self.settings.home.pools_file.read_bytes()))
        except (OSError, msgspec.DecodeError):
            has_pools = False
        return () if has_pools else self.devices()

    def device_names(self, live: LiveView | None) -> DeviceNames:
        """The display names of the record's devices, kept as long as the view and the devices are the same. Blocks."""
        devices, kept = self.devices(), self._names
        if kept is None or kept[0] is not live or kept[1] is not devices:
            kept = self._names = (live, devices, DeviceNames(devices, live.reported if live else ()))
        return kept[2]

    def now(self) -> float:
        """Unix seconds."""
        return self.clock()

    async def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call to the database in one of READ_THREADS threads. Raises Unreachable after ANSWER_WITHIN_S."""
        return await within(ANSWER_WITHIN_S, self.run(call, *args, **kwargs))

    async def counts(self) -> dict[JobState, int]:
        """How many jobs are in each state, as of a second ago at most: a count takes longer the more jobs have ended, and every
        open page asks for it again and again."""
        return await self.once.get("counts", None, partial(self.read, self.store.count_by_state), _COUNTED_FOR_S)

    async def _journal(self, place: Place) -> list[Entry]:
        after, job, only_jobs = place
        return await self.read(self.store.journal, after=after, limit=JOURNAL_AT_ONCE, job=job, only_jobs=only_jobs)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run any other blocking call in one of READ_THREADS threads."""
        return await self.readers.run(call, *args, **kwargs)

    async def analyse(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call that may read much of the record, one at a time, unless the client has hung up by then. Raises Unreachable
        after ANALYSIS_WITHIN_S, and TooManyAtOnce for a user who has ANALYSES_WAITING more waiting."""
        asking = ASKING.get()

        def unless_gone() -> T:
            if asking is not None and asking.gone():
                raise ConnectionResetError("The client has hung up.")
            return call(*args, **kwargs)

        return await within(ANALYSIS_WITHIN_S, self.analysts.run(unless_gone))

    async def for_user(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call that may take long in one of USER_THREADS threads, for each user one at a time."""
        return await self.user_threads.run(call, *args, **kwargs)

    async def request(self, verb: str, jobs: Sequence[JobId], by: str, body: Mapping[str, Any] | None = None) -> None:
        """Commit a request for each of these jobs, then wake the dispatcher. One about many jobs waits until most of the user's
        earlier ones are handled; raises TooManyAtOnce if that takes longer than ANSWER_WITHIN_S."""
        if len(jobs) > 1:
            async with self._requesting[by]:
                await self._until_handled(by)
                await self.read(self.store.add_requests, verb, jobs, by, self.now(), body or {})
        else:
            await self.read(self.store.add_requests, verb, jobs, by, self.now(), body or {})
        self.ringer.ring()

    async def _until_handled(self, by: str) -> None:
        deadline = asyncio.get_running_loop().time() + ANSWER_WITHIN_S
        while (waiting := await self.read(self.store.count_requests, by)) > MOST_REQUESTS:
            if asyncio.get_running_loop().time() > deadline:
                raise TooManyAtOnce(
                    f"{waiting:,} requests of yours about jobs wait for the dispatcher, so that none about many jobs is taken.",
                    fix="Send it again when they are handled; `gpuq doctor` says whether the dispatcher runs.",
                )
            await asyncio.sleep(_LOOK_EVERY_S)

    async def start(self, module: str, *arguments: str) -> asyncio.subprocess.Process:
        """Start one of our modules for this home as a process of its own; its output and errors come through pipes."""
        return await asyncio.create_subprocess_exec(
            *python_module(module, *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "GPUQ_HOME": str(self.settings.home.root)},
        )


CONTEXT = web.AppKey("context", ApiContext)


def context_of(request: web.Request) -> ApiContext:
    """The context of the application that serves this request."""
    return request.app[CONTEXT]


def reply(answer: Any, status: int = 200) -> web.Response:
    """A struct, or plain data, as a JSON response."""
    return web.Response(body=_encoder.encode(answer), status=status, content_type="application/json")
