"""Peak memory of training twelve CNNs on five types of GPU (SchedTune, CCGrid 2022; MIT).

Arrives: `schedtune_memory.csv`, as data/README calls it: 240 rows, each network at four batch sizes on each GPU, images of
224 by 224. Leaves: rows in the file's order. Neither optimiser nor precision is said; nor is the framework's version.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuq.learn.public import rows

IMAGE_SIZE = 224.0


@dataclass(frozen=True, slots=True)
class Trained:
    """One network trained alone at one batch size. Sizes in MiB; activations and input are those of the whole batch."""

    device_type: str
    model: str
    batch_size: float
    activations_mib: float
    parameters_mib: float
    input_mib: float
    peak_memory_mib: float

    @property
    def features(self) -> dict[str, Any]:
        """What a script that trains this would have shown before it ran."""
        return {"constructors": [self.model], "batch_size": self.batch_size, "image_size": IMAGE_SIZE}


def trained(data: Path) -> list[Trained]:
    """The file's rows. Raises OSError where it cannot be read, ValueError for a cell that is no number."""
    return [
        Trained(
            device_type=row["gpu"],
            model=row["model"],
            batch_size=float(row["batch_size"]),
            activations_mib=float(row["activations_mb"]),
            parameters_mib=float(row["parameters_mb"]),
            input_mib=float(row["input_mb"]),
            peak_memory_mib=float(row["peak_mem_mib"]),
        )
        for row in rows(data / "schedtune_memory.csv")
    ]
