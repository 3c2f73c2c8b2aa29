"""`python -m benchmarks.learning [NAME...]`: run, print one table, write `build/bench-learning.json`.

A figure that misses its reach is reported, not punished: the exit code is 1 only when a benchmark could not run. Where
there is no data (`$GPUQ_DATA`), nothing runs, and a sentence says so.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

from benchmarks.table import Row, lines, write
from gpuq.learn.public import folder

NAMES: tuple[str, ...] = ("peaks", "memory", "interference", "transfer", "evaluate", "nights")


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(NAMES)} (default: all)")
    asked = parser.parse_args().names
    if unknown := sorted(set(asked) - set(NAMES)):
        parser.error(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}")
    data = folder()
    if data is None:
        print("skipped: no measured data; set GPUQ_DATA to the folder that holds it")
        return 0
    rows, failed = _run(asked or NAMES, data)
    print("\n".join(lines(rows)))
    print(f"\nwritten to {write(rows, '-'.join(['bench-learning', *asked]))}")
    return 1 if failed else 0


def _run(names: tuple[str, ...] | list[str], data: Path) -> tuple[list[Row], bool]:
    rows: list[Row] = []
    failed = False
    for name in names:
        began = time.monotonic()
        try:
            rows += import_module(f"benchmarks.learning.{name}").run(data)
        except Exception:  # noqa: BLE001 - the others still have something to say
            traceback.print_exc()
            rows.append(Row(f"{name}: could not run", None, "", note="see the traceback above"))
            failed = True
        print(f"[{name}: {time.monotonic() - began:.0f} s]", file=sys.stderr, flush=True)
    return rows, failed


if __name__ == "__main__":
    sys.exit(main())
