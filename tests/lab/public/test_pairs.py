"""Readers of measured pairs: what is in the files becomes singles and pairs, nothing more."""

from __future__ import annotations

import pytest

from gpuq.lab.measured import PairMeasurement
from gpuq.lab.public import alnair_mps, folder, gavel

MPS_SINGLES = "job,dataset,model,batch_size,gpu_util_pct,iso_time_per_10_steps\nx,d,resnet50,2,40,500\n"
MPS_PAIRS = """job_a,bs_a,util_a_pct,job_b,bs_b,util_b_pct,iso_time_a,co_time_a,slowdown_a,slowdown_b
x,2,40,x,2,40,500,600,1.2,1.2
x,2,40,y,4,90,500,700,1.4,
y,4,90,x,2,40,100,110,1.1,
z,1,10,x,2,40,100,100,1.0,
"""
GAVEL_PAIRS = """set,gpu,job_a,bs_a,job_b,bs_b,iso_a,iso_b,co_a,co_b,norm_a,norm_b,feasible,clipped
oracle,k80,A3C,,LM,5,4,32,2,8,0.5,0.25,1,0
oracle,p100,A3C,,LM,5,4,32,0,0,0,0,0,0
"""


def test_a_pair_under_mps_has_both_directions_where_both_were_measured(tmp_path):
    (tmp_path / "alnair_mps_singles.csv").write_text(MPS_SINGLES)
    (tmp_path / "alnair_mps_pairs.csv").write_text(MPS_PAIRS)

    (single,) = alnair_mps.singles(tmp_path)
    slowdowns = [(p.job_a, p.job_b, p.slowdown_a, p.slowdown_b) for p in alnair_mps.pairs(tmp_path)]

    assert (single.job, single.model, single.utilization_pct, single.steps_per_s) == ("x:2", "resnet50", 40.0, 0.02)
    assert slowdowns == [("x:2", "x:2", 1.2, 1.2), ("x:2", "y:4", 1.4, 1.1), ("z:1", "x:2", 1.0, None)]


def test_pairs_that_did_not_fit_together_are_left_out(tmp_path):
    (tmp_path / "gavel_pairs.csv").write_text(GAVEL_PAIRS)

    assert gavel.pairs(tmp_path) == [PairMeasurement("k80", "mps", "A3C", "LM:5", 2.0, 4.0)]
    assert {(single.device_type, single.job) for single in gavel.singles(tmp_path)} == {
        (gpu, job) for gpu in gavel.GPUS for job in ("A3C", "LM:5")
    }


@pytest.mark.skipif(folder() is None, reason="no measured public data (GPUQ_DATA)")
def test_the_real_files_have_what_their_descriptions_say():
    data = folder()
    assert data is not None
    directions = sum((p.slowdown_a is not None) + (p.slowdown_b is not None) for p in alnair_mps.pairs(data))
    own = sum(p.job_a == p.job_b for p in alnair_mps.pairs(data))

    assert directions - own == 216
    assert [sum(p.device_type == gpu for p in gavel.pairs(data)) for gpu in gavel.GPUS] == [298, 337]
