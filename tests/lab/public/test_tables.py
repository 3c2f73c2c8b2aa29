"""Public tables of pairs as singles and pairs, from lines as their files have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuq.lab.public import alnair, alnair_mps, folder, gavel


def test_gavel_pairs_that_did_not_fit_together_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "gavel_pairs.csv"
    path.write_text(
        "set,gpu,job_a,bs_a,job_b,bs_b,iso_a,iso_b,co_a,co_b,norm_a,norm_b,feasible,clipped\n"
        "oracle,k80,A3C,,LM,5,4,30,2,24,0.5,0.8,1,0\n"
        "oracle,k80,LM,5,LM,80,30,0,0,0,0,,0,0\n"
    )
    (pair,) = gavel.pairs(tmp_path)
    assert (pair.job_a, pair.job_b, pair.slowdown_a, pair.slowdown_b) == ("A3C", "LM:5", 2.0, 1.25)
    named = {single.job: single for single in gavel.singles(tmp_path)}
    assert set(named) == {"A3C", "LM:5", "LM:80"}
    assert (named["LM:5"].model, named["LM:5"].batch_size, named["A3C"].batch_size) == ("LM", 5, None)
    assert named["LM:80"].steps_per_s is None


def test_both_directions_of_an_mps_pair_come_from_two_rows(tmp_path: Path) -> None:
    path = tmp_path / "alnair_mps_pairs.csv"
    path.write_text(
        "job_a,bs_a,util_a_pct,job_b,bs_b,util_b_pct,iso_time_a,co_time_a,slowdown_a,slowdown_b\n"
        "inc,4,70,rn,2,37,100,130,1.3,1.1\nrn,2,37,inc,4,70,100,110,1.1,1.3\n"
    )
    (pair,) = alnair_mps.pairs(tmp_path)
    assert (pair.job_a, pair.slowdown_a, pair.slowdown_b) == ("inc:4", 1.3, 1.1)


def test_rows_that_contradict_themselves_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / alnair.SEED_PAIRS
    path.write_text("job_a,bs_a,job_b,bs_b,slowdown_a,slowdown_b,consistent\nx,1,y,2,1.1,1.2,1\nx,1,z,2,1.1,1.2,0\n")
    assert [(pair.job_a, pair.job_b, pair.sharing) for pair in alnair.seed_pairs(path)] == [("x:1", "y:2", None)]


@pytest.mark.skipif(folder() is None, reason="no measured public data; GPUQ_DATA names its folder")
def test_the_measured_tables_are_read_whole() -> None:
    data = folder()
    assert data is not None
    assert len(gavel.pairs(data)) == 635
    assert len(gavel.singles(data)) == 52
    assert (len(alnair_mps.singles(data)), len(alnair_mps.pairs(data))) == (18, 150)
    assert len(alnair.seed_pairs(data / alnair.SEED_PAIRS)) == 32
    path = alnair.workloads(data)
    assert path is not None
    assert len({single.job for single in alnair.workload_singles(path)}) == 49
