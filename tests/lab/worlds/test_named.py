"""Worlds by name or folder, and what they know of memory."""

import math
import os
from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.lab.public import folder
from gpuq.sim.scenario import find_workloads

DATA = folder()
needs_data = pytest.mark.skipif(DATA is None, reason="needs the measured public data (GPUQ_DATA)")


@needs_data
def test_of_the_mps_pairs_the_jobs_with_all_pairs_known_are_taken() -> None:
    workload_set = find_workloads("mps", os.environ)
    assert len(workload_set.workloads) == 12
    assert "12 of 18" in workload_set.notes[0]
    assert all(workload.memory_bytes for workload in workload_set.workloads.values())
    needs = [workload.memory_bytes or 0 for workload in workload_set.workloads.values()]
    assert 2 * max(needs) < workload_set.device_memory / 2, "as the report says of its pairs"


@needs_data
def test_on_gavels_p100_memory_agrees_with_every_pair() -> None:
    workload_set = find_workloads("gavel-p100", os.environ)
    assert len(workload_set.workloads) == 26
    memory = {name: workload.memory_bytes or 0 for name, workload in workload_set.workloads.items()}
    fits = {pair: math.isfinite(slowdown) for pair, slowdown in workload_set.pairs.items()}
    assert sum(not fit for fit in fits.values()) == 2 * 14 - 2, "14 pairs, two of them a job with itself"
    for (a, b), fit in fits.items():
        assert (memory[a] + memory[b] <= workload_set.device_memory) is fit, (a, b)


def test_folder_with_measured_tables(tmp_path: Path) -> None:
    (tmp_path / "singles.csv").write_text("device_type,job,utilization_pct,peak_memory_mib\nA,x,50,1000\nA,y,80,2000\n")
    (tmp_path / "pairs.csv").write_text(
        "device_type,job_a,job_b,slowdown_a,slowdown_b\nA,x,x,1.1,1.1\nA,x,y,1.2,1.4\nA,y,y,1.7,1.7\n"
    )
    workload_set = find_workloads(str(tmp_path), {})
    assert workload_set.workloads["y"].memory_bytes == 2000 * 2**20
    assert workload_set.pairs["y", "x"] == 1.4


def test_measured_world_without_its_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not here") as wrong:
        find_workloads("mps", {"GPUQ_DATA": str(tmp_path / "none")})
    assert "GPUQ_DATA" in wrong.value.fix
