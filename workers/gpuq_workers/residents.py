"""Watches the folders of this host's attempts and spools `Started` and `Exited`, each once, also across restarts of this process.

The shim writes what happens into the folder. An attempt whose shim is gone without an exit status is ended here: first its
remaining processes, then its record, as lost, or as never started if nothing of it ever ran.

A file that cannot be read says nothing: no attempt is ended for it, and it is read again every second. Once nothing runs any more
that could mend it, the attempt ends as lost after a minute.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TypeVar

import msgspec

from gpuq.adapters.process import (
    Identity,
    boot_id,
    is_alive,
    is_stopped,
    send_signal,
    with_environment,
)
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import DeviceId, NoStarts
from gpuq.core.state.device_names import label
from gpuq.core.state.events import Exited, Started
from gpuq.messages import launch
from gpuq_workers import units
from gpuq_workers.attempts import (
    AttemptFolder,
    EndFile,
    Marker,
    OrderFile,
    StartFile,
    UnreadableFile,
    ends_asked_for,
    folders_in,
    promised_bytes,
)
from gpuq_workers.ended import EndedAttempts
from gpuq_workers.exit_classification import HostObservation, classify_exit
from gpuq_workers.failed_starts import FailedStarts
from gpuq_workers.live_attempt import LiveAttempt, Unreadable
from gpuq_workers.measuring.sample import Sample, WatchedResident
from gpuq_workers.shim import mps
from gpuq_workers.spool import Spool

log = logging.getLogger("gpuq.residents")

# A folder without an order or a lock belongs to a task that died, or one that has just made it, or a shim that lost it and is
# about to write its files again: they have this long.
_UNORDERED_FOR_S = 2.0
# An attempt that was given to a unit: the broker and PID 1 have this long to start it.
_UNIT_STARTS_WITHIN_S = 30.0
_UNREADABLE_FOR_S = 60.0
_READ_AGAIN_AFTER_S = 1.0
_SWEEP_EVERY_S = 0.3
# A shim that was ordered to stop before it started its job obeys at once, unless the folder or the program of the job is on a
# file system that does not answer. It is killed so long after the grace of a stop.
_HANGS_AFTER_S = 5.0
_SETTLED_S = 1.0
# A device that its driver did not answer for when a job failed on it takes no new jobs for so long, so that an operator can look
# at it. Failures that the driver itself reports are handled by the backend.
_HELD_FOR_S = 600.0
_SUPERVISOR = "its supervisor, gpuq's shim process"
_UNSTARTED = f"{_SUPERVISOR}, ended before it started the job"
_NO_UNIT = "PID 1 or its bus did not start its unit"
_NO_END = "its unit ended, and PID 1 did not write down how"
_UNORDERED = "its order was not carried out: the process that follows orders ended, or gave up waiting for the record"


T = TypeVar("T")


@dataclass
class Residents:
    """All attempts of this host whose end is not spooled yet. For one thread. `in_units`: jobs run as their submitters."""

    root: Path
    spool: Spool
    measure: Callable[[AttemptFolder], Awaitable[Measurement]]
    grace_s: float
    instance: str
    in_units: bool = False
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sample: Callable[[], Sample | None] = lambda: None
    _held: dict[DeviceId, tuple[float, str]] = field(default_factory=dict)
    _live: dict[AttemptId, LiveAttempt] = field(default_factory=dict)
    _failed_starts: FailedStarts = field(default_factory=FailedStarts)
    _stamp: int = -1
    _stamp_since: float = 0.0

    def __post_init__(self) -> None:
        self.ended = EndedAttempts(self.root)
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

    def running(self) -> list[WatchedResident]:
        """The attempts whose process runs. Their pauses, for which a file of each has to be read, are left out."""
        return [
            WatchedResident(
                attempt=live.folder.attempt,
                root_pid=live.start.shim_pid,
                devices=tuple(DeviceId(device) for device in live.order.devices),
                folder=live.folder.path,
                started_at=live.start.at,
                blink=live.order.blink,
                borrows=live.order.borrows,
            )
            for live in self._live.values()
            if live.start is not None and live.order is not None
        ]

    def watched(self) -> list[WatchedResident]:
        """Running attempts with their pauses, for the sampler."""
        return [replace(one, pauses=self._live[one.attempt].pauses()) for one in self.running()]

    def present(self) -> dict[AttemptId, float | None]:
        """Every attempt that this host still answers for, with the time it started; None if it has not yet."""
        return {attempt: live.start.at if live.start else None for attempt, live in self._live.items()}

    def shims(self) -> set[Identity]:
        """The shims of the attempts that it answers for, as far as they are known."""
        return {live.shim for live in self._live.values() if live.shim is not None}

    def held(self) -> dict[DeviceId, str]:
        """The devices that failed under a job a while ago, and why they take no new jobs for now."""
        now = self.monotonic()
        self._held = {device: held for device, held in self._held.items() if held[0] > now}
        return {device: why for device, (_, why) in self._held.items()}

    def no_starts(self) -> NoStarts | None:
        """Why this host takes no jobs for now, after the last could not be started."""
        return self._failed_starts.no_starts(self.monotonic())

    def _discover(self) -> None:
        stamp, now = self.root.stat().st_mtime_ns, self.monotonic()
        if stamp != self._stamp:
            self._stamp_since = now
        # A folder made in the same tick of the file system's clock leaves the stamp as it was: look again for a while.
        elif now - self._stamp_since > _SETTLED_S:
            return
        live = {live.folder.path.name for live in self._live.values()}
        for folder in folders_in(self.root, without=live | self.ended.names):
            known = folder.marker()
            marker = Marker(
                started=known.started or self._spooled.get(("Started", folder.attempt)),
                exited=known.exited or self._spooled.get(("Exited", folder.attempt)),
            )
            if marker != known:
                with suppress(OSError):  # the next start of this process finds the events in the spool again
                    folder.mark(marker)
            if marker.exited is not None:
                self.ended.add(folder.path.name, self._ended_at(folder))
            else:
                self._live[folder.attempt] = LiveAttempt(folder, marker, self.monotonic())
        self._stamp = stamp
        unacknowledged = {tuple(message.body["attempt"]) for message in self.spool.unacknowledged()}
        for folder in ends_asked_for(self.root):
            # What was acknowledged and is asked for all the same was lost on the way. Its folder still has it.
            if folder.path.name in self.ended.names and folder.attempt not in unacknowledged:
                self.ended.remove(folder.path.name)
                self._live[folder.attempt] = LiveAttempt(folder, Marker(), self.monotonic())

    def _ended_at(self, folder: AttemptFolder) -> float:
        with suppress(OSError):
            end = folder.ended()
            if end is not None:
                return end.at
        return self.clock()  # not known: its folder is kept as if it had ended just now

    async def _look_at(self, live: LiveAttempt) -> None:
        await self._keep_shim_going(live)
        # The end is read before the start: the shim writes the start first, so after an end it is there if there was one.
        end = self._read(live, "exit.json", live.folder.ended)
        live.order = live.order or self._read(live, "order.json", live.folder.order)
        live.start = live.start or _believed(self._read(live, "started.json", live.folder.started), live.order, end)
        if live.start is not None and live.marker.started is None:
            start = Started(live.folder.attempt, live.start.at, live.start.pid, str(live.folder.log_path))
            live.marker = Marker(started=await self._write(start), exited=None)
            live.folder.mark(live.marker)
            self._failed_starts = FailedStarts()
        if end is not None and live.unit is None and live.shim is not None and is_alive(live.shim):
            # The shim ends right after it has written the end. Until then, this one is the job's own, and it runs on; or the job
            # has removed or renamed its folder, so an order to end it closed a new one.
            if end.ending in {Ending.NEVER_STARTED, Ending.LOST} and live.start is not None:
                send_signal(live.start.shim, signal.SIGTERM)
            return
        if end is not None and self._has_unit(live):
            return  # processes that outlived the shim, which PID 1 kills now
        # A job may write an end and then kill its shim. So processes are looked for even where there is an end.
        if end is None:
            end = await self._end_if_abandoned(live)
        elif await self._runs_on(live):
            end = await self._sweep(live)
        if end is not None:
            await self._spool_end(live, end)

    async def _keep_shim_going(self, live: LiveAttempt) -> None:
        """Resume a shim that was stopped, as its job can do: it would keep neither the time limit nor an order to stop. Kill one
        that hangs at the start of its job and cannot obey an order to stop."""
        now = self.monotonic()
        if live.shim is None or now - live.shim_seen_at < _SWEEP_EVERY_S:
            return
        live.shim_seen_at = now
        if is_stopped(live.shim) and send_signal(live.shim, signal.SIGCONT):
            log.warning("attempt %s: %s, was stopped; it goes on", live.folder.attempt, _SUPERVISOR)
        if live.start is not None or live.order is None or not live.folder.was_stopped():
            return
        live.hangs_at = live.hangs_at or now + live.order.grace_s + _HANGS_AFTER_S
        if now < live.hangs_at or not is_alive(live.shim):
            return
        # A job that runs although its start could not be written down gets the grace that its shim gives it.
        if not await asyncio.to_thread(with_environment, live.marks()) and send_signal(live.shim, signal.SIGKILL):
            live.hangs_at = inf  # it may take long to end, where not even a signal is heeded
            log.warning(
                "attempt %s: %s, hung before it started the job, and was killed", live.folder.attempt, _SUPERVISOR
            )

    def _read(self, live: LiveAttempt, name: str, read: Callable[[], T | None], *, at_once: bool = False) -> T | None:
        """What the file holds; None if it is missing, and if it cannot be read, which `live.unreadable` then says.

        A file that could not be read is read again after a second, or `at_once`.
        """
        now, known = self.monotonic(), live.unreadable.get(name)
        if known is not None and now < known.again_at and not at_once:
            return None
        try:
            found = read()
        except UnreadableFile as error:
            if known is None:
                log.warning("attempt %s: %s; it is left alone", live.folder.attempt, error)
            since = now if known is None else known.since
            live.unreadable[name] = Unreadable(since, str(error), now + _READ_AGAIN_AFTER_S)
            return None
        live.unreadable.pop(name, None)
        return found

    async def _spool_end(self, live: LiveAttempt, end: EndFile) -> None:
        attempt = live.folder.attempt
        seen = self._seen(live)
        # The sample was read first: this waits for the sampler, and a sample taken meanwhile shows nothing of the attempt.
        measurement = await self.measure(live.folder)
        settled = classify_exit(end, attempt, live.order, live.folder.path, seen)
        if settled.unwell and live.order is not None:
            self._hold(live.order, settled.reason)
        elif end.ending is Ending.NEVER_STARTED and not live.folder.was_stopped():
            wait_s = self._failed_starts.add(end.reason, self.clock(), self.monotonic())
            if wait_s is not None:
                log.warning("after attempt %s this host takes no new job for %g s: %s", attempt, wait_s, end.reason)
        at = end.ended_at(live.start)
        ending, reason, cause = settled.ending, settled.reason, settled.memory_cause
        seq = await self._write(Exited(attempt, at, ending, end.exit_code, reason, measurement, cause, self.instance))
        del self._live[attempt]
        self.ended.add(live.folder.path.name, end.at)
        live.folder.mark(Marker(started=live.marker.started, exited=seq))

    def _seen(self, live: LiveAttempt) -> HostObservation | None:
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

    async def _write(self, event: Started | Exited) -> int:
        seq = await self.spool.write(event)
        log.info("attempt %s: %s, spooled as %s", event.attempt, type(event).__name__, seq)
        return seq

    # --- attempts without a shim ---

    async def _end_if_abandoned(self, live: LiveAttempt) -> EndFile | None:
        """The end of an attempt that no process is left to end, once it is written."""
        if self._has_supervisor(live):
            return None
        if live.order is not None or live.start is not None:
            return await self._sweep(live) if await self._is_abandoned(live) else None
        # Whoever makes a folder keeps it locked until an order or an end is in it, however long the record takes to answer.
        with live.folder.locked() as is_ours:
            return await self._sweep(live) if is_ours and await self._is_abandoned(live) else None

    def _has_supervisor(self, live: LiveAttempt) -> bool:
        """Whether its shim or its unit runs, or may still be about to start."""
        age_s = self.monotonic() - live.first_seen
        if live.unit is not None:
            may_still_start = live.marker.started is None and age_s < _UNIT_STARTS_WITHIN_S
            return self._has_unit(live) or may_still_start
        if live.shim is None:
            return self._has_unit(live) or age_s < _UNORDERED_FOR_S
        return is_alive(live.shim)

    async def _is_abandoned(self, live: LiveAttempt) -> bool:
        """Whether no process is left that will write the end, as far as the files can be read."""
        now = self.monotonic()
        # The end, and in a folder that was just unlocked the order, may have been written since they were read above.
        if self._read(live, "exit.json", live.folder.ended, at_once=True) is not None:
            return False
        if live.order is None and self._read(live, "order.json", live.folder.order, at_once=True) is not None:
            return False
        # What cannot be read may say that the attempt has ended or, where its shim is not known, that it runs.
        unknown = [file for name, file in live.unreadable.items() if live.shim is None or name == "exit.json"]
        if any(now - file.since < _UNREADABLE_FOR_S for file in unknown):
            return False
        if live.shim is not None or not unknown:
            return True
        left = await asyncio.to_thread(live.left)
        if left:
            for file in unknown:
                file.since = now
        return not left

    def _has_unit(self, live: LiveAttempt) -> bool:
        """Whether its unit runs, also where its folder was removed and the one that was made again has no order."""
        if live.order is None and self.in_units:
            return units.is_active(launch.unit_name(*live.folder.attempt))
        return live.unit is not None and units.is_active(live.unit.name)

    async def _runs_on(self, live: LiveAttempt) -> bool:
        """Whether anything is left of an attempt that has an end and no shim, and has started or was closed by an order: that
        found no folder, which may have been removed while the attempt ran."""
        if live.kill_at is not None:
            return True
        return (live.start is not None or live.order is None) and bool(await asyncio.to_thread(live.left))

    async def _sweep(self, live: LiveAttempt) -> EndFile | None:
        """End what is left of an attempt without a shim, by SIGTERM first; once nothing is left, write down its end."""
        now = self.monotonic()
        if now < live.sweep_at:
            return None
        live.sweep_at = now + _SWEEP_EVERY_S
        # In a thread: it reads all of /proc, and a control daemon of MPS may take seconds to answer.
        left = await asyncio.to_thread(live.left)
        if left and live.shim is None and now - live.first_seen < _UNORDERED_FOR_S:
            return None  # its folder was removed: its shim, if it has one, writes its files again, and then ends it
        if left:
            await asyncio.to_thread(self._press, live, left, now)
            return None
        has_started = live.start is not None or live.marker.started is not None or live.kill_at is not None
        if not has_started and live.order is None and not os.path.lexists(live.folder.path):
            del self._live[live.folder.attempt]  # the record did not let it start
            return None
        if live.boot not in {None, boot_id()}:
            ending, reason = Ending.LOST, "the machine was restarted while it ran"
        elif live.unreadable:
            why = "; ".join(file.why for file in live.unreadable.values())
            ending, reason = Ending.LOST, f"{_SUPERVISOR}, is gone, and how it ended is not known: {why}"
        elif not has_started:
            ending = Ending.NEVER_STARTED
            reason = _UNORDERED if live.order is None else _UNSTARTED if live.unit is None else _NO_UNIT
        else:
            what = f"{_SUPERVISOR}, was killed" if live.shim is not None else "its folder was removed while it ran"
            reason = f"{what}; gpuq ended what it found of the job" if live.unit is None else _NO_END
            ending = Ending.LOST
        live.folder.close_abandoned(ending, reason, self.clock())
        live.unreadable.clear()
        return self._read(live, "exit.json", live.folder.ended)

    def _press(self, live: LiveAttempt, left: list[Identity], now: float) -> None:
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


def _believed(start: StartFile | None, order: OrderFile | None, end: EndFile | None) -> StartFile | None:
    """The start, as far as it can be believed: a unit's job could write it, and name a process or a time that are not its own."""
    if start is None or order is None or order.unit is None:
        return start
    if end is None and not units.is_in(order.unit.name, start.shim_pid):
        return None
    at = min(max(start.at, order.unit.at), order.unit.at + _UNIT_STARTS_WITHIN_S)
    return msgspec.structs.replace(start, at=at)
