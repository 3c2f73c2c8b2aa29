"""What an owner has used of late: device-seconds that count less the longer they are ago."""

from __future__ import annotations

import math
from dataclasses import dataclass

# A week, as Slurm's `PriorityDecayHalfLife` has it by default.
HALF_LIFE_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Decayed device-seconds, as they stood `at`."""

    device_s: float
    at: float

    def by(self, now: float) -> float:
        """What is left of it by `now`."""
        return self.device_s * math.exp2(-max(0.0, now - self.at) / HALF_LIFE_S)

    def after(self, served_s: float, now: float) -> Usage:
        """The usage once `served_s` more have been had, by `now`."""
        return Usage(self.by(now) + served_s, now)


UNUSED = Usage(0.0, 0.0)
