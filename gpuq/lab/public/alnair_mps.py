"""Reads the packing report of the Alnair project (github.com/CentaurusInfra/alnair, Apache-2.0): PyTorch jobs under MPS.

The files are `alnair_mps_singles.csv` and `alnair_mps_pairs.csv`. The report does not name the GPU. Its unit of time cannot be
right, so `steps_per_s` is only a ratio between jobs.
"""

from __future__ import annotations

from pathlib import Path

from gpuq.lab.measured import PairMeasurement, SingleMeasurement
from gpuq.lab.public import number, rows

DEVICE = "not stated (Alnair, MPS)"
SHARING = "mps"


def singles(folder: Path) -> list[SingleMeasurement]:
    """Each job alone. `model` is the network; the data set is part of the job's name."""
    found = []
    for row in rows(folder / "alnair_mps_singles.csv"):
        ten_steps = number(row["iso_time_per_10_steps"])
        single = SingleMeasurement(
            device_type=DEVICE,
            job=f"{row['job']}:{row['batch_size']}",
            model=row["model"],
            batch_size=number(row["batch_size"]),
            utilization_pct=number(row["gpu_util_pct"]),
            steps_per_s=10 / ten_steps if ten_steps else None,
        )
        found.append(single)
    return found


def pairs(folder: Path) -> list[PairMeasurement]:
    """Each two jobs once, in the order of the file: both directions where both were measured."""
    slowdowns = {
        (f"{row['job_a']}:{row['bs_a']}", f"{row['job_b']}:{row['bs_b']}"): number(row["slowdown_a"])
        for row in rows(folder / "alnair_mps_pairs.csv")
    }
    found: dict[frozenset[str], PairMeasurement] = {}
    for (job, beside), slowdown in slowdowns.items():
        mirrored = slowdowns.get((beside, job))
        found.setdefault(frozenset((job, beside)), PairMeasurement(DEVICE, SHARING, job, beside, slowdown, mirrored))
    return list(found.values())
