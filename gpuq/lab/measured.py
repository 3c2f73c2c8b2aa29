"""Jobs measured alone and in pairs, as tables that anyone can bring: the types, and the reader of their CSV form.

The columns are those of `SINGLES` and `PAIRS`, in any order; a blank cell or a missing column is unknown. Both files may have
`measured_at`, singles also `family` and `command`; other columns are ignored. What cannot be read raises `BadInput` with its
line and what to write there.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from gpuq.learn.history.rows import BLANK, CsvRow, read_rows

SINGLES = (
    "device_type", "job", "model", "batch_size",
    "utilization_pct", "memory_utilization_pct", "peak_memory_mib", "power_w", "steps_per_s",
)  # fmt: skip
PAIRS = ("device_type", "sharing", "job_a", "job_b", "slowdown_a", "slowdown_b")
SHARING_MODES = ("time-slicing", "mps")
_SPELLINGS = {
    "time-slicing": "time-slicing",
    "timeslicing": "time-slicing",
    "time-sliced": "time-slicing",
    "time-slice": "time-slicing",
    "mps": "mps",
}


@dataclass(frozen=True, slots=True)
class SingleMeasurement:
    """One job measured with the device to itself. Percent of the device, MiB, watts, steps per second, Unix seconds.

    `family` is a class of work that models of different names share, such as `image_classification`. `command` is how the job was
    started, words in quotes as in a shell.
    """

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
    family: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class PairMeasurement:
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


def read_singles(path: Path) -> list[SingleMeasurement]:
    """The singles in a CSV file, in its order. Raises BadInput."""
    return [
        SingleMeasurement(
            device_type=row.text("device_type"),
            job=row.name("job"),
            model=row.text("model") or row.name("job"),
            batch_size=row.above_zero("batch_size"),
            utilization_pct=row.percent("utilization_pct"),
            memory_utilization_pct=row.percent("memory_utilization_pct"),
            peak_memory_mib=row.above_zero("peak_memory_mib"),
            power_w=row.above_zero("power_w"),
            steps_per_s=row.above_zero("steps_per_s"),
            measured_at=row.moment("measured_at"),
            family=row.text("family") or None,
            command=_command(row),
        )
        for row in read_rows(path, needed=("job",))
    ]


def read_pairs(path: Path) -> list[PairMeasurement]:
    """The pairs in a CSV file, in its order. Raises BadInput."""
    return [
        PairMeasurement(
            device_type=row.text("device_type"),
            sharing=_sharing(row),
            job_a=row.name("job_a"),
            job_b=row.name("job_b"),
            slowdown_a=_slowdown(row, "slowdown_a"),
            slowdown_b=_slowdown(row, "slowdown_b"),
            measured_at=row.moment("measured_at"),
        )
        for row in read_rows(path, needed=("job_a", "job_b", "slowdown_a"))
    ]


def _command(row: CsvRow) -> str | None:
    text = row.text("command")
    try:
        return text if shlex.split(text) else None
    except ValueError:
        raise row.wrong(
            f"command is `{text}`",
            "Close its quotes: write it as in a shell, such as python train.py --image-size 224.",
        ) from None


def _slowdown(row: CsvRow, column: str) -> float | None:
    found = row.number(column)
    if found == 0:
        raise row.wrong(
            f"{column} is 0",
            "Write time together / time alone, which is above 0; leave the cell blank where the pair did not run.",
        )
    return found


def _sharing(row: CsvRow) -> str | None:
    text = row.text("sharing").casefold()
    if text in BLANK:
        return None
    found = _SPELLINGS.get(text.replace("_", "-").replace(" ", "-"))
    if found is None:
        raise row.wrong(f"sharing is `{text}`", f"Write {' or '.join(SHARING_MODES)}, or leave it blank.")
    return found
