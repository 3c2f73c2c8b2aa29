"""Divide a device's energy among the attempts on it.

The rule. The energy of a device since the last look has two parts. The idle part is what it uses when empty: the lowest power
seen while it was empty, times the time. The rest is active. The active part is divided by utilisation (evenly if all are zero
or one is unknown), the idle part evenly; all processes that gpuq did not start count as one party. So the parts add up to what
the device used. Until the device was seen empty once, the idle part is unknown: then all of it is divided by utilisation.

With an energy counter nothing is lost between looks; without one, the mean of two power readings is used. Energy used while the
worker service is away belongs to no attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

Party = TypeVar("Party")
# Two readings of the power further apart than this say little about the mean between them.
_LONGEST_MEAN_S = 10.0


@dataclass(frozen=True, slots=True)
class EnergyPart:
    """Joules of a device, or of one party's part of it, between two looks; `idle` of them is the idle part, None if unknown."""

    joules: float
    idle: float | None


class DeviceEnergy:
    """One device's energy between looks."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._counter: float | None = None
        self._power: float | None = None
        self._idle_watts: float | None = None

    def look(
        self, at: float, counter_joules: float | None, power_watts: float | None, *, empty: bool
    ) -> EnergyPart | None:
        """The energy since the last look. `at` in seconds; None at the first look and for a device without power readings."""
        if empty and power_watts is not None:
            self._idle_watts = min(power_watts, self._idle_watts if self._idle_watts is not None else power_watts)
        joules = self._joules(at, counter_joules, power_watts)
        seconds = 0.0 if self._at is None else max(0.0, at - self._at)
        self._at, self._counter, self._power = at, counter_joules, power_watts
        if joules is None:
            return None
        return EnergyPart(joules, None if self._idle_watts is None else min(joules, self._idle_watts * seconds))

    def _joules(self, at: float, counter: float | None, power: float | None) -> float | None:
        if counter is not None and self._counter is not None:
            # A counter that went back was reset with its driver.
            return counter - self._counter if counter >= self._counter else None
        if self._at is None or power is None or self._power is None or not 0 < at - self._at <= _LONGEST_MEAN_S:
            return None
        return (power + self._power) / 2 * (at - self._at)


def share_out(spent: EnergyPart, utilization: Mapping[Party, float | None]) -> dict[Party, EnergyPart]:
    """Each party's part, by the rule above. `utilization`: percent of every party on the device, None if unknown."""
    if not utilization:
        return {}
    known = {party: value for party, value in utilization.items() if value is not None}
    whole = sum(known.values())
    by_use = len(known) == len(utilization) and whole > 0
    even = 1 / len(utilization)
    idle = spent.idle or 0.0
    parts = {party: known[party] / whole if by_use else even for party in utilization}
    return {
        party: EnergyPart((spent.joules - idle) * part + idle * even, None if spent.idle is None else idle * even)
        for party, part in parts.items()
    }
