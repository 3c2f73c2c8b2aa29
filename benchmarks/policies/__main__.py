"""`python -m benchmarks.policies [NAME...]`: run, print one table, write `build/bench-policies.json`.

A figure that misses its reach is reported, not punished: the exit code is 1 only when a benchmark could not run. Where
there is no data (`$GPUQ_DATA`), nothing runs, and a sentence says so.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.run import run
from benchmarks.table import lines, write
from gpuq.learn.public import folder

NAMES: tuple[str, ...] = ("schedules", "batch", "andreas", "queueing", "speed")


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policies", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(NAMES)} (default: all)")
    asked = parser.parse_args().names
    if unknown := sorted(set(asked) - set(NAMES)):
        parser.error(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}")
    data = folder()
    if data is None:
        print("skipped: no measured data; set GPUQ_DATA to the folder that holds it")
        return 0
    rows, failed = run("benchmarks.policies", asked or NAMES, data)
    print("\n".join(lines(rows)))
    print(f"\nwritten to {write(rows, '-'.join(['bench-policies', *asked]))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
