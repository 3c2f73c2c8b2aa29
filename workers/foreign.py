"""Foreign load on an attempt's devices, look by look: how much there was, and how much of the job's time it can have taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuq.adapters.devices import Usage
from gpuq.core.device import Reading
from gpuq.core.measurement import HELD_BACK_LIMIT


@dataclass(slots=True)
class Foreign:
    """Sums over some looks of foreign load and of what it can have taken, each over those looks that told the value."""

    load: float = 0.0
    looks: int = 0
    held_back: float = 0.0
    held_back_looks: int = 0

    def add(self, load: float | None, held_back: float | None) -> None:
        """Take one look into account, as `foreign_load` gives it."""
        if load is not None:
            self.load += load
            self.looks += 1
        if held_back is not None:
            self.held_back += held_back
            self.held_back_looks += 1

    @property
    def mean_load(self) -> float | None:
        """Seconds per second; None if no look told."""
        return max(0.0, self.load / self.looks) if self.looks else None

    @property
    def mean_held_back(self) -> float | None:
        """From 0 to 1; all the foreign load where no look told what it took. None if no look told the load either."""
        if self.held_back_looks:
            return self.held_back / self.held_back_looks
        return None if self.mean_load is None else min(1.0, self.mean_load)

    @property
    def is_considerable(self) -> bool:
        """Whether there was so much that it can have changed what was measured."""
        return (self.mean_load or 0.0) > HELD_BACK_LIMIT


def foreign_load(usage: Usage, readings: Sequence[Reading], *, on_gpu: bool) -> tuple[float | None, float | None]:
    """Foreign load and the part of the attempt's time that it can have taken, as in `Usage`, from one look at its devices.

    On a GPU processes take turns, or each gets a part of it: at most as much was taken as the others used. Where there are
    others and what they use is not known, that may be everything; where the driver does not list processes, nothing is known.
    """
    if not on_gpu:
        return usage.foreign_load, usage.held_back
    told = [reading for reading in readings if reading.foreign_memory is not None]
    used = [100.0 if r.foreign_utilization_pct is None else r.foreign_utilization_pct for r in told]
    most = max(used, default=None)
    return (None, None) if most is None else (most / 100, min(1.0, most / 100))
