"""Hosts that report to the core: their devices, the memory in use, and the attempts that run there.

Reports are those of a worker service, but sent only when something changes. So a lost host is announced by a report without
readings, where a real one's last report would grow old.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.events import HostReported, ResidentReport
from gpuq.sim.cluster import RunningAttempt, SimulatedCluster


class Hosts:
    """The hosts of a world, all up at first."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._devices: dict[HostId, tuple[Device, ...]] = {}
        for device in cluster.world.devices:
            self._devices[device.host] = (*self._devices.get(device.host, ()), device)
        self._boots = dict.fromkeys(self._devices, 1)
        self._lost: set[HostId] = set()

    def reports(self, now: float) -> Iterator[HostReported]:
        """One report of each host."""
        return (self.report(host, now) for host in self._devices)

    def report(self, host: HostId, now: float) -> HostReported:
        """The host's report now: its devices, their readings, its residents; no readings while it is lost."""
        devices = self._devices[host]
        readings: tuple[tuple[DeviceId, Reading], ...] = ()
        residents: tuple[ResidentReport, ...] = ()
        if host not in self._lost:
            readings = tuple((d.id, Reading(now, self._cluster.used_memory(d.id), 0.0, 0, 0.0)) for d in devices)
            there = dict.fromkeys(resident for device in devices for resident in self._cluster.on[device.id])
            residents = tuple(self._resident(r, now) for r in there)
        return HostReported(host, f"boot {self._boots[host]}", now, devices, readings, residents)

    def _resident(self, resident: RunningAttempt, now: float) -> ResidentReport:
        slowed_s, paused_s = self._cluster.losses(resident, now)
        return ResidentReport(
            attempt=resident.run.id,
            memory_bytes=resident.held_bytes,
            started_at=resident.run.started_at,
            slowed_s=slowed_s,
            paused_s=paused_s,
        )

    def is_up(self, host: HostId) -> bool:
        """Whether the world has this host and it is not lost."""
        return host in self._devices and host not in self._lost

    @property
    def names(self) -> list[HostId]:
        """All hosts of the world, lost ones too."""
        return list(self._devices)

    def give(self, host: HostId, count: int, until_at: float, now: float) -> tuple[DeviceId, ...]:
        """A lost host is back with its first `count` devices, which it gives back at `until_at`. Returns their ids."""
        there = [device for device in self._cluster.world.devices if device.host == host][:count]
        self._devices[host] = tuple(replace(device, until_at=until_at) for device in there)
        self.take_back(host, now)
        return tuple(device.id for device in there)

    def lose(self, host: HostId, now: float) -> None:
        """The host is lost from now on; its attempts must have been taken off before."""
        self._lost.add(host)
        for device in self._devices[host]:
            self._cluster.energy.set(device, (), now, on=False)

    def take_back(self, host: HostId, now: float) -> None:
        """The host is back, with a new boot id."""
        self._lost.discard(host)
        self._boots[host] += 1
        for device in self._devices[host]:
            self._cluster.energy.set(device, (), now)
