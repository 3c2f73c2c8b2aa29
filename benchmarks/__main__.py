"""`python -m benchmarks [NAME...]`: run, print one table, write `build/bench.json` (named ones: `build/bench-NAME.json`).

A reach that is missed is reported, not punished: the exit code is 1 only when a benchmark could not run.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.run import run
from benchmarks.table import BUILD, lines, write

# Those that need a quiet heap first.
NAMES = (
    "passes",
    "arrays",
    "listing",
    "start",
    "submit",
    "memory",
    "sampler",
    "hook",
    "slowdown",
    "foreign",
    "pages",
    "frames",
    "top",
    "streams",
    "keystrokes",
)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(NAMES)} (default: all)")
    asked = parser.parse_args().names
    if unknown := sorted(set(asked) - set(NAMES)):
        parser.error(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}")
    # As where it is installed: programs start from compiled files, whatever this shell says and wherever they lie.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(BUILD / "bytecode")
    rows, failed = run("benchmarks", asked or NAMES)
    print("\n".join(lines(rows)))
    print(f"\nwritten to {write(rows, '-'.join(['bench', *asked]))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
