"""Reads what the Gavel project measured of pairs of jobs (github.com/stanford-futuredata/gavel, MIT).

Arrives: `gavel_pairs.csv`, its one consistent set (`oracle`; K80 and P100). Leaves: singles and pairs. Pairs that did not fit
together are left out. Where the source cut a speed together down to that alone, the slowdown is 1.
"""

from __future__ import annotations

from pathlib import Path

from gpuq.learn.measured import Pair, Single
from gpuq.learn.public import number, rows

PAIRS = "gavel_pairs.csv"


def singles(path: Path) -> list[Single]:
    """The 26 types of jobs on each GPU, by their speed alone; nothing else was measured of them."""
    found: dict[tuple[str, str], Single] = {}
    for row in rows(path):
        for side in ("a", "b"):
            job = _job(row, side)
            found[row["gpu"], job] = Single(
                device_type=row["gpu"],
                job=job,
                model=row[f"job_{side}"],
                batch_size=number(row[f"bs_{side}"]),
                steps_per_s=number(row[f"iso_{side}"]) or None,
            )
    return list(found.values())


def pairs(path: Path) -> list[Pair]:
    """The pairs that ran; a slowdown is speed alone / speed together."""
    return [
        Pair(
            device_type=row["gpu"],
            sharing="mps",
            job_a=_job(row, "a"),
            job_b=_job(row, "b"),
            slowdown_a=1 / float(row["norm_a"]),
            slowdown_b=1 / float(row["norm_b"]),
        )
        for row in rows(path)
        if row["feasible"] == "1"
    ]


def _job(row: dict[str, str], side: str) -> str:
    size = row[f"bs_{side}"]
    return f"{row[f'job_{side}']}:{size}" if size else row[f"job_{side}"]
