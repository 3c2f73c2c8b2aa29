"""Jobs measured alone and in pairs, as tables that anybody can bring: the nouns, and their CSV form.

Arrives: two CSV files with the columns of `SINGLES` and `PAIRS`; a blank cell is unknown. Leaves: `Single` and `Pair` rows.
Raises `BadInput` with the line and what to write there; other columns are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

SINGLES = (
    "device_type",
    "job",
    "model",
    "batch_size",
    "utilization_pct",
    "memory_utilization_pct",
    "peak_memory_mib",
    "power_w",
    "steps_per_s",
)
PAIRS = ("device_type", "sharing", "job_a", "job_b", "slowdown_a", "slowdown_b")
SHARING_MODES = ("time-slicing", "mps")


@dataclass(frozen=True, slots=True)
class Single:
    """One job measured with the device to itself. Percent of the device, MiB, watts, steps per second, Unix seconds."""

    device_type: str
    job: str
    model: str
    batch_size: float | None = None
    utilization_pct: float | None = None
    memory_utilization_pct: float | None = None
    peak_memory_mib: float | None = None
    power_w: float | None = None
    steps_per_s: float | None = None
    measured_at: float | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two jobs measured on one device together. A slowdown is time together / time alone; 1.0 is none.

    `sharing` is one of `SHARING_MODES`, None where it is not known.
    """

    device_type: str
    sharing: str | None
    job_a: str
    job_b: str
    slowdown_a: float | None
    slowdown_b: float | None
    measured_at: float | None = None
