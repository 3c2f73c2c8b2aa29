"""Foreign load on an attempt's devices: how much of it there was, and how much of the job's time it can have taken.

Foreign load is the work of processes that gpuq did not start.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuq.core.measuring.measurement import HELD_BACK_LIMIT


@dataclass(slots=True)
class ForeignLoad:
    """Sums over the looks in which the foreign load was known: the load, and the share of the job's time that it waited."""

    load: float = 0.0
    looks: int = 0
    held_back: float = 0.0

    def add(self, load: float | None, held_back: float | None) -> None:
        """Add one look, as `ResidentUsage` has it. If the waiting is unknown, the whole load counts as waiting."""
        if load is not None:
            self.load += load
            self.held_back += load if held_back is None else held_back
            self.looks += 1

    @property
    def mean_load(self) -> float | None:
        """Seconds of foreign work per second; None if no look knew it."""
        return max(0.0, self.load / self.looks) if self.looks else None

    @property
    def mean_held_back(self) -> float | None:
        """The largest part of the job's time that others can have taken, from 0 to 1; None if no look knew the load.

        Others took at most the time for which they ran, and at most the time for which the job waited. Only means are
        compared, because the kernel counts a wait when it ends, which may be a look later.
        """
        if self.mean_load is None:
            return None
        return min(1.0, self.mean_load, max(0.0, self.held_back / self.looks))

    @property
    def is_considerable(self) -> bool:
        """Whether the mean load is above HELD_BACK_LIMIT, so that it can have changed what was measured."""
        return (self.mean_load or 0.0) > HELD_BACK_LIMIT
