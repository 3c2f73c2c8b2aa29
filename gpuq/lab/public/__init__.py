"""Readers of measured public data, one module for each upstream project.

The files are not part of gpuq: `$GPUQ_DATA` names the folder with them. Where there is none, `folder()` is None, and what needs
the data is skipped or refused.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpuq.errors import BadInput


def folder(environ: Mapping[str, str] | None = None) -> Path | None:
    """The folder of the data: `$GPUQ_DATA`, else `../shared/data` beside the checkout; None if that is no folder."""
    named = (os.environ if environ is None else environ).get("GPUQ_DATA")
    found = Path(named) if named else Path(__file__).parents[4] / "shared" / "data"
    return found if found.is_dir() else None


def require_folder(environ: Mapping[str, str], what: str, instead: str) -> Path:
    """The folder of the data. Raises BadInput, where there is none: `what` is made of it, and one may do `instead`."""
    found = folder(environ)
    if found is None:
        raise BadInput(
            f"{what} measured public data, which is not here.",
            fix=f"Set GPUQ_DATA to the folder that holds it, or {instead}.",
        )
    return found


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file with a header line. Raises OSError where it cannot be read."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def number(text: str | None) -> float | None:
    """A cell's number; None for a blank one. Raises ValueError for anything else."""
    return float(text) if text else None
