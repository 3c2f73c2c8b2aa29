"""Which device takes which groups next: a probe at several places, then ever smaller chunks by the speeds measured so far."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

_PROBES = 3
"""Chunks of a device's probe, spread over the launch: of irregular kernels one place says little."""
_PROBE_SHARE = 0.004
_LEAST_CHUNK_S = 0.003
"""Chunks are not made shorter than this: starting one costs some tenths of a millisecond."""
_PART = 1 / 3
"""Of what a device would do until the common end, by the speeds measured so far."""
_LARGEST = 0.04
"""No chunk has a larger part of the launch, times the device's share and the number of devices: what follows may be dearer."""
_AHEAD_UNTIL = 0.2
"""Of the launch: where less is left, a device decides on its next chunk only after the one before."""
_GROWTH = 2.0
"""A chunk is made to take at most so many times the longer of the device's last two."""


@dataclass(slots=True)
class Chunks:
    """The groups that are left, and what each device has done. Devices ask from threads of their own.

    `speeds`: groups per second of each device, None until it is known; a device with a known speed is not probed. Of several
    devices the `first_groups`, one for each, are run before and not counted: a driver compiles during the first.
    """

    groups: int
    speeds: list[float | None]
    only_probe: bool = False
    first_groups: int = field(init=False)
    left: list[tuple[int, int]] = field(init=False)
    done: list[list[tuple[int, int, float]]] = field(init=False)
    _probes: list[list[tuple[int, int]]] = field(init=False)
    _away: set[int] = field(default_factory=set)
    _ended: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.first_groups = min(len(self.speeds), self.groups) if len(self.speeds) > 1 else 0
        self.left = [(self.first_groups, self.groups)] if self.groups > self.first_groups else []
        self.done = [[] for _ in self.speeds]
        probed = len(self.speeds) > 1 or self.only_probe
        self._probes = [
            self._places(number) if probed and speed is None else [] for number, speed in enumerate(self.speeds)
        ]

    def _places(self, device: int) -> list[tuple[int, int]]:
        unknown = len(self.speeds)
        length = max(1, int(self.groups * _PROBE_SHARE))
        if self.groups < 4 * unknown * _PROBES:
            return [(self.groups * device // unknown, self.groups * device // unknown + 1)]
        # Devices probe beside each other, so that their speeds at one place can be compared.
        starts = [self.groups * (2 * probe + 1) // (2 * _PROBES) + device * length for probe in range(_PROBES)]
        return [(start, start + length) for start in starts]

    def take(self, device: int) -> tuple[int, int] | None:
        """The next chunk of a device, or None if nothing is left for it. The first takes from the front, others from the back."""
        with self._lock:
            self._away.discard(device)
            if self._probes[device]:
                first, end = self._probes[device].pop(0)
                if any(start <= first and end <= stop for start, stop in self.left):
                    self._remove(first, end)
                    return first, end
            if not self.left or self.only_probe:
                self._ended.add(device)
                return None
            count = self._length(device)
            if count == 0:
                self._ended.add(device)
                return None
            start, stop = self.left[0] if device == 0 else self.left[-1]
            chunk = (start, min(stop, start + count)) if device == 0 else (max(start, stop - count), stop)
            self._remove(*chunk)
            return chunk

    def take_ahead(self, device: int) -> tuple[int, int] | None:
        """The chunk after the one that the device has begun, so that it need not wait for it between them. None near the end."""
        return self.take(device) if sum(end - first for first, end in self.left) > _AHEAD_UNTIL * self.groups else None

    def _length(self, device: int) -> int:
        """A part of what the device would do until the common end, by the speeds; 0 if the others end sooner without it."""
        remaining = sum(end - first for first, end in self.left)
        if len(self.speeds) == 1:
            return remaining
        mine = self.speeds[device]
        others = sum(speed or 0.0 for number, speed in enumerate(self.speeds) if number not in {device, *self._away})
        if mine is None or others == 0.0:
            return max(1, remaining // (8 * len(self.speeds)), min(remaining, int((mine or 0.0) * _LEAST_CHUNK_S)))
        if 1 / mine > 1.5 * remaining / others + _LEAST_CHUNK_S:
            return 0
        share = mine / (mine + others)
        count = min(remaining * _PART, self.groups * _LARGEST * len(self.speeds)) * share
        if self.done[device]:
            count = min(count, _GROWTH * mine * max(took for *_, took in self.done[device][-2:]))
        return max(1, min(remaining, int(max(count, mine * _LEAST_CHUNK_S))))

    def _remove(self, first: int, end: int) -> None:
        kept = [
            part
            for start, stop in self.left
            for part in ((start, min(stop, first)), (max(start, end), stop))
            if part[0] < part[1]
        ]
        self.left = kept

    def leave(self, device: int) -> bool:
        """Note that a device has no cores at the moment, so that the others do not count on it. False if they all have ended:
        then what is left is this device's."""
        with self._lock:
            self._away.add(device)
            return self._ended | {device} != set(range(len(self.speeds)))

    def finished(self, device: int, first: int, end: int, seconds: float) -> None:
        """Note a chunk that is done. The speed follows the newest chunks, weighted by their length in time."""
        with self._lock:
            self.done[device].append((first, end, seconds))
            newest = self.done[device][-_PROBES:]
            self.speeds[device] = sum(stop - start for start, stop, _ in newest) / max(
                1e-9, sum(took for *_, took in newest)
            )

    def share(self, device: int) -> float:
        """The part of the groups that a device has done, the first groups left out."""
        return sum(end - first for first, end, _ in self.done[device]) / max(1, self.groups - self.first_groups)

    def rates(self) -> tuple[float | None, ...]:
        """Groups per second of each device over all that it has done."""
        return tuple(
            sum(end - first for first, end, _ in chunks) / max(1e-9, sum(took for *_, took in chunks))
            if chunks
            else None
            for chunks in self.done
        )
