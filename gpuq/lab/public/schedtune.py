"""Reads the peak memory of training twelve CNNs on five types of GPU (SchedTune, CCGrid 2022; MIT).

`schedtune_memory.csv` has 240 rows: each network at four batch sizes on each GPU, with images of 224 by 224. Optimiser,
precision and the framework's version are not stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuq.lab.public import rows
from gpuq.learn.features.kind import describe
from gpuq.learn.history.outcome import Outcome
from gpuq.messages.submission import Submission


@dataclass(frozen=True, slots=True)
class TrainedNetwork:
    """One network trained alone at one batch size. Sizes in MiB; activations and input are those of the whole batch."""

    device_type: str
    model: str
    batch_size: float
    activations_mib: float
    parameters_mib: float
    input_mib: float
    peak_memory_mib: float


def trained(data: Path) -> list[TrainedNetwork]:
    """The file's rows. Raises OSError where it cannot be read, ValueError for a cell that is no number."""
    return [
        TrainedNetwork(
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


def outcomes(data: Path) -> list[Outcome]:
    """The same rows as finished attempts, each described as the command that would have started it."""
    found = []
    for place, row in enumerate(trained(data)):
        sizes = ("--model", row.model, "--batch-size", f"{row.batch_size:.0f}", "--image-size", "224")
        submission = Submission(command=("python", "train.py", *sizes), cwd="/schedtune", script="train.py")
        kind, signature, features = describe(submission, "schedtune")
        found.append(
            Outcome(
                kind=kind, signature=signature, script_sha256=None, device_type=row.device_type, features=features,
                peak_utilization_pct=None, peak_memory_bytes=round(row.peak_memory_mib * 2**20),
                duration_s=None, alone_rate=None, shared_rate=None, slowdowns=(), ending="exited", shared=False,
                ended_at=float(place), attempt=(place, 1),
            )
        )  # fmt: skip
    return found
