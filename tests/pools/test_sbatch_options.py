"""Which options of a user are refused for pilots, and what they say of GPUs."""

from __future__ import annotations

import pytest

from gpuq.errors import BadInput
from gpuq.pools.sbatch_options import check, speak_of_gpus, takes_whole_node


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--array=0-3"], "--array"),
        (["--arr", "0-3"], "--array"),
        (["-a", "0-3"], "--array"),
        (["-p", "gpu", "--wait"], "--wait"),
        (["-W"], "--wait"),
        (["--test-only"], "--test-only"),
        (["-Q"], "--quiet"),
        (["--gres=gpu:1", ":", "--gres=gpu:1"], "several Slurm jobs"),
        (["--wrap", "sleep 100"], "--wrap"),
        (["--requeue"], "--requeue"),
        (["-Mgpu"], "--clusters"),
        (["-D", "/tmp"], "--chdir"),
        (["--nodes=2"], "one node"),
        (["-N", "2"], "one node"),
        (["-N2-4"], "one node"),
    ],
)
def test_options_with_which_no_pilot_would_come_about_are_refused(words: list[str], named: str) -> None:
    with pytest.raises(BadInput, match=named):
        check(words)


def test_other_options_are_left_to_slurm() -> None:
    check(
        [
            "--partition=gpu",
            "-A",
            "lab",
            "--wckey=x",
            "-N",
            "1",
            "--nodes=1",
            "--nodelist=n[1-3]",
            "--comment=a b",
            "--comment",
            "-abc",
            "-J",
            "--array",
            "--time=1:00:00",
        ]
    )


def test_what_is_said_of_gpus_replaces_what_gpuq_would_say() -> None:
    for words in (["--gres=gpu:a100:2"], ["--gpus-per-node", "2"], ["-G2"], ["--gpus=h100:1"]):
        assert speak_of_gpus(words)
    assert not speak_of_gpus(["--constraint=gpu", "--partition=gpus"])


def test_a_whole_node_is_asked_for_by_exclusive_alone() -> None:
    assert takes_whole_node(["--exclusive", "-p", "gpu"])
    assert not takes_whole_node(["--exclusive=user"])
    assert not takes_whole_node([])
