"""Benches on measured public data, of one package: run, print one table, write `build/bench-PACKAGE.json`.

A figure that misses its reach is reported, not punished: the exit code is 1 only when a benchmark could not run. Where
there is no data (`$GPUQ_DATA`), nothing runs, and a sentence says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.run import run
from benchmarks.table import lines, write
from gpuq.lab.public import folder


def main(package: str, names: Sequence[str]) -> int:
    """Run the benches of `benchmarks.PACKAGE` that the command line names, or all; the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{package}", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(names)} (default: all)")
    asked = parser.parse_args().names
    if unknown := sorted(set(asked) - set(names)):
        parser.error(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(names)}")
    data = folder()
    if data is None:
        print("skipped: no measured data; set GPUQ_DATA to the folder that holds it")
        return 0
    rows, failed = run(f"benchmarks.{package}", asked or names, data)
    print("\n".join(lines(rows)))
    print(f"\nwritten to {write(rows, '-'.join([f'bench-{package}', *asked]))}")
    return 1 if failed else 0
