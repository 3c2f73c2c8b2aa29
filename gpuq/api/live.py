"""The live view: what the dispatcher wrote to Redis a moment ago.

Arrives: JSON, or nothing. Leaves: `Live`, whose `view` is None when there is none, when it is too old to be
believed, or when it cannot be read. A missing view never becomes zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from gpuq.core.state.device import Vitals
from gpuq.errors import Unreachable

_REUSE_S = 0.2

DispatcherSign = Literal["ok", "stale", "absent"]
"""`stale`: no sign of life for longer than `stale_after_s`; `absent`: none since this process began."""


class LiveResident(msgspec.Struct, frozen=True):
    """An attempt on a device, as last reported."""

    job: int
    attempt: int
    memory_bytes: int | None = None
    utilization_pct: float | None = None
    steps: int | None = None
    rate: float | None = None
    slowdown: float | None = None
    slowdown_basis: str | None = None
    expected_slowdown: float | None = None
    not_counted: str | None = None
    step_processes: int | None = None
    started_at: float | None = None
    blink: str | None = None
    partners: tuple[int, ...] = ()


class LiveDevice(msgspec.Struct, frozen=True):
    """A device, as last read."""

    id: str
    host: str
    backend: str
    type: str
    total_memory_bytes: int
    sharing: str | None = None
    index: str | None = None
    used_memory_bytes: int | None = None
    promised_memory_bytes: int | None = None
    foreign_memory_bytes: int | None = None
    foreign_utilization_pct: float | None = None
    utilization_pct: float | None = None
    unwell: str | None = None
    reserved: bool = False
    """Kept free for a job that has waited long."""
    vitals: Vitals | None = None
    processes_visible: bool | None = None
    read_at: float | None = None
    residents: tuple[LiveResident, ...] = ()


class LiveFault(msgspec.Struct, frozen=True):
    """Why the chosen policy was replaced; `at` is None where it was so from the start."""

    reason: str
    at: float | None = None


class LivePolicy(msgspec.Struct, frozen=True):
    """The policy that the settings name, and the one that proposes."""

    chosen: str
    serving: str
    fault: LiveFault | None = None


class LiveDispatcher(msgspec.Struct, frozen=True):
    """The dispatcher about itself."""

    pid: int | None = None
    passes: int | None = None
    pass_seconds: float | None = None
    model_version: str | None = None
    policy: LivePolicy | None = None


class LiveDrift(msgspec.Struct, frozen=True):
    """Whether forecasts still hold, of one kind on one type of device or (both blank) of all. Shares from 0 to 1, percent."""

    kind: str = ""
    device_type: str = ""
    attempts: int = 0
    memory_coverage: float | None = None
    memory_error: float | None = None
    utilization_error_pct: float | None = None
    slowdown_error: float | None = None
    slowdown_coverage: float | None = None
    alarm: bool = False
    widened: float = 1.0


class LiveDrifts(msgspec.Struct, frozen=True):
    """Drift over all, and the kinds that deviate most."""

    promised: float
    overall: LiveDrift
    kinds_watched: int = 0
    kinds_in_alarm: int = 0
    kinds: tuple[LiveDrift, ...] = ()


class LiveView(msgspec.Struct, frozen=True):
    """Everything the dispatcher shows, and when it wrote it."""

    at: float
    dispatcher: LiveDispatcher = LiveDispatcher()
    devices: tuple[LiveDevice, ...] = ()
    drift: LiveDrifts | None = None
    starts: dict[int, tuple[float, float]] = {}
    """Of waiting jobs: unix times of the expected start, the median and the 90th percentile."""
    newcomer_start: tuple[float, float] | None = None
    """The same of a job that would come now and ask for one device."""

    @property
    def reported(self) -> list[str]:
        """The ids of the devices that a worker reports on now."""
        return [device.id for device in self.devices if device.read_at is not None]

    def resident(self, job: int) -> LiveResident | None:
        """Where this job is now, if it is on a device."""
        for device in self.devices:
            for resident in device.residents:
                if resident.job == job:
                    return resident
        return None


class Live(msgspec.Struct, frozen=True):
    """One look at Redis."""

    view: LiveView | None
    redis_up: bool
    age_s: float | None = None
    """Since the dispatcher's last sign of life; None where there was none."""
    dispatcher: DispatcherSign = "absent"


class ViewSource(Protocol):
    """Where the view comes from."""

    async def view(self) -> bytes | None:
        """The latest view as JSON. Raises Unreachable."""
        ...


_decoder = msgspec.json.Decoder(LiveView)


class LiveReader:
    """Reads the view at most five times a second, however many ask."""

    def __init__(self, source: ViewSource, clock: Callable[[], float], stale_after_s: float) -> None:
        self._source = source
        self._clock = clock
        self._stale_after_s = stale_after_s
        self._last: Live | None = None
        self._read_at = float("-inf")
        self._seen_at: float | None = None

    async def read(self) -> Live:
        """The view of now. Never raises for a Redis that is away."""
        now = self._clock()
        if self._last is None or not 0 <= now - self._read_at < _REUSE_S:
            self._last = await self._look(now)
            self._read_at = now
        return self._last

    async def _look(self, now: float) -> Live:
        try:
            raw = await self._source.view()
        except Unreachable:
            return Live(None, redis_up=False)
        view = _decode(raw)
        if view is not None:
            self._seen_at = view.at
        # Redis forgets a view after a while: how long ago the last one was is remembered here.
        age = None if self._seen_at is None else max(0.0, now - self._seen_at)
        if age is None:
            return Live(None, redis_up=True)
        fresh = age <= self._stale_after_s
        return Live(view if fresh else None, redis_up=True, age_s=age, dispatcher="ok" if fresh else "stale")


def _decode(raw: bytes | None) -> LiveView | None:
    if raw is None:
        return None
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
