"""Which devices a job may have, as its submitter chose them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.verdict import Numbers

# A GPU has a little less than the size that it is sold by: the driver keeps up to 2% of it, most of a 24 GB L4.
_LEFT_BY_DRIVER = 0.98


@dataclass(frozen=True, slots=True)
class DeviceConstraints:
    """A device has to meet all of these; one that is empty or None allows every device.

    `types`: its type has all words of one of these texts. `least_memory`: bytes that it is sold with. `hosts`, `excluded_hosts`:
    where it is, and is not. `devices`: it is one of them. `features`: it has all features of one of these groups.
    """

    types: tuple[str, ...] = ()
    least_memory: int | None = None
    hosts: tuple[HostId, ...] = ()
    excluded_hosts: tuple[HostId, ...] = ()
    devices: tuple[DeviceId, ...] = ()
    features: tuple[tuple[str, ...], ...] = ()

    def unmet(self, device: Device) -> str | None:
        """The name of the first of these that the device does not meet; None if it meets all."""
        return next((name for name, value in self._given() if not _MEETS[name](value, device)), None)

    def unmet_by_all(self, devices: Iterable[Device]) -> tuple[str, list[Device]] | None:
        """The name of the first of these that leaves none of the devices, with those left before it; None if some are left."""
        left = list(devices)
        for name, value in self._given():
            before, left = left, [device for device in left if _MEETS[name](value, device)]
            if not left:
                return name, before
        return None

    def wanted(self, name: str) -> str | int:
        """The value of one of these, in one word: `H100|A100`, `nvlink&ib|tall`; bytes of memory."""
        value: Any = getattr(self, name)
        return (
            value
            if isinstance(value, int)
            else "|".join(one if isinstance(one, str) else "&".join(one) for one in value)
        )

    def asked(self, name: str) -> Numbers:
        """One of these as numbers of a verdict."""
        return ("constraint", name), ("wanted_bytes" if name == "least_memory" else "wanted", self.wanted(name))

    def lacking(self, devices: Iterable[Device]) -> Numbers | None:
        """The first of these that leaves no device, and what the devices have, as numbers of a verdict; None if one is left."""
        unmet = self.unmet_by_all(devices)
        if unmet is None:
            return None
        name, left = unmet
        known = sorted({had(device, name) for device in left} - {""})
        if name == "least_memory":
            return *self.asked(name), ("largest_device_bytes", max(known, default=None))
        return *self.asked(name), ("known", ", ".join(map(str, known)))

    def _given(self) -> Iterator[tuple[str, Any]]:
        for field in fields(self):
            if value := getattr(self, field.name):
                yield field.name, value


def had(device: Device, name: str) -> str | int:
    """What a device has where a constraint of this name asks for something; its host for both kinds of hosts."""
    return _HAS[name](device)


def has_type(wanted: str, device_type: str) -> bool:
    """Whether each word of `wanted` is a word of the type, or several in a row written together: `a100`, `rtx3080`.

    Case does not matter, and whatever is neither a letter nor a digit parts words.
    """
    words = _words(device_type)
    known = {"".join(words[start:end]) for start, end in combinations(range(len(words) + 1), 2)}
    return known.issuperset(_words(wanted))


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


_MEETS: dict[str, Callable[[Any, Device], bool]] = {
    "types": lambda wanted, device: any(has_type(one, device.type) for one in wanted),
    "least_memory": lambda wanted, device: device.total_memory >= _LEFT_BY_DRIVER * wanted,
    "hosts": lambda wanted, device: device.host in wanted,
    "excluded_hosts": lambda wanted, device: device.host not in wanted,
    "devices": lambda wanted, device: device.id in wanted,
    "features": lambda wanted, device: any(set(group) <= set(device.features) for group in wanted),
}
_HAS: dict[str, Callable[[Device], str | int]] = {
    "types": lambda device: device.type,
    "least_memory": lambda device: device.total_memory,
    "hosts": lambda device: device.host,
    "excluded_hosts": lambda device: device.host,
    "devices": lambda device: device.id,
    "features": lambda device: " ".join(device.features),
}
