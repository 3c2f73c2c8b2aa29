"""What hosts say of themselves: which devices they have, what is used there, who runs.

Arrives: what really is on the floor, hosts that go and come back. Leaves: reports, as a worker service sends them, but only
when something changed; so a host that is gone is told by a report without readings, where a real one's would grow old.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.state.device import Device, HostId, Reading
from gpuq.core.state.events import HostReported, ResidentReport
from gpuq.sim.cluster import Floor


class Hosts:
    """The hosts of a world, all up at first."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._devices: dict[HostId, tuple[Device, ...]] = {}
        for device in floor.world.devices:
            self._devices[device.host] = (*self._devices.get(device.host, ()), device)
        self._boots = dict.fromkeys(self._devices, 1)
        self._gone: set[HostId] = set()

    def reports(self, now: float) -> Iterator[HostReported]:
        """One report for each."""
        return (self.report(host, now) for host in self._devices)

    def report(self, host: HostId, now: float) -> HostReported:
        """All its devices, their readings, its residents."""
        devices = self._devices[host]
        if host in self._gone:
            return HostReported(host, self._boot(host), now, devices, (), ())
        readings = tuple((d.id, Reading(now, self._floor.used_memory(d.id), 0.0, 0, 0.0)) for d in devices)
        there = dict.fromkeys(resident for device in devices for resident in self._floor.on[device.id])
        residents = (
            ResidentReport(attempt=r.run.id, memory_bytes=r.held_bytes, started_at=r.run.started_at) for r in there
        )
        return HostReported(host, self._boot(host), now, devices, readings, tuple(residents))

    def is_up(self, host: HostId) -> bool:
        """Whether there is such a host, and it is not gone."""
        return host in self._devices and host not in self._gone

    def lose(self, host: HostId, now: float) -> None:
        """It is gone; nobody is left there."""
        self._gone.add(host)
        for device in self._devices[host]:
            self._floor.energy.set(device, (), now, on=False)

    def take_back(self, host: HostId, now: float) -> None:
        """It is there again, booted anew."""
        self._gone.discard(host)
        self._boots[host] += 1
        for device in self._devices[host]:
            self._floor.energy.set(device, (), now)

    def _boot(self, host: HostId) -> str:
        return f"boot {self._boots[host]}"
