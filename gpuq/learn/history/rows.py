"""Reads CSV files that users bring: tolerant of their form, precise about what is wrong with a cell.

The first line is a header with columns in any order, separated by commas, semicolons or tabs. A blank cell and a missing
column are unknown. Errors are `BadInput` with file, line and what to write there, since the user has to mend the file.
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

BLANK = frozenset({"", "-", "?", "na", "n/a", "nan", "none", "null", "unknown"})
_FLAGS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
# Rounding may give 101 for a full device; larger values are of another unit.
_HIGHEST_PCT = 101.0


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One line of a file: its cells by column name, and where it stands."""

    path: Path
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """The cell with single blanks; empty where it is blank or missing."""
        return " ".join(self.cells.get(column, "").split())

    def name(self, column: str) -> str:
        """A cell that must not be blank. Raises BadInput."""
        found = self.text(column)
        if not found:
            raise self.wrong(f"{column} is blank", "Give the job a name, or remove the line.")
        return found

    def signed(self, column: str) -> float | None:
        """A number; None for a blank cell. Raises BadInput for anything else."""
        text = self.text(column)
        if text.casefold() in BLANK:
            return None
        try:
            found = float(text)
        except ValueError:
            raise self.wrong(
                f"{column} is `{text}`, which is no number", "Write the number alone, with a point; blank is unknown."
            ) from None
        if not math.isfinite(found):
            raise self.wrong(f"{column} is {text}", "Write a number; leave the cell blank where it is unknown.")
        return found

    def number(self, column: str) -> float | None:
        """A number from 0 up; None for a blank cell. Raises BadInput for anything else."""
        found = self.signed(column)
        if found is not None and found < 0:
            raise self.wrong(
                f"{column} is {self.text(column)}",
                "Write a number from 0 up; leave the cell blank where it is unknown.",
            )
        return found

    def above_zero(self, column: str) -> float | None:
        """A number above 0; None for blank and for 0, which many tools write for unknown."""
        return self.number(column) or None

    def percent(self, column: str) -> float | None:
        """Percent, 0 to 100. Raises BadInput above 101."""
        found = self.number(column)
        if found is not None and found > _HIGHEST_PCT:
            raise self.wrong(f"{column} is {found:g}", "Write percent of one device, from 0 to 100.")
        return None if found is None else min(found, 100.0)

    def moment(self, column: str) -> float | None:
        """Seconds on any clock from a number, Unix seconds from an RFC 3339 time; one without a zone is UTC. Raises BadInput."""
        text = self.text(column)
        if text.casefold() in BLANK:
            return None
        try:
            return self.signed(column)
        except BadInput:
            pass
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise self.wrong(
                f"{column} is `{text}`", "Write seconds, or a time such as 2026-11-21T14:30:00Z."
            ) from None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

    def flag(self, column: str) -> bool | None:
        """Yes or no; None for a blank cell. Raises BadInput for anything else."""
        text = self.text(column).casefold()
        if text not in BLANK | _FLAGS.keys():
            raise self.wrong(f"{column} is `{text}`", "Write yes or no; blank is unknown.")
        return _FLAGS.get(text)

    def wrong(self, what: str, fix: str) -> BadInput:
        """A BadInput that names file and line."""
        return BadInput(f"{self.path}:{self.line}: {what}.", fix=fix)


def read_rows(path: Path, needed: Sequence[str], described_in: str = "docs/characterize.md") -> Iterator[CsvRow]:
    """The lines that are not blank. `described_in` is the document that lists the columns. Raises BadInput."""
    lines = StringIO(_text(path), newline="")
    # Spreadsheets of many countries separate by semicolons or tabs, and call it CSV.
    first = lines.readline()
    lines.seek(0)
    reader = csv.reader(lines, delimiter=next((sign for sign in ",;\t" if sign in first), ","))
    try:
        header = ["_".join(name.lower().split()) for name in next(reader, [])]
        _check_header(path, header, needed, described_in)
        for cells in reader:
            row = CsvRow(path, reader.line_num, dict(zip(header, cells, strict=False)))
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


def _check_header(path: Path, header: Sequence[str], needed: Sequence[str], described_in: str) -> None:
    fix = f"The first line names the columns; {described_in} lists them."
    if not any(header):
        raise BadInput(f"{path} is empty.", fix=fix)
    if missing := [name for name in needed if name not in header]:
        raise BadInput(f"{path}:1: there is no column {' or '.join(missing)}, only {', '.join(header)}.", fix=fix)
    if twice := sorted({name for name in header if name and header.count(name) > 1}):
        raise BadInput(f"{path}:1: the column {twice[0]} is there twice.", fix=fix)
