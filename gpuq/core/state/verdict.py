"""Yes or no to (job, device), the rule that decided it, and the numbers. `gpuq explain` prints these and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpuq.core.state.device import DeviceId


class Rule(StrEnum):
    """The rule that decided a verdict."""

    IDLE = "Idle"
    FITS = "Fits"
    KNOWN_PAIR = "KnownPair"
    TRIAL = "Trial"
    PAUSE = "Pause"
    SLOWDOWN_ACCOUNT = "SlowdownAccount"
    CONSTRAINTS = "Constraints"
    RESOURCES = "Resources"
    STALE_READING = "StaleReading"
    UNWELL = "Unwell"
    NO_STARTS = "NoStarts"
    DRAINED = "Drained"
    PREDICTED_MEMORY = "PredictedMemory"
    PREDICTED_LOAD = "PredictedLoad"
    SLOWDOWN_BUDGET = "SlowdownBudget"
    SLOWDOWN_RISK = "SlowdownRisk"
    PACKING_SAVING = "PackingSaving"
    FIRST_RUN_EXCLUSIVE = "FirstRunExclusive"
    EXCLUSIVE = "Exclusive"
    FOREIGN_PROCESS = "ForeignProcess"
    UNSAFE_PAIR = "UnsafePair"
    BOOKED = "Booked"
    TIME_LEFT = "TimeLeft"
    RESERVED = "Reserved"
    BEHIND = "Behind"
    NEVER_FITS = "NeverFits"
    NO_DEVICES = "NoDevices"
    POSTPONED = "Postponed"
    WAIT_LIMIT = "WaitLimit"
    DEVICE_QUOTA = "DeviceQuota"
    DEVICE_HOURS_QUOTA = "DeviceHoursQuota"
    ARRAY_LIMIT = "ArrayLimit"
    DEPENDENCY = "Dependency"
    SINGLETON = "Singleton"
    BEGIN_TIME = "BeginTime"
    BACKOFF = "Backoff"


# A number's name ends in its unit: _pct, _bytes, _s, _at (Unix seconds), or nothing for a ratio or a count.
Numbers = tuple[tuple[str, float | int | str | None], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a job may or may not have a device now. `device` is None when it is about all of them."""

    admitted: bool
    rule: Rule
    device: DeviceId | None = None
    numbers: Numbers = ()
