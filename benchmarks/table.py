"""Rows of a benchmark, printed as one table and written to `build/TARGET.json` for programs.

A row without a reach explains the other rows, so it neither passes nor fails.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUILD = Path(__file__).parent.parent / "build"
_HOLDS = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True)
class Row:
    """One figure. `sense` says on which side of `reach` it should be; a value of None could not be measured here."""

    name: str
    value: float | None
    unit: str
    reach: float | None = None
    sense: str = "<="
    note: str = ""

    @property
    def ok(self) -> bool | None:
        """Whether the reach is met; None where there is none, or nothing to compare."""
        if self.reach is None or self.value is None:
            return None
        return bool(_HOLDS[self.sense](self.value, self.reach))


def as_plain(row: Row) -> dict[str, Any]:
    """The row as the JSON file has it."""
    plain = {"name": row.name, "value": row.value, "unit": row.unit, "reach": row.reach, "ok": row.ok}
    return {**plain, "sense": row.sense, "note": row.note}


def write(rows: Sequence[Row], target: str, folder: Path = BUILD) -> Path:
    """Keep the rows as `TARGET.json`; where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target}.json"
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps([as_plain(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    aside.replace(path)
    return path


def lines(rows: Sequence[Row]) -> list[str]:
    """The table, one line per row."""
    cells = [("what", "value", "unit", "reach", "ok", "note")]
    for row in rows:
        reach = "" if row.reach is None else f"{row.sense} {number(row.reach)}"
        ok = {True: "yes", False: "NO", None: ""}[row.ok]
        cells.append((row.name, number(row.value), row.unit, reach, ok, row.note))
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return ["  ".join(_aligned(line, widths)).rstrip() for line in cells]


def number(value: float | None) -> str:
    """Three digits that matter; `-` for what is not known."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.rjust(width) if column == 1 else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
