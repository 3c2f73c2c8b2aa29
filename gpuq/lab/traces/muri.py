"""The traces of Muri (SIGCOMM 2022, Apache-2.0): Philly's arrivals, with models and batch sizes that the authors drew.

The files are `muri_traces.csv` and `muri_stage_times.csv`. A kind is a model with its batch size; as these were drawn at
random, the durations of a kind differ widely and predict little of each other.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from gpuq.errors import BadInput
from gpuq.lab.public import rows
from gpuq.sim.traces.requests import ImportedTrace, TraceJob, imported

FILE, STAGES = "muri_traces.csv", "muri_stage_times.csv"


def trace(data: Path, name: str) -> ImportedTrace:
    """One of the file's traces, `trace1` to `trace4` or `cluster_trace`. Raises BadInput for another."""
    busy = _busy(data)
    found, names = [], set()
    for row in rows(data / FILE):
        names.add(row["trace"])
        if row["trace"] == name:
            kind = f"{row['model_name']}:{row['batch_size']}"
            found.append(
                TraceJob(
                    float(row["submit_s"]), float(row["duration_s"]), int(row["num_gpu"]), row["trace"],
                    kind=kind, share_pct=busy.get(kind),
                )
            )  # fmt: skip
    if name not in names:
        raise BadInput(f"Muri has no trace `{name}`.", fix=f"Name one of: {', '.join(sorted(names))}.")
    return imported(
        f"muri {name}", [job for job in found if job.duration_s > 0],
        [
            "models and batch sizes were drawn by Muri's authors, not measured in production",
            "what a kind keeps busy: the GPU's part of an iteration, as Muri measured it on V100s",
        ],
    )  # fmt: skip


def _busy(data: Path) -> dict[str, float]:
    """Percent of an iteration that the GPU works; the median over device counts."""
    found: dict[str, list[float]] = {}
    for row in rows(data / STAGES):
        share = 100 * float(row["t_resource1_ms"]) / float(row["iteration_ms"])
        found.setdefault(f"{row['model']}:{row['batch_size']}", []).append(min(100.0, share))
    return {kind: median(shares) for kind, shares in found.items()}
