"""`python -m benchmarks.policies [NAME...]`: run, print one table, write `build/bench-policies.json`; see `benchmarks.judged`."""

from __future__ import annotations

import sys

from benchmarks.judged import main

NAMES: tuple[str, ...] = ("schedules", "batch", "andreas", "queueing", "speed")

if __name__ == "__main__":
    sys.exit(main("policies", NAMES))
