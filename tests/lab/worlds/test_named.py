"""Worlds by name or folder, and what they know of memory."""

import math
from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.lab.public import folder
from gpuq.lab.worlds.named import find_zoo
from gpuq.sim.worlds.machines import machines

DATA = folder()
needs_data = pytest.mark.skipif(DATA is None, reason="needs the measured public data (GPUQ_DATA)")


@needs_data
def test_of_the_mps_pairs_the_jobs_with_all_pairs_known_are_taken() -> None:
    zoo = find_zoo("mps", DATA)
    assert len(zoo.workloads) == 12
    assert "12 of 18" in zoo.notes[0]
    assert all(workload.memory_bytes for workload in zoo.workloads.values())
    needs = [workload.memory_bytes or 0 for workload in zoo.workloads.values()]
    assert 2 * max(needs) < zoo.device_memory / 2, "as the report says of its pairs"


@needs_data
def test_on_gavels_p100_memory_agrees_with_every_pair() -> None:
    zoo = find_zoo("gavel-p100", DATA)
    assert len(zoo.workloads) == 26
    memory = {name: workload.memory_bytes or 0 for name, workload in zoo.workloads.items()}
    fits = {pair: math.isfinite(slowdown) for pair, slowdown in zoo.pairs.items()}
    assert sum(not fit for fit in fits.values()) == 2 * 14 - 2, "14 pairs, two of them a job with itself"
    for (a, b), fit in fits.items():
        assert (memory[a] + memory[b] <= zoo.device_memory) is fit, (a, b)


def test_the_law_needs_no_data_and_says_so() -> None:
    zoo = find_zoo("law", None)
    assert all(zoo.pairs[a, b] >= 1 for a in zoo.workloads for b in zoo.workloads)
    assert zoo.pairs["busy 100%", "busy 100%"] == pytest.approx(2, rel=0.01)
    assert "nothing in this world was measured" in zoo.notes[0]


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "singles.csv").write_text("device_type,job,utilization_pct,peak_memory_mib\nA,x,50,1000\nA,y,80,2000\n")
    (tmp_path / "pairs.csv").write_text(
        "device_type,job_a,job_b,slowdown_a,slowdown_b\nA,x,x,1.1,1.1\nA,x,y,1.2,1.4\nA,y,y,1.7,1.7\n"
    )
    zoo = find_zoo(str(tmp_path), None)
    assert zoo.workloads["y"].memory_bytes == 2000 * 2**20
    assert zoo.pairs["y", "x"] == 1.4


def test_what_is_not_there_is_refused_with_what_there_is() -> None:
    with pytest.raises(BadInput, match="no world `k80`") as wrong:
        find_zoo("k80", None)
    assert "gavel-p100" in wrong.value.fix
    with pytest.raises(BadInput, match="not here") as wrong:
        find_zoo("mps", None)
    assert "GPUQ_DATA" in wrong.value.fix


def test_the_last_host_has_what_is_left() -> None:
    found = machines(10, "A", 1, None, per_host=4)
    assert [sum(device.host == f"host{n}" for device in found) for n in (1, 2, 3)] == [4, 4, 2]
    assert len({device.id for device in found}) == 10
