"""What `gpuq pool add` asks for, by the pool that it hands on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuq.cli.verbs import pool
from gpuq.errors import BadInput


class Became(Exception):
    """In place of another process."""


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Any:
    def become(arguments: list[str]) -> None:
        raise Became(json.loads(arguments[-1]))

    monkeypatch.setattr(pool, "become_module", become)

    def run(*words: str) -> Any:
        with pytest.raises(Became) as became:
            pool.run(["add", *words])
        return became.value.args[0]

    return run


def test_a_pool_of_slurm_passes_options_on_to_sbatch(added: Any) -> None:
    asked = added("slurm", "--gpus", "2", "--", "--partition=gpu")
    assert (asked["name"], asked["gpus"], asked["sbatch"], asked["pod"]) == ("slurm", 2, ["--partition=gpu"], None)


def test_options_of_sbatch_that_are_not_behind_two_dashes_are_explained() -> None:
    with pytest.raises(BadInput, match="unrecognized arguments") as refused:
        pool.run(["add", "slurm", "--partition=gpu"])
    assert "behind `--`" in refused.value.fix


def test_a_pool_of_kubernetes_says_of_what_its_pods_are_made(added: Any) -> None:
    asked = added("kubernetes", "--", "--image=i", "--volume=home:/home/ada", "--cpu=8", "--node-selector", "a=b")
    assert (asked["name"], asked["sbatch"]) == ("kubernetes", [])
    pod = asked["pod"]
    assert (pod["image"], pod["claim"], pod["mount"], pod["cpu"]) == ("i", "home", "/home/ada", "8")
    assert (pod["node_selector"], pod["resource"], pod["namespace"]) == ({"a": "b"}, "nvidia.com/gpu", None)


@pytest.mark.parametrize("words", [[], ["--image=i"], ["--volume=home:/home/ada"], ["--image=i", "--volume=home"]])
def test_a_pod_needs_an_image_and_the_volume_of_the_home(words: list[str]) -> None:
    with pytest.raises(BadInput, match="needs an image, and the volume"):
        pool.run(["add", "kubernetes", "--", *words])


def test_others_than_slurm_and_kubernetes_are_not_known() -> None:
    with pytest.raises(BadInput, match="from Slurm and Kubernetes only"):
        pool.run(["add", "nomad"])


def test_the_pools_are_listed_while_one_of_their_pilots_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its folder may be removed between two steps of the command; here its record cannot be read."""
    monkeypatch.setenv("GPUQ_HOME", str(tmp_path))
    asked = {"name": "slurm", "gpus": 2, "most": 4, "time_limit_s": 3600.0}
    (tmp_path / "pools.json").write_text(json.dumps([asked]))
    (tmp_path / "pilots" / "slurm-1" / "pilot.json").mkdir(parents=True)
    (tmp_path / "pilots" / "all pools.problem").write_text('{"at": 1.0, "problem": "Jobs wait.", "fix": "Add a pool."}')
    assert pool.run([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:4] == ["slurm", "0", "4", "2"]
    assert lines[2:] == ["Jobs wait. Add a pool."]
