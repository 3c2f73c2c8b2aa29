"""Jobs measured alone and in pairs, as tables that anybody can bring: the nouns, and their CSV form.

Arrives: two CSV files with the columns of `SINGLES` and `PAIRS`, in any order; a blank cell is unknown, and so is a column that
is not there. Both may have `measured_at`, singles also `family`. Leaves: `Single` and `Pair` rows. Raises `BadInput` with the
line and what to write there; other columns are ignored.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
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
_SPELLINGS = {
    "time-slicing": "time-slicing",
    "timeslicing": "time-slicing",
    "time-sliced": "time-slicing",
    "time-slice": "time-slicing",
    "mps": "mps",
}
_BLANK = frozenset({"", "-", "?", "na", "n/a", "nan", "none", "null", "unknown"})
# What rounding makes of a full device; more than that is another unit.
_HIGHEST_PCT = 101.0


@dataclass(frozen=True, slots=True)
class Single:
    """One job measured with the device to itself. Percent of the device, MiB, watts, steps per second, Unix seconds.

    `family` is the sort of work that models of other names share, where somebody says it: `image_classification`.
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
    """The singles in a CSV file, in its order. Raises BadInput."""
    return [_single(row) for row in _rows(path, needed=("job",))]


def read_pairs(path: Path) -> list[Pair]:
    """The pairs in a CSV file, in its order. Raises BadInput."""
    return [_pair(row) for row in _rows(path, needed=("job_a", "job_b", "slowdown_a"))]


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a file: its cells by column, and where it stands."""

    path: Path
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        return " ".join(self.cells.get(column, "").split())

    def name(self, column: str) -> str:
        found = self.text(column)
        if not found:
            raise self.wrong(f"{column} is blank", "Give the job a name, or remove the line.")
        return found

    def number(self, column: str) -> float | None:
        """None for a blank cell. Raises BadInput for what is no number, and for one below 0."""
        text = self.text(column)
        if text.casefold() in _BLANK:
            return None
        try:
            found = float(text)
        except ValueError:
            raise self.wrong(
                f"{column} is `{text}`, which is no number", "Write the number alone, with a point; blank is unknown."
            ) from None
        if not math.isfinite(found) or found < 0:
            raise self.wrong(
                f"{column} is {text}", "Write a number from 0 up; leave the cell blank where it is unknown."
            )
        return found

    def above_zero(self, column: str) -> float | None:
        """A number; 0 is what many tools write for unknown."""
        return self.number(column) or None

    def percent(self, column: str) -> float | None:
        found = self.number(column)
        if found is not None and found > _HIGHEST_PCT:
            raise self.wrong(f"{column} is {found:g}", "Write percent of one device, from 0 to 100.")
        return None if found is None else min(found, 100.0)

    def slowdown(self, column: str) -> float | None:
        found = self.number(column)
        if found == 0:
            raise self.wrong(
                f"{column} is 0",
                "Write time together / time alone, which is above 0; leave the cell blank where the pair did not run.",
            )
        return found

    def sharing(self) -> str | None:
        text = self.text("sharing").casefold()
        if text in _BLANK:
            return None
        found = _SPELLINGS.get(text.replace("_", "-").replace(" ", "-"))
        if found is None:
            raise self.wrong(f"sharing is `{text}`", f"Write {' or '.join(SHARING_MODES)}, or leave it blank.")
        return found

    def moment(self) -> float | None:
        """Unix seconds. An RFC 3339 time without a zone is UTC."""
        text = self.text("measured_at")
        if text.casefold() in _BLANK:
            return None
        try:
            return self.number("measured_at")
        except BadInput:
            pass
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise self.wrong(
                f"measured_at is `{text}`", "Write Unix seconds, or a time such as 2026-11-21T14:30:00Z."
            ) from None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

    def wrong(self, what: str, fix: str) -> BadInput:
        return BadInput(f"{self.path}:{self.line}: {what}.", fix=fix)


def _single(row: _Row) -> Single:
    return Single(
        device_type=row.text("device_type"),
        job=row.name("job"),
        model=row.text("model") or row.name("job"),
        batch_size=row.above_zero("batch_size"),
        utilization_pct=row.percent("utilization_pct"),
        memory_utilization_pct=row.percent("memory_utilization_pct"),
        peak_memory_mib=row.above_zero("peak_memory_mib"),
        power_w=row.above_zero("power_w"),
        steps_per_s=row.above_zero("steps_per_s"),
        measured_at=row.moment(),
        family=row.text("family") or None,
    )


def _pair(row: _Row) -> Pair:
    return Pair(
        device_type=row.text("device_type"),
        sharing=row.sharing(),
        job_a=row.name("job_a"),
        job_b=row.name("job_b"),
        slowdown_a=row.slowdown("slowdown_a"),
        slowdown_b=row.slowdown("slowdown_b"),
        measured_at=row.moment(),
    )


def _rows(path: Path, needed: Sequence[str]) -> Iterator[_Row]:
    lines = StringIO(_text(path), newline="")
    # Spreadsheets of many countries separate by semicolons or tabs, and call it CSV.
    first = lines.readline()
    lines.seek(0)
    reader = csv.reader(lines, delimiter=next((sign for sign in ",;\t" if sign in first), ","))
    try:
        header = ["_".join(name.lower().split()) for name in next(reader, [])]
        _check_header(path, header, needed)
        for cells in reader:
            row = _Row(path, reader.line_num, dict(zip(header, cells, strict=False)))
            if any(cell.strip() for cell in cells[len(header) :]):
                raise row.wrong(
                    f"there are {len(cells)} cells under {len(header)} columns", "Put a name with a comma in quotes."
                )
            if any(cell.strip() for cell in cells):
                yield row
    except csv.Error as error:
        raise BadInput(f"{path}:{reader.line_num}: {error}.", fix="Save the table as plain CSV in UTF-8.") from error


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 (byte {error.start}).", fix="Save the table as CSV in UTF-8.") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}.", fix="Name a CSV file that can be read.") from error


def _check_header(path: Path, header: Sequence[str], needed: Sequence[str]) -> None:
    fix = "The first line names the columns; docs/learning.md lists them."
    if not any(header):
        raise BadInput(f"{path} is empty.", fix=fix)
    if missing := [name for name in needed if name not in header]:
        raise BadInput(f"{path}:1: there is no column {' or '.join(missing)}, only {', '.join(header)}.", fix=fix)
    if twice := sorted({name for name in header if name and header.count(name) > 1}):
        raise BadInput(f"{path}:1: the column {twice[0]} is there twice.", fix=fix)
