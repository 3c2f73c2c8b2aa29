"""Devices as passes see them, kept from one pass to the next: only what was touched is looked at anew.

Arrives: the state, the limits, the time. Leaves: a `DeviceSnapshot` for each device, the idle ones in order, and the open busy
ones, the least loaded first. A turn is counted whenever anything changed that an admission could depend on. Ignores who waits.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.index import DeviceClass, device_class, since
from gpuq.core.state.state import State

# (what it is ordered by, a device): foreign memory and the order of devices; or the load and the device's name.
Entry = tuple[float, int | str, DeviceId]


class DeviceIndex:
    """See the module's own words. `turn` counts changes, `changed` has the turn of each device's last one, the latest last, and
    `opened` the last turn in which a place changed that is open now."""

    def __init__(self) -> None:
        self.all: dict[DeviceId, DeviceSnapshot] = {}
        self.idle: list[Entry] = []
        self.shareable: list[Entry] = []
        self.free: list[tuple[float, DeviceId]] = []
        """Bytes that newcomers may have on the open busy places, the fewest first."""
        self.open_of: dict[HostId, dict[DeviceId, None]] = {}
        self.idle_of: dict[HostId, int] = {}
        self.device_classes: dict[DeviceClass, Device] = {}
        self.unread = 0
        """Places without a fresh reading."""
        self.unwell = 0
        """Places that say that they are unwell."""
        self.turn = 0
        self.changed: dict[DeviceId, int] = {}
        self.opened = 0
        self.device_changes = -1
        self._touches = -1
        self._order: dict[DeviceId, int] = {}
        self._entry: dict[DeviceId, tuple[list[Entry], Entry]] = {}
        self._silent: set[HostId] = set()

    def sync(self, state: State, limits: Limits, now: float) -> None:
        """Take in what was touched, and which hosts have been silent for too long."""
        index = state.index
        touched = index.touched_since(self._touches)
        self._touches = index.touches
        self._silent.difference_update(state.devices[device].host for device in touched)
        silent = [device for host in self._gone_silent(state, limits, now) for device in index.devices_of.get(host, ())]
        if touched or silent:
            self._renew(dict.fromkeys((*reversed(touched), *silent)), state, limits, now)
        if index.device_changes != self.device_changes:
            self.device_changes = index.device_changes
            self.device_classes = {device_class(device): device for device in state.devices.values()}

    def bump(self, devices: Iterable[DeviceId]) -> None:
        """Have everybody look at these again."""
        self.turn += 1
        for device in devices:
            self._note_change(device)

    def changed_since(self, turn: int) -> list[DeviceId]:
        """Devices that changed after this turn."""
        return since(self.changed, turn)

    def entries(self, devices: Iterable[DeviceId]) -> tuple[list[Entry], list[Entry]]:
        """Those of these devices that are idle, and those that are busy and open to a newcomer, each in order."""
        idle: list[Entry] = []
        shareable: list[Entry] = []
        for device in devices:
            if device in self._entry:
                row, entry = self._entry[device]
                (idle if row is self.idle else shareable).append(entry)
        return sorted(idle), sorted(shareable)

    def with_room(self, needed: int) -> int:
        """How many of the open busy places have so many bytes for a newcomer: the last ones of `free`."""
        return len(self.free) - bisect_left(self.free, (needed, ""))

    def _gone_silent(self, state: State, limits: Limits, now: float) -> list[HostId]:
        found = []
        for host, last_reports in state.index.last_reports.items():
            if now - last_reports <= limits.stale_after_s:
                break
            if host not in self._silent:
                found.append(host)
        self._silent.update(found)
        return found

    def _renew(self, devices: Iterable[DeviceId], state: State, limits: Limits, now: float) -> None:
        self.turn += 1
        for device_id in devices:
            old = self.all.get(device_id)
            device = state.devices[device_id]
            snapshot = DeviceSnapshot(
                device, state.residents_of(device_id), _fresh_reading(state, device_id, limits, now)
            )
            self.all[device_id] = snapshot
            self._order.setdefault(device_id, len(self._order))
            if old is None or _shape(old) != _shape(snapshot):
                self.unread += (snapshot.reading is None) - (old is not None and old.reading is None)
                self.unwell += _is_unwell(snapshot) - (old is not None and _is_unwell(old))
                self._close(old, limits)
                self._open(snapshot, limits)
                self._note_change(device_id)

    def _note_change(self, device: DeviceId) -> None:
        self.changed.pop(device, None)
        self.changed[device] = self.turn
        if device in self._entry:
            self.opened = self.turn

    def _open(self, snapshot: DeviceSnapshot, limits: Limits) -> None:
        device = snapshot.device
        if snapshot.reading is None or _is_unwell(snapshot):
            return
        if not snapshot.residents:
            # Those that foreign processes leave alone come first, so that the few tried are the best.
            self._enter(self.idle, (snapshot.committed_memory, self._order[device.id], device.id))
            self.idle_of[device.host] = self.idle_of.get(device.host, 0) + 1
        elif len(snapshot.residents) < limits.residents_per_device and all(a.shares for a in snapshot.residents):
            self._enter(self.shareable, (snapshot.committed_utilization, device.id, device.id))
            insort(self.free, _free(snapshot, limits))
        else:
            return
        self.open_of.setdefault(device.host, {})[device.id] = None

    def _enter(self, row: list[Entry], entry: Entry) -> None:
        insort(row, entry)
        self._entry[entry[-1]] = row, entry

    def _close(self, snapshot: DeviceSnapshot | None, limits: Limits) -> None:
        if snapshot is None or snapshot.device.id not in self._entry:
            return
        row, entry = self._entry.pop(snapshot.device.id)
        del row[bisect_left(row, entry)]
        del self.open_of[snapshot.device.host][snapshot.device.id]
        if row is self.idle:
            self.idle_of[snapshot.device.host] -= 1
        else:
            del self.free[bisect_left(self.free, _free(snapshot, limits))]


def _fresh_reading(state: State, device: DeviceId, limits: Limits, now: float) -> Reading | None:
    reading = state.readings.get(device)
    return reading if reading and now - reading.at <= limits.stale_after_s else None


def _free(snapshot: DeviceSnapshot, limits: Limits) -> tuple[float, DeviceId]:
    return snapshot.device.total_memory * (1 - limits.memory_headroom) - snapshot.committed_memory, snapshot.device.id


def _is_unwell(snapshot: DeviceSnapshot) -> bool:
    return snapshot.reading is not None and snapshot.reading.unwell is not None


def _shape(snapshot: DeviceSnapshot) -> tuple[object, ...]:
    """All of a place that `admit` looks at."""
    reading = snapshot.reading
    seen = reading and (
        reading.used_memory is None,
        reading.foreign_memory,
        reading.foreign_utilization_pct,
        reading.unwell,
    )
    residents = tuple(attempt.id for attempt in snapshot.residents)
    return snapshot.device, residents, snapshot.committed_memory, snapshot.committed_utilization, seen
