"""The devices as scheduling passes see them, in the orders in which passes look through them.

The index is part of the `PassCache`. At the beginning of a pass it looks again at the devices that changed since the last one,
and at no others. A revision counts the changes that an admission could depend on; by the revision of a device's last change the
cache determines which of its conclusions still hold.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.booking import Booking
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.index import DeviceClass, device_class, latest_since
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule

# What a row is sorted by, then the device: bytes used by foreign processes and the device's place in the state, for idle
# devices; the percentage in use and the device's id, for shared ones.
Entry = tuple[float, int | str, DeviceId]
# What tells devices apart where a job runs alone: the class by which forecasts differ, the memory in bytes, the backend.
DeviceModel = tuple[DeviceClass, int, str]


def device_model(device: Device) -> DeviceModel:
    """The model of a device."""
    return device_class(device), device.total_memory, device.backend


class DeviceIndex:
    """Snapshots of all devices, and rows of those that are open, which means usable and with room for one more job."""

    def __init__(self) -> None:
        self.snapshots: dict[DeviceId, DeviceSnapshot] = {}
        self.idle: list[Entry] = []
        """Open devices without residents, those that foreign processes use least first."""
        self.shareable: list[Entry] = []
        """Open devices with residents that may all share, the least used first."""
        self.open_of: dict[HostId, dict[DeviceId, None]] = {}
        """The open devices of each host."""
        self.idle_of: dict[HostId, int] = {}
        """How many of the open devices of each host are idle."""
        self.host_order: dict[HostId, int] = {}
        self.device_classes: dict[DeviceClass, Device] = {}
        """One device of each class."""
        self.models: dict[DeviceModel, Device] = {}
        """One device of each model."""
        self.reserved: dict[DeviceId, Reservation] = {}
        """The reservations by device."""
        self.booked: dict[DeviceId, tuple[Booking, ...]] = {}
        """The bookings of each device that are not over, the first to begin first. Devices that are given back are here too."""
        self.unusable: Counter[Rule] = Counter()
        """How many devices admit no job whatever, by the rule."""
        self.revision = 0
        self.changed: dict[DeviceId, int] = {}
        """The revision of each device's last change, the latest last."""
        self.opened = 0
        """The last revision at which a device changed that is open now."""
        self.device_changes = -1
        self.free_memory: dict[DeviceId, float] = {}
        """Bytes that one more job may have on each shareable device, the headroom kept free; below 0 where it is overfull."""
        self._by_memory: list[tuple[float, DeviceId]] = []
        """The same, the fewest first."""
        self._touches = -1
        self._order: dict[DeviceId, int] = {}
        self._entry: dict[DeviceId, tuple[list[Entry], Entry]] = {}
        self._silent: set[HostId] = set()
        self._given_back: list[DeviceId] = []

    def sync(self, state: State, limits: Limits, now: float) -> None:
        """Take in which devices were touched, which hosts have become silent, and which devices are reserved."""
        index = state.index
        touched = index.touched_since(self._touches)
        self._touches = index.touches
        self._silent.difference_update(state.devices[device].host for device in touched)
        silent = [device for host in self._gone_silent(state, limits, now) for device in index.devices_of.get(host, ())]
        if index.device_changes != self.device_changes:
            self.device_changes = index.device_changes
            self.device_classes = {device_class(device): device for device in state.devices.values()}
            self.models = {device_model(device): device for device in state.devices.values()}
            self._given_back = [device.id for device in state.devices.values() if device.until_at is not None]
            # Devices are only added, so the numbers in the rows stay right. When a host is forgotten, the index is made again.
            self._order = {device: number for number, device in enumerate(state.devices)}
            hosts = dict.fromkeys(device.host for device in state.devices.values())
            self.host_order = {host: number for number, host in enumerate(hosts)}
        if touched or silent:
            self._renew(dict.fromkeys((*reversed(touched), *silent)), state, limits, now)
        self.reserve(state.reservations.values())
        self._book(state.bookings.values(), now)

    def reserve(self, reservations: Iterable[Reservation]) -> None:
        """Replace the reservations by these. A device for which that is a change counts as changed."""
        # Sorted, so that what looks through them does not depend on the order in which they were made.
        by_job = sorted(reservations, key=lambda reservation: reservation.job)
        reserved = {device: reservation for reservation in by_job for device in reservation.devices}
        if reserved != self.reserved:
            different = {d for d in {*reserved, *self.reserved} if reserved.get(d) != self.reserved.get(d)}
            self.reserved = reserved
            self.mark_changed(different)

    def _book(self, bookings: Iterable[Booking], now: float) -> None:
        booked: dict[DeviceId, tuple[Booking, ...]] = dict.fromkeys(self._given_back, ())
        for booking in sorted(bookings, key=lambda one: (one.from_at, one.id)):
            for device in booking.devices if booking.until_at > now else ():
                if device in self._order:  # its host may have been forgotten
                    booked[device] = (*booked.get(device, ()), booking)
        if booked != self.booked:
            different = {d for d in {*booked, *self.booked} if booked.get(d) != self.booked.get(d)}
            self.booked = booked
            self.mark_changed(different)

    def mark_changed(self, devices: Iterable[DeviceId]) -> None:
        """Count these devices as changed: conclusions about them do not hold any more."""
        self.revision += 1
        for device in sorted(devices):
            self._note_change(device)

    def changed_since(self, revision: int) -> list[DeviceId]:
        """The devices that changed after this revision, the latest first."""
        return latest_since(self.changed, revision)

    def entries(self, devices: Iterable[DeviceId]) -> tuple[list[Entry], list[Entry]]:
        """The parts of `idle` and `shareable` that concern these devices."""
        idle: list[Entry] = []
        shareable: list[Entry] = []
        for device in devices:
            if device in self._entry:
                row, entry = self._entry[device]
                (idle if row is self.idle else shareable).append(entry)
        return sorted(idle), sorted(shareable)

    def count_with_memory(self, needed: int) -> int:
        """How many shareable devices have at least this many bytes for one more job."""
        return len(self._by_memory) - bisect_left(self._by_memory, (needed, ""))

    def with_memory(self, needed: int) -> list[DeviceId]:
        """The shareable devices that have at least this many bytes for one more job, the fewest first."""
        return [device for _, device in self._by_memory[bisect_left(self._by_memory, (needed, "")) :]]

    def _gone_silent(self, state: State, limits: Limits, now: float) -> list[HostId]:
        """Hosts whose last report has become too old since the last look. Nothing touches their devices, only time passes."""
        found = []
        for host, last_report in state.index.last_reports.items():
            if now - last_report <= limits.stale_after_s:
                break
            if host not in self._silent:
                found.append(host)
        self._silent.update(found)
        return found

    def _renew(self, devices: Iterable[DeviceId], state: State, limits: Limits, now: float) -> None:
        self.revision += 1
        for device_id in devices:
            old = self.snapshots.get(device_id)
            reading = state.readings.get(device_id)
            fresh = reading if reading and now - reading.at <= limits.stale_after_s else None
            device = state.devices[device_id]
            drained, host = state.drained.get(device.host), state.hosts.get(device.host)
            no_starts = None if host is None else host.no_starts
            residents = state.residents_of(device_id)
            snapshot = DeviceSnapshot(device, residents, fresh, drained=drained, no_starts=no_starts)
            self.snapshots[device_id] = snapshot
            # Reports come every second and mostly repeat themselves: without this, every class would look at every device again.
            if old is None or _inputs_of_admission(old) != _inputs_of_admission(snapshot):
                for one, count in ((old, -1), (snapshot, 1)):
                    if one is not None and one.unusable is not None:
                        self.unusable[one.unusable] += count
                self._close(old)
                self._open(snapshot, limits)
                self._note_change(device_id)

    def _note_change(self, device: DeviceId) -> None:
        self.changed.pop(device, None)
        self.changed[device] = self.revision
        if device in self._entry:
            self.opened = self.revision

    def _open(self, snapshot: DeviceSnapshot, limits: Limits) -> None:
        device = snapshot.device
        if snapshot.unusable is not None:
            return
        if not snapshot.residents:
            self._enter(self.idle, (snapshot.committed_memory, self._order[device.id], device.id))
            self.idle_of[device.host] = self.idle_of.get(device.host, 0) + 1
        elif len(snapshot.residents) < limits.residents_per_device and all(a.shares for a in snapshot.residents):
            self._enter(self.shareable, (snapshot.committed_utilization, device.id, device.id))
            free = device.total_memory * (1 - limits.memory_headroom) - snapshot.committed_memory
            self.free_memory[device.id] = free
            insort(self._by_memory, (free, device.id))
        else:
            return
        self.open_of.setdefault(device.host, {})[device.id] = None

    def _enter(self, row: list[Entry], entry: Entry) -> None:
        insort(row, entry)
        self._entry[entry[-1]] = row, entry

    def _close(self, snapshot: DeviceSnapshot | None) -> None:
        if snapshot is None or snapshot.device.id not in self._entry:
            return
        row, entry = self._entry.pop(snapshot.device.id)
        del row[bisect_left(row, entry)]
        del self.open_of[snapshot.device.host][snapshot.device.id]
        if row is self.idle:
            self.idle_of[snapshot.device.host] -= 1
        else:
            free = self.free_memory.pop(snapshot.device.id)
            del self._by_memory[bisect_left(self._by_memory, (free, snapshot.device.id))]


def _inputs_of_admission(snapshot: DeviceSnapshot) -> tuple[object, ...]:
    """Everything about a device that `admit` looks at. Two snapshots that are equal in this get the same verdicts."""
    reading = snapshot.reading
    seen = reading and (
        reading.used_memory is None,
        reading.foreign_memory,
        reading.foreign_utilization_pct,
        reading.unwell,
    )
    residents = tuple(attempt.id for attempt in snapshot.residents)
    committed = snapshot.committed_memory, snapshot.committed_utilization
    return snapshot.device, residents, *committed, seen, snapshot.drained, snapshot.no_starts
