"""The power that simulated devices draw, integrated over time.

A device without a job draws its type's idle power. A job adds its power alone minus idle, divided by its slowdown: the energy
of a step above idle is the same whatever runs beside it. That power grows linearly with use from the idle level is the model of
Fan, Weber and Barroso ("Power Provisioning for a Warehouse-sized Computer", ISCA 2007). The sum is limited to the most that any
workload of the world draws on that type, as the best estimate of the device's power limit. A lost host draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuq.core.state.device import Device, DeviceId
from gpuq.sim.world import World

_JOULES_PER_KWH = 3.6e6


class Energy:
    """A meter for each device. If the world lacks one power that is needed, all energy is unknown (`known` is False)."""

    def __init__(self, world: World) -> None:
        self._world = world
        types = {device.type for device in world.devices}
        self.known = types <= world.idle_powers.keys()
        self._most = {
            kind: max([world.idle_powers.get(kind, 0.0), *(w.powers.get(kind, 0.0) for w in world.workloads.values())])
            for kind in types
        }
        # Per device: watts, whether it has a job, and since when.
        self._draws: dict[DeviceId, tuple[float, bool, float]] = {}
        self._joules = self._idle_joules = 0.0
        if self.known:
            for device in world.devices:
                self.set(device, (), 0.0)

    def set(self, device: Device, residents: Iterable[tuple[str, float]], now: float, *, on: bool = True) -> None:
        """From `now` on the device has these residents, as (kind, slowdown); `on` False: it draws nothing."""
        if not self.known:
            return
        self._count(device.id, now)
        idle, busy, power = self._world.idle_powers[device.type], False, 0.0
        for kind, slowdown in residents:
            alone = self._world.workload(kind).powers.get(device.type)
            if alone is None:
                self.known = False
                return
            busy, power = True, power + (alone - idle) / slowdown
        draws = min(self._most[device.type], idle + power) if on else 0.0
        self._draws[device.id] = (draws, busy, now)

    def total_kwh(self, now: float) -> tuple[float | None, float | None]:
        """(energy of all devices, the part drawn without a job) in kWh up to `now`; None if a power is not known."""
        if not self.known:
            return None, None
        for device in self._world.devices:
            self._count(device.id, now)
        return self._joules / _JOULES_PER_KWH, self._idle_joules / _JOULES_PER_KWH

    def _count(self, device: DeviceId, now: float) -> None:
        draws, busy, since = self._draws.get(device, (0.0, False, now))
        self._joules += draws * (now - since)
        if not busy:
            self._idle_joules += draws * (now - since)
        self._draws[device] = (draws, busy, now)
