"""Public measurements of jobs become finished attempts that show no more before the run than a submission does."""

from pathlib import Path

import pytest

from gpuq.lab.public import alnair, pai
from gpuq.learn.history.job_features import JobFeatures

WORKLOADS = """ID,family,Model,Dataset,Epoch,BS,MGUP,MGMAP,CS_interrupts
1,nlp,small_bert/ L-2_H-128_A-2,IMDB,3,256,21.5,50,987654
2,rl,Reinforcement Learning,Cart Pole Problem,20000,10,11.53,,987655
"""
INSTANCES = """user,group,job,task_name,workload,inst_num,gpu_type_req,gpu_type,plan_cpu,plan_mem_gb,plan_gpu,\
start_s,duration_s,gpu_wrk_util,max_gpu_wrk_mem_gb
u2,g2,j2,worker,ctr,1,,T4,600.0,29.3,25.0,200,60,120.5,
u1,g1,j1,ps,bert,4,T4,T4,600.0,29.3,,100,,0.0,1.5
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_workload_is_the_command_that_would_have_started_it(tmp_path: Path):
    bert, cart_pole = alnair.workload_outcomes(written(tmp_path, "alnair_workloads.csv", WORKLOADS))

    assert bert.kind.endswith("nlp.py --batch-size=256 --epochs=* --model=small_bert/L-2_H-128_A-2 imdb")
    assert (bert.peak_utilization_pct, bert.peak_memory_bytes) == (21.5, alnair.WORKLOADS_MEMORY_BYTES // 2)
    assert JobFeatures.of(bert.features).batch_log2 == 8
    assert (cart_pole.peak_memory_bytes, cart_pole.duration_s) == (None, None)
    assert "987654" not in str(bert.features)


def test_instances_come_in_the_order_of_their_start_and_idle_is_a_measurement(tmp_path: Path):
    first, second = pai.instance_outcomes(written(tmp_path, pai.INSTANCES, INSTANCES))

    assert first.kind.startswith("u1:g1 task_name=ps plan_cpu=600.0")
    assert (first.peak_utilization_pct, first.peak_memory_bytes, first.duration_s) == (0.0, 1_500_000_000, None)
    assert first.features["tokens"][:3] == ["owner:u1", "script:g1", "family:bert"]
    assert "option:plan_gpu=none" in first.features["tokens"]
    assert (second.peak_utilization_pct, second.peak_memory_bytes) == (120.5, None)


def test_a_cell_that_is_no_number_is_not_passed_over(tmp_path: Path):
    with pytest.raises(ValueError, match="many"):
        pai.instance_outcomes(written(tmp_path, pai.INSTANCES, INSTANCES.replace("120.5", "many")))
