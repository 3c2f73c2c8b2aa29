"""Foreign load on an attempt's devices, look by look: how much there was, and how much of the job's time it can have taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuq.adapters.devices import ResidentUsage
from gpuq.core.measuring.measurement import HELD_BACK_LIMIT
from gpuq.core.state.device import Reading


@dataclass(slots=True)
class ForeignLoad:
    """Sums over those looks that told the foreign load: the load, and the part of its time for which the job was held back."""

    load: float = 0.0
    looks: int = 0
    held_back: float = 0.0

    def add(self, load: float | None, held_back: float | None) -> None:
        """Take one look into account, as `foreign_load` gives it. How long it was held back, if unknown, is all of the load."""
        if load is not None:
            self.load += load
            self.held_back += load if held_back is None else held_back
            self.looks += 1

    @property
    def mean_load(self) -> float | None:
        """Seconds per second; None if no look told."""
        return max(0.0, self.load / self.looks) if self.looks else None

    @property
    def mean_held_back(self) -> float | None:
        """The part of the job's time that others can have taken at most, from 0 to 1; None if no look told the load.

        They took no more than they had, and no more than the job waited for. Only means are compared: the kernel counts a
        wait when it ends, which may be a look later.
        """
        if self.mean_load is None:
            return None
        return min(1.0, self.mean_load, max(0.0, self.held_back / self.looks))

    @property
    def is_considerable(self) -> bool:
        """Whether there was so much that it can have changed what was measured."""
        return (self.mean_load or 0.0) > HELD_BACK_LIMIT


def foreign_load(
    usage: ResidentUsage, readings: Sequence[Reading], *, on_gpu: bool
) -> tuple[float | None, float | None]:
    """Foreign load, and the part of its time for which the attempt was held back, as in `ResidentUsage`, from one look at its devices.

    On a GPU processes take turns, or each gets a part of it: at most as much was taken as the others used. Where there are
    others and what they use is not known, that may be everything. Nothing is known of a GPU that does not show its processes.
    """
    if not on_gpu:
        return usage.foreign_load, usage.held_back
    told = [_used(reading) for reading in readings]
    most = max((used for used in told if used is not None), default=None)
    return (None, None) if most is None else (most / 100, min(1.0, most / 100))


def _used(reading: Reading) -> float | None:
    """Percent that others may have used of a GPU."""
    if reading.foreign_utilization_pct is None and reading.processes_visible:
        return 100.0
    return reading.foreign_utilization_pct
