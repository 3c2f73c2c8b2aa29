"""Reads the oracle throughputs of the Gavel project (github.com/stanford-futuredata/gavel, MIT): pairs of jobs under MPS.

The file is `gavel_pairs.csv`. Pairs that did not fit together are in `never_fit`. Where the source clipped a throughput
together to the one alone (`clipped`), the slowdown is 1.0: it was that or less.
"""

from __future__ import annotations

from pathlib import Path

from gpuq.lab.measured import PairMeasurement, SingleMeasurement
from gpuq.lab.public import number, rows

SHARING = "mps"
GPUS = ("k80", "p100")


def singles(folder: Path) -> list[SingleMeasurement]:
    """Each job type alone on each type of GPU; no utilisation was recorded."""
    found: dict[tuple[str, str], SingleMeasurement] = {}
    for row in rows(folder / "gavel_pairs.csv"):
        for side in "ab":
            job = _job(row, side)
            found[row["gpu"], job] = SingleMeasurement(
                device_type=row["gpu"],
                job=job,
                model=row[f"job_{side}"],
                batch_size=number(row[f"bs_{side}"]),
                steps_per_s=number(row[f"iso_{side}"]) or None,
            )
    return list(found.values())


def pairs(folder: Path) -> list[PairMeasurement]:
    """The pairs that ran together, each once."""
    found = []
    for row in rows(folder / "gavel_pairs.csv"):
        if row["feasible"] == "1":
            slowdowns = (1 / float(row["norm_a"]), 1 / float(row["norm_b"]))
            found.append(PairMeasurement(row["gpu"], SHARING, _job(row, "a"), _job(row, "b"), *slowdowns))
    return found


def never_fit(folder: Path) -> list[tuple[str, str, str]]:
    """(type of GPU, job, job) of the pairs that did not run together: out of memory, or failed."""
    return [
        (row["gpu"], _job(row, "a"), _job(row, "b"))
        for row in rows(folder / "gavel_pairs.csv")
        if row["feasible"] != "1"
    ]


def _job(row: dict[str, str], side: str) -> str:
    return f"{row[f'job_{side}']}:{row[f'bs_{side}']}" if row[f"bs_{side}"] else row[f"job_{side}"]
