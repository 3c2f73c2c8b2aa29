"""Reads production jobs of Alibaba's PAI (cluster-trace-gpu-v2020, CC-BY-4.0), in the sample that the Polaris project kept.

The file is `pai_instances.csv`; its instances come as finished attempts in the order of their start.
"""

from __future__ import annotations

from pathlib import Path

from gpuq.lab.public import number, rows
from gpuq.learn.history.outcome import Outcome

INSTANCES = "pai_instances.csv"
# One device type for GPUs of several types: the published figures to compare with are not split by type. The type that was asked
# for is a feature.
DEVICE = "PAI"
_GB = 10**9
# What was requested for an instance, known before it ran.
_REQUESTED = ("task_name", "plan_cpu", "plan_mem_gb", "plan_gpu", "inst_num", "gpu_type_req", "gpu_type")


def instance_outcomes(path: Path) -> list[Outcome]:
    """The instances as finished attempts. A use of 0% or 0 GB is a measurement; a utilisation over 100 stays as it is.

    The group is the code that ran, and stands for the script; the workload is the family; requests are tokens.
    Instances of the same user, group and requests are runs of one kind.
    """
    found = []
    for place, row in enumerate(sorted(rows(path), key=lambda row: float(row["start_s"]))):
        asked = [f"option:{name}={row[name] or 'none'}" for name in _REQUESTED]
        tokens = [f"owner:{row['user']}", f"script:{row['group']}", f"family:{row['workload']}", *asked]
        kind = f"{row['user']}:{row['group']} {' '.join(word.removeprefix('option:') for word in asked)}"
        start, duration, memory = float(row["start_s"]), number(row["duration_s"]), number(row["max_gpu_wrk_mem_gb"])
        found.append(
            Outcome(
                kind=kind, signature=f"{kind}#", script_sha256=None, device_type=DEVICE,
                features={"owner": row["user"], "script": row["group"], "tokens": tokens, "batch_log2": None},
                peak_utilization_pct=number(row["gpu_wrk_util"]),
                peak_memory_bytes=None if not memory else round(memory * _GB),
                duration_s=duration, alone_rate=None, shared_rate=None, slowdowns=(), ending="exited", shared=False,
                ended_at=start + (duration or 0.0), attempt=(place, 1),
            )
        )  # fmt: skip
    return found
