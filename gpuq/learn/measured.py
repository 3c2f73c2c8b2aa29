"""Jobs measured alone and in pairs, as tables that anybody can bring: the nouns, and their CSV form.

Arrives: two CSV files with the columns of `SINGLES` and `PAIRS`; a blank cell is unknown. Leaves: `Single` and `Pair` rows.
Raises `BadInput` with the line and what to write there; other columns are ignored.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuq.errors import BadInput

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


def read_singles(path: Path) -> list[Single]:
    """The rows of a singles file. Raises BadInput, naming the line, and OSError."""
    return [
        Single(
            device_type=row.text("device_type"),
            job=row.text("job"),
            model=row.text("model", row.text("job")),
            **{name: row.number(name) for name in (*SINGLES[3:], "measured_at")},
        )
        for row in _rows(path, ("device_type", "job"))
    ]


def read_pairs(path: Path) -> list[Pair]:
    """The rows of a pairs file. Raises BadInput, naming the line, and OSError."""
    return [
        Pair(
            device_type=row.text("device_type"),
            sharing=row.sharing(),
            job_a=row.text("job_a"),
            job_b=row.text("job_b"),
            **{name: row.number(name) for name in ("slowdown_a", "slowdown_b", "measured_at")},
        )
        for row in _rows(path, ("device_type", "job_a", "job_b", "slowdown_a", "slowdown_b"))
    ]


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a file, cell by cell. Every complaint names the line and the column."""

    path: Path
    line: int
    cells: Mapping[str, str]

    def text(self, column: str, default: str | None = None) -> str:
        value = self.cells.get(column) or default
        if value is None:
            raise self._bad(column, "is blank", "Every row must have one.")
        return value

    def number(self, column: str) -> float | None:
        text = self.cells.get(column)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0:
            raise self._bad(column, f"is `{text}`", "Write a number from 0, or leave the cell blank if it is unknown.")
        return value

    def sharing(self) -> str | None:
        text = self.cells.get("sharing") or None
        if text is not None and text not in SHARING_MODES:
            raise self._bad("sharing", f"is `{text}`", f"Write {' or '.join(SHARING_MODES)}, or leave the cell blank.")
        return text

    def _bad(self, column: str, what: str, fix: str) -> BadInput:
        return BadInput(f"{self.path}, line {self.line}: {column} {what}.", fix=fix)


def _rows(path: Path, needed: Sequence[str]) -> Iterator[_Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            names = [name.strip() for name in reader.fieldnames or ()]
            missing = [name for name in needed if name not in names]
            if missing:
                raise BadInput(
                    f"{path} has no column {', '.join(missing)}.",
                    fix="The first line names the columns; docs/learning.md lists them.",
                )
            for cells in reader:
                found = {name.strip(): (cells.get(name) or "").strip() for name in reader.fieldnames or ()}
                yield _Row(path, reader.line_num, found)
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadInput(f"{path} is no CSV file: {error}.", fix="Save it as CSV in UTF-8.") from error
