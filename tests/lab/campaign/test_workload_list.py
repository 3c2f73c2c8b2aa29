"""The list of a campaign: what it may contain, and how errors in it are reported."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.lab.campaign.workload_list import read_list

LISTS = sorted((Path(__file__).parents[3] / "workloads").glob("campaign*.toml"))


def listed(folder: Path, text: str) -> Path:
    path = folder / "list.toml"
    path.write_text(text)
    return path


def table(name: str = "net", sizes: str = "[4, 8]", command: str = '["{python}", "train.py", "{batch_size}"]') -> str:
    return f'[[workload]]\nname = "{name}"\ncommand = {command}\nbatch_sizes = {sizes}\n'


def test_a_workload_is_a_job_for_each_of_its_batch_sizes(tmp_path: Path):
    one, other = read_list(listed(tmp_path, table() + 'family = "pictures"\nenv = { KERAS_BACKEND = "torch" }\n'))
    assert (one.name, other.name) == ("net 4", "net 8")
    assert other.arguments == (sys.executable, "train.py", "8")
    assert (one.family, one.env) == ("pictures", (("KERAS_BACKEND", "torch"),))


def test_the_same_work_has_the_same_digest_on_any_machine_and_other_work_another(tmp_path: Path, monkeypatch):
    (before,) = read_list(listed(tmp_path, table(sizes="[4]")))
    monkeypatch.setattr(sys, "executable", "/elsewhere/python")
    (here,) = read_list(listed(tmp_path, table(sizes="[4]")))
    (other,) = read_list(listed(tmp_path, table(sizes="[4]").replace("train.py", "learn.py")))
    assert here.digest == before.digest != other.digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "workload"),
        ("workload = []", "no workload"),
        ("[[workload", "not valid TOML"),
        (table(sizes="[]"), "batch sizes"),
        (table(sizes="[0]"), "batch sizes"),
        (table(sizes='["four"]'), "int"),
        (table(command="[]"), "empty command"),
        (table(command='["train.py"]'), "{batch_size}"),
        (table() + table(), "twice"),
        (table(name="a/../b"), "a/../b"),
        (table() + "colour = 1\n", "colour"),
    ],
)
def test_invalid_list_is_refused_with_its_file(tmp_path: Path, text: str, said: str):
    with pytest.raises(BadInput) as wrong:
        read_list(listed(tmp_path, text))
    assert said in wrong.value.message
    assert "list.toml" in wrong.value.message


def test_missing_list_is_refused(tmp_path: Path):
    with pytest.raises(BadInput, match="nowhere"):
        read_list(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_the_lists_that_come_with_gpuq_name_scripts_that_exist(path: Path):
    jobs = read_list(path)
    assert {job.command[1] for job in jobs} == {"-m"}
    assert all(job.family for job in jobs)
    for job in jobs:
        with pytest.raises(SystemExit) as ended:  # it has judged all that stands before --help by then
            import_module(job.command[2]).main([*job.command[3:], "--help"])
        assert ended.value.code == 0, job.name


def test_the_list_for_cpus_has_eight_workloads_at_three_batch_sizes():
    (path,) = (path for path in LISTS if path.name == "campaign-cpu.toml")
    sizes: dict[str, set[int]] = {}
    for job in read_list(path):
        sizes.setdefault(job.model, set()).add(job.batch_size)
    assert sum(len(of) >= 3 for of in sizes.values()) >= 8
