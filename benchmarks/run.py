"""Run benchmarks by name: each is a module with `run(...) -> list[Row]`; one that cannot run leaves the others to speak."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from benchmarks import reference
from benchmarks.table import Row


def run(package: str, names: Sequence[str], *arguments: Any) -> tuple[list[Row], bool]:
    """The rows of all, and whether one could not run."""
    rows: list[Row] = []
    failed = False
    for name in names:
        began = time.monotonic()
        try:
            reference.begin()
            rows += reference.in_loops(import_module(f"{package}.{name}").run(*arguments))
        except Exception:  # noqa: BLE001 - the others still have something to say
            traceback.print_exc()
            rows.append(Row(f"{name}: could not run", None, "", note="see the traceback above"))
            failed = True
        print(f"[{name}: {time.monotonic() - began:.0f} s]", file=sys.stderr, flush=True)
    return rows, failed
