"""The table of what was measured: CSV, one line per script and setting."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

TABLE = Path(__file__).parent / "measured.csv"


@dataclass(frozen=True)
class Measured:
    """One run. Bytes, seconds, percent of one core; None is unknown."""

    script: str
    setting: int
    peak_memory_bytes: int
    duration_s: float
    first_step_s: float | None = None
    peak_utilization_pct: float | None = None


FIELDS = tuple(field.name for field in fields(Measured))


def write(rows: Iterable[Measured], path: Path) -> None:
    """Write the table, scripts and settings in order."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(
            ["" if value is None else value for value in astuple(row)]
            for row in sorted(rows, key=lambda row: (row.script, row.setting))
        )


def read(path: Path) -> list[Measured]:
    """The rows of a table that `write` wrote."""
    with path.open(newline="") as file:
        return [
            Measured(
                script=row["script"],
                setting=int(row["setting"]),
                peak_memory_bytes=int(row["peak_memory_bytes"]),
                duration_s=float(row["duration_s"]),
                first_step_s=float(row["first_step_s"]) if row["first_step_s"] else None,
                peak_utilization_pct=float(row["peak_utilization_pct"]) if row["peak_utilization_pct"] else None,
            )
            for row in csv.DictReader(file)
        ]
