"""Alibaba's GPU cluster of 2023: pods that ask for a part of a GPU (cluster-trace-gpu-v2023, CC-BY-4.0 / Apache-2.0).

The file is `alibaba2023_pods.csv`. A pod's request stands for its utilisation, since the trace measured neither. Pods have no
user; their class of service is the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuq.lab.public import number, rows
from gpuq.sim.traces.requests import ImportedTrace, TraceJob, imported

FILE = "alibaba2023_pods.csv"


def pods(data: Path) -> ImportedTrace:
    """The pods that were scheduled on a GPU and ended. A pod's duration is from its start on a machine to its end."""
    found, no_gpu, pending, running, instant = [], 0, 0, 0, 0
    for row in rows(data / FILE):
        start, end = number(row["scheduled_time"]), number(row["deletion_time"])
        if int(row["num_gpu"]) == 0:
            no_gpu += 1
        elif row["pod_phase"] == "Pending" or start is None or end is None:
            pending += 1
        elif end <= start:
            instant += 1
        else:
            running += row["pod_phase"] == "Running"
            found.append(_trace_job(row, end - start))
    return imported(
        "alibaba 2023", found,
        [
            f"left out: {pending} pods that were never scheduled, {no_gpu} without a GPU, {instant} that ended as they began",
            f"{running} of {len(found)} pods are marked as running: perhaps they went on after the end that they have",
            f"{sum(job.share_pct != 100 for job in found)} ask for a part of a GPU, which is taken for what they keep busy",
        ],
    )  # fmt: skip


def _trace_job(row: Mapping[str, str], duration_s: float) -> TraceJob:
    count = int(row["num_gpu"])
    share = float(row["gpu_milli"]) / 10 if count == 1 else 100.0
    return TraceJob(float(row["creation_time"]), duration_s, count, row["qos"] or "pod", share_pct=share)
