"""`python -m benchmarks.learning [NAME...]`: run, print one table, write `build/bench-learning.json`; see `benchmarks.judged`."""

from __future__ import annotations

import sys

from benchmarks.judged import main

NAMES: tuple[str, ...] = ("peaks", "memory", "interference", "transfer", "evaluate", "unseen", "nights", "training")

if __name__ == "__main__":
    sys.exit(main("learning", NAMES))
