"""A world of measured times and powers: small files here, and the measured ones where they are."""

from pathlib import Path

import pytest

from gpuq.lab.public import folder
from gpuq.lab.worlds.zeus import TYPES, zeus

POWER = "gpu,dataset,network,batch_size,optimizer,power_limit_w,time_per_epoch_s,avg_power_w\n"
TRAIN = "dataset,network,batch_size,optimizer,learning_rate,run,target_metric,target_epoch\n"
SCALING = "set,gpu,job,batch_size,num_gpus,steps_per_s\n"
SECONDS = {"a40": 50, "v100": 60, "rtx6000": 80, "p100": 120}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One network at two batch sizes; one measured on a single type, and one that reached no goal, are left out."""
    lines = [
        f"{kind},d,resnet50,{batch},adam,{limit},{seconds * 200 / limit},{limit * 0.9}"
        for kind, seconds in SECONDS.items()
        for batch in (32, 64, 128)
        for limit in (100, 200)
    ]
    (tmp_path / "zeus_power.csv").write_text(POWER + "\n".join([*lines, "v100,d,resnet50,256,adam,200,60,150"]) + "\n")
    runs = [f"d,resnet50,{batch},adam,0.1,{run},{goal},{epoch}" for batch, run, goal, epoch in (
        (32, 1, 0.5, 10), (32, 2, 0.5, 12), (32, 1, 0.9, 30), (32, 2, 0.9, ""),
        (64, 1, 0.5, 8), (64, 2, 0.5, 8), (64, 1, 0.9, ""), (64, 2, 0.9, ""),
        (128, 1, 0.5, ""), (256, 1, 0.5, 4),
    )]  # fmt: skip
    (tmp_path / "zeus_train.csv").write_text(TRAIN + "\n".join(runs) + "\n")
    rates = [f"simulation,p100,ResNet-50,{batch},{n},{rate}" for batch, n, rate in (
        (32, 1, 10), (32, 2, 22), (32, 4, 30), (32, 8, 50), (64, 1, 10), (64, 2, 9), (64, 4, 20),
    )]  # fmt: skip
    (tmp_path / "gavel_isolated.csv").write_text(SCALING + "\n".join(rates) + "\n")
    return tmp_path


def test_times_and_powers_are_those_at_the_highest_limit(data: Path) -> None:
    _, world = zeus(data, gpus=16, jobs=20, load=0.9, seed=1)
    assert sorted(world.workloads) == ["resnet50-d 32", "resnet50-d 64"]
    work = world.workloads["resnet50-d 32"]
    assert work.powers == dict.fromkeys(TYPES, 180.0)
    assert work.speeds == {kind: pytest.approx(60 / seconds) for kind, seconds in SECONDS.items()}


def test_speedups_never_beat_the_count_nor_fall(data: Path) -> None:
    _, world = zeus(data, gpus=16, jobs=20, load=0.9, seed=1)
    assert world.workloads["resnet50-d 32"].speedups == {1: 1.0, 2: 2.0, 4: 3.0}
    assert world.workloads["resnet50-d 64"].speedups == {1: 1.0, 2: 1.0, 4: 2.0}


def test_a_job_runs_the_epochs_of_a_run_that_reached_the_hardest_goal_of_half(data: Path) -> None:
    trace, world = zeus(data, gpus=16, jobs=60, load=0.9, seed=1)
    for job in trace.arrivals:
        epochs = job.duration_s * world.workload(job.kind).speedups[job.devices] / 60
        assert epochs == pytest.approx(30 if world.workload(job.kind).batch_size == 32 else 8)
        assert job.deadline_s is not None
        assert job.deadline_s - job.submit_s >= 1.5 * job.duration_s / (60 / 50) * 0.999


def test_the_seed_makes_the_jobs_and_the_load_only_their_distance(data: Path) -> None:
    calm, busy, other = (
        zeus(data, gpus=16, jobs=20, load=load, seed=seed)[0].arrivals for load, seed in ((0.5, 1), (1.0, 1), (1.0, 2))
    )
    assert [a.duration_s for a in calm] == [a.duration_s for a in busy] != [a.duration_s for a in other]
    assert calm[-1].submit_s == pytest.approx(2 * busy[-1].submit_s)


def test_each_type_has_as_many_gpus_and_the_fastest_comes_first(data: Path) -> None:
    _, world = zeus(data, gpus=32, jobs=1, load=0.9, seed=1)
    types = [device.type for device in world.devices]
    assert [types.count(kind) for kind in TYPES] == [8, 8, 8, 8]
    assert types[0] == TYPES[0]


def test_the_measured_files_have_every_network() -> None:
    measured = folder()
    if measured is None:
        pytest.skip("no measured public data: set GPUQ_DATA")
    trace, world = zeus(measured, gpus=16, jobs=50, load=0.9, seed=101)
    assert {work.model for work in world.workloads.values()} == {
        "bert_base_uncased", "deepspeech2", "ncf", "resnet50", "shufflenetv2"
    }  # fmt: skip
    assert all(set(work.speeds) == set(work.powers) == set(TYPES) for work in world.workloads.values())
    assert all(job.devices in world.workload(job.kind).speedups for job in trace.arrivals)
