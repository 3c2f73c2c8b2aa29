"""Short names of devices for people: `gpu3`, `cpu0`, `gpu3:1` for a MIG slice, `node2:gpu3` where there are several hosts.

The index is the one that `nvidia-smi` shows. A name that would stand for two devices (a replaced GPU leaves its row in the
record) belongs to the one that is reported now; the other is shown by its id, shortened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from gpuq.core.state.device import Device, DeviceId


class DeviceNames:
    """The names of these devices. `reported` are the ids of those that a worker reports on now."""

    def __init__(self, devices: Iterable[Device] = (), reported: Collection[str] = ()) -> None:
        self._devices = {device.id: device for device in devices}
        self._reported = frozenset(reported)
        self._names: dict[str, str] = {}
        several_hosts = len({device.host for device in self._devices.values()}) > 1
        by_name: dict[str, list[DeviceId]] = defaultdict(list)
        for device in self._devices.values():
            if local := local_name(device):
                by_name[f"{device.host}:{local}" if several_hosts else local].append(device.id)
        for name, sharers in by_name.items():
            owners = [id_ for id_ in sharers if id_ in self._reported] if len(sharers) > 1 else sharers
            if len(owners) == 1:
                self._names[owners[0]] = name

    def of(self, device: str) -> str:
        """The device's name; a shortened id for a device without an index, or one that is not known."""
        return self._names.get(device) or short_id(device)

    def shown(self) -> str:
        """All names, for a message: `gpu0, gpu1, gpu10`; empty where no device is known."""
        order = {id_: (device.host, natural_order(device.index)) for id_, device in self._devices.items()}
        return ", ".join(self.of(id_) for id_ in sorted(order, key=order.__getitem__))

    def memory_of(self, devices: Collection[str]) -> int | None:
        """Bytes of the smallest of these devices; without any, of the largest there is. None where that is not known."""
        if devices:
            return min((one.total_memory for id_ in devices if (one := self._devices.get(DeviceId(id_)))), default=None)
        return max((device.total_memory for device in self._devices.values()), default=None)

    def find(self, text: str) -> list[Device]:
        """The devices that `text` may stand for: an index, a name with or without its host, an id, or the beginning of a UUID.

        The first of these that fits any device decides. One that is reported now is preferred to one that is not.
        """
        everything = self._devices.values()
        host, colon, local = text.partition(":")
        on_host = [d for d in everything if d.host == host] if colon else []
        rules = (
            [d for d in everything if d.id == text],
            [d for d in everything if self._names.get(d.id) == text],
            [d for d in everything if text in (d.index, local_name(d))],
            [d for d in on_host if local in (d.index, local_name(d))],
            [d for d in everything if text and (d.id.startswith(text) or _without_kind(d.id).startswith(text))],
        )
        found = next((devices for devices in rules if devices), [])
        return [device for device in found if device.id in self._reported] or found


def local_name(device: Device) -> str | None:
    """The name on its own host: `gpu3`, `cpu0`. None for a device without an index."""
    return None if device.index is None else f"{'cpu' if device.backend == 'cpu' else 'gpu'}{device.index}"


def label(device: Device) -> str:
    """The local name and the id, for logs: `gpu3 (GPU-0123...)`."""
    local = local_name(device)
    return device.id if local is None or device.id.endswith(f"/{local}") else f"{local} ({device.id})"


def short_id(device: str) -> str:
    """A device's id on a screen: `cpu0` of `host/cpu0`, and a UUID by its two ends, since many begin alike."""
    text = _without_kind(device.rpartition("/")[2])
    return text if len(text) <= 16 else f"{text[:8]}…{text[-4:]}"


def natural_order(device_index: str | None) -> tuple[int, ...]:
    """A key that sorts `2` before `10` and `3:0` before `3:1`; devices without an index come last."""
    parts = (device_index or "").split(":")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else (1 << 30,)


def _without_kind(uuid: str) -> str:
    """The UUID without `GPU-` or `MIG-`."""
    return uuid[4:] if uuid[:4] in ("GPU-", "MIG-") else uuid
