"""Watches the folders of this host's attempts and spools `Started` and `Exited`, each once, also across restarts of this process.

The shim writes what happens into the folder. An attempt whose shim is gone without an exit status is ended here: first its
remaining processes, then its record, as lost, or as never started if nothing of it ever ran.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpuq.adapters.process import Identity, boot_id, descendants, identities, is_alive, send_signal, with_environment
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import DeviceId
from gpuq.core.state.device_names import label
from gpuq.core.state.events import Exited, Started
from gpuq_workers.attempts import AttemptFolder, EndFile, Marker, OrderFile, StartFile, folders_in, promised_bytes
from gpuq_workers.exit_classification import HostObservation, classify_exit
from gpuq_workers.measuring.sample import Sample, WatchedResident
from gpuq_workers.shim import mps
from gpuq_workers.spool import Spool

log = logging.getLogger("gpuq.residents")

# A folder without an order belongs to a task that died, or that is about to write it: it has this long.
_UNORDERED_FOR_S = 2.0
_SWEEP_EVERY_S = 0.3
_SETTLED_NS = 1_000_000_000
# A device that failed under a job, as the job reported, takes no new jobs for so long, so that an operator can look at it.
# Failures that the driver itself reports are handled by the backend.
_HELD_FOR_S = 600.0
_SUPERVISOR = "its supervisor, gpuq's shim process"


@dataclass
class _Live:
    folder: AttemptFolder
    marker: Marker
    first_seen: float
    order: OrderFile | None = None
    start: StartFile | None = None
    sweep_at: float = 0.0
    kill_at: float | None = None

    @property
    def shim(self) -> Identity | None:
        """The shim that runs it, or was given it; None before there is one."""
        return self.start.shim if self.start else self.order.shim if self.order else None


@dataclass
class Residents:
    """All attempts of this host whose end is not spooled yet. For one thread."""

    root: Path
    spool: Spool
    measure: Callable[[AttemptFolder], Awaitable[Measurement]]
    grace_s: float
    instance: str
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sample: Callable[[], Sample | None] = lambda: None
    _held: dict[DeviceId, tuple[float, str]] = field(default_factory=dict)
    _live: dict[AttemptId, _Live] = field(default_factory=dict)
    _done: set[AttemptId] = field(default_factory=set)
    _stamp: int = -1

    def __post_init__(self) -> None:
        # This process may have been killed after an event was spooled and before its marker was written.
        self._spooled = {(m.name, AttemptId(*m.body["attempt"])): m.seq for m in self.spool.unacknowledged()}

    async def look(self) -> bool:
        """Spool what has happened since the last look; whether there was anything."""
        before = self.spool.last
        self._discover()
        for live in list(self._live.values()):
            try:
                await self._look_at(live)
            except OSError as error:
                # A full disk, most likely: nothing is lost, the next look tries again.
                log.warning("attempt %s: %s", live.folder.attempt, error)
        return self.spool.last > before

    def watched(self) -> list[WatchedResident]:
        """The attempts whose process runs, for the sampler."""
        return [
            WatchedResident(
                attempt=live.folder.attempt,
                root_pid=live.start.shim_pid,
                devices=tuple(DeviceId(device) for device in live.order.devices),
                folder=live.folder.path,
                started_at=live.start.at,
                blink=live.order.blink,
            )
            for live in self._live.values()
            if live.start is not None and live.order is not None
        ]

    def present(self) -> dict[AttemptId, float | None]:
        """Every attempt that this host still answers for, with the time it started; None if it has not yet."""
        return {attempt: live.start.at if live.start else None for attempt, live in self._live.items()}

    def held(self) -> dict[DeviceId, str]:
        """The devices that failed under a job a while ago, as the job reported, and why they take no new jobs for now."""
        now = self.monotonic()
        self._held = {device: held for device, held in self._held.items() if held[0] > now}
        return {device: why for device, (_, why) in self._held.items()}

    def _discover(self) -> None:
        stamp = self.root.stat().st_mtime_ns
        # A folder made in the same tick of the file system's clock leaves the stamp as it was: look again for a while.
        if stamp == self._stamp and time.time_ns() - stamp > _SETTLED_NS:
            return
        self._stamp = stamp
        for folder in folders_in(self.root):
            if folder.attempt in self._live or folder.attempt in self._done:
                continue
            known = folder.marker()
            marker = Marker(
                started=known.started or self._spooled.get(("Started", folder.attempt)),
                exited=known.exited or self._spooled.get(("Exited", folder.attempt)),
            )
            if marker != known:
                folder.mark(marker)
            if marker.exited is not None:
                self._done.add(folder.attempt)
            else:
                self._live[folder.attempt] = _Live(folder, marker, self.monotonic())

    async def _look_at(self, live: _Live) -> None:
        # The end is read before the start: the shim writes the start first, so after an end it is there if there was one.
        end = live.folder.ended()
        live.order = live.order or live.folder.order()
        live.start = live.start or live.folder.started()
        if live.start is not None and live.marker.started is None:
            start = Started(live.folder.attempt, live.start.at, live.start.pid, str(live.folder.log_path))
            live.marker = Marker(started=self._write(start), exited=None)
            live.folder.mark(live.marker)
        if end is None and self._is_abandoned(live):
            self._sweep(live)
            end = live.folder.ended()
        if end is not None:
            await self._spool_end(live, end)

    async def _spool_end(self, live: _Live, end: EndFile) -> None:
        attempt = live.folder.attempt
        seen = self._seen(live)
        # The sample was read first: this waits for the sampler, and a sample taken meanwhile shows nothing of the attempt.
        measurement = await self.measure(live.folder)
        settled = classify_exit(end, attempt, live.order, live.folder.path, seen)
        if settled.unwell and live.order is not None:
            self._hold(live.order, settled.reason)
        ending, reason, cause = settled.ending, settled.reason, settled.memory_cause
        seq = self._write(Exited(attempt, end.at, ending, end.exit_code, reason, measurement, cause, self.instance))
        del self._live[attempt]
        self._done.add(attempt)
        live.folder.mark(Marker(started=live.marker.started, exited=seq))

    def _seen(self, live: _Live) -> HostObservation | None:
        """The latest sample, and what was promised to the attempt and its partners."""
        sample = self.sample()
        if sample is None or live.order is None:
            return None
        promised = {}
        for other in self._live.values():
            if other.order is not None and not set(live.order.devices).isdisjoint(other.order.devices):
                promise = promised_bytes(other.order)
                if promise is not None:
                    promised[other.folder.attempt] = promise
        return HostObservation(sample, promised)

    def _hold(self, order: OrderFile, reason: str) -> None:
        sample = self.sample()
        labels = {device.id: label(device) for device in sample.devices} if sample else {}
        which = ", ".join(labels.get(DeviceId(device), device) for device in order.devices)
        log.error("%s held for %g minutes: job %s: %s", which, _HELD_FOR_S / 60, order.job, reason)
        held = (self.monotonic() + _HELD_FOR_S, f"it failed under job {order.job}")
        self._held.update(dict.fromkeys(map(DeviceId, order.devices), held))

    def _write(self, event: Started | Exited) -> int:
        seq = self.spool.write(event)
        log.info("attempt %s: %s, spooled as %s", event.attempt, type(event).__name__, seq)
        return seq

    # --- attempts without a shim ---

    def _is_abandoned(self, live: _Live) -> bool:
        shim = live.shim
        if shim is None and self.monotonic() - live.first_seen < _UNORDERED_FOR_S:
            return False
        # The shim may have written the end and exited since it was read above.
        return (shim is None or not is_alive(shim)) and live.folder.ended() is None

    def _sweep(self, live: _Live) -> None:
        """End what is left of an attempt without a shim, by SIGTERM first; once nothing is left, write down its end."""
        now = self.monotonic()
        if now < live.sweep_at:
            return
        live.sweep_at = now + _SWEEP_EVERY_S
        left = _left_of(live)
        if left:
            self._press(live, left, now)
            return
        # The folder may have been deleted. It is the fence of the start, so it has to be there.
        live.folder.path.mkdir(mode=0o700, exist_ok=True)
        if live.start is None and live.kill_at is None:
            ending, reason = Ending.NEVER_STARTED, f"{_SUPERVISOR}, ended before it started the job"
        elif live.shim is not None and live.shim.boot_id != boot_id():
            ending, reason = Ending.LOST, "the machine was restarted while it ran"
        else:
            ending, reason = Ending.LOST, f"{_SUPERVISOR}, was killed; gpuq ended what was left of the job"
        live.folder.close_abandoned(ending, reason, self.clock())

    def _press(self, live: _Live, left: list[Identity], now: float) -> None:
        if live.kill_at is None or now >= live.kill_at:
            mps.disconnect(live.order.env if live.order else {}, [one.pid for one in left])
        if live.kill_at is None:
            live.kill_at = now + self.grace_s
            log.warning("attempt %s lost its shim; ending the %s processes left of it", live.folder.attempt, len(left))
            for one in left:
                send_signal(one, signal.SIGTERM)
                send_signal(one, signal.SIGCONT)
        elif now >= live.kill_at:
            for one in left:
                send_signal(one, signal.SIGKILL)


def _left_of(live: _Live) -> list[Identity]:
    """What still runs of an attempt: the processes with its environment, and all below them."""
    attempt = live.folder.attempt
    marks = {
        "GPUQ_JOB_ID": str(attempt.job),
        "GPUQ_ATTEMPT": str(attempt.number),
        # Only this one differs between two gpuq on one machine.
        "GPUQ_PROGRESS": str(live.folder.path / "progress"),
    }
    found = set(with_environment(marks))
    if live.start is not None:
        found.add(Identity(live.start.boot_id, live.start.pid, live.start.start_ticks))
    for one in list(found):
        if is_alive(one):
            found.update(identities(descendants(one.pid)))
    return [one for one in found if is_alive(one)]
