"""Which variables of the environment go along with a submission."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuq.cli import variables
from gpuq.errors import BadInput

ENVIRON = {
    "PATH": "/bin",
    "LC_ALL": "C",
    "CONDA_PREFIX": "/conda",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_API_KEY": "s",
    "CONDA_TOKEN": "s",
    "XDG_secret": "s",
    "HF_TOKEN": "s",
    "AWS_SECRET_ACCESS_KEY": "s",
    "GPUQ_TOKEN": "s",
    "GPUQ_HOME": "/h",
    "MY_FLAG": "1",
    "CUDA_VISIBLE_DEVICES": "0",
    "BASH_FUNC_x%%": "() { :; }",
    "LC_BAD": "\udcff",
    "XLA_HUGE": "x" * 200_000,
}


def test_only_listed_variables_without_secrets_are_passed() -> None:
    assert set(variables.environment(ENVIRON, [], [])) == {"PATH", "LC_ALL", "CONDA_PREFIX", "TF_CPP_MIN_LOG_LEVEL"}


def test_variables_that_libraries_read_are_passed_but_for_what_is_of_one_job() -> None:
    passed = {
        "CUDA_LAUNCH_BLOCKING",
        "CUBLAS_WORKSPACE_CONFIG",
        "MPLBACKEND",
        "HYDRA_FULL_ERROR",
        "TOKENIZERS_PARALLELISM",
    }
    passed |= {"HF_ENDPOINT", "WANDB_ENTITY"}
    left = {
        "CUDA_VISIBLE_DEVICES",
        "CUDA_MPS_PIPE_DIRECTORY",
        "HF_TOKEN",
        "WANDB_API_KEY",
        "WANDB_SERVICE",
        "TOKENIZERS_TOKEN",
    }
    assert set(variables.environment(dict.fromkeys(passed | left, "1"), [], [])) == passed


def test_the_docs_list_the_variables_that_are_passed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text()
    text = page.partition("### Environment variables")[2].partition("\n\nThose ")[0]
    listed = set(re.findall(r"`([A-Z_]+)`", text))
    assert listed == variables.PASSED_NAMES | set(variables.PASSED_PREFIXES)


def test_variables_named_by_options_are_passed() -> None:
    env = variables.environment(
        ENVIRON, ["MY_*", "HF_TOKEN"], ["A=b=c", "AWS_SECRET_ACCESS_KEY", "PATH=/other", "EMPTY="]
    )
    assert (env["MY_FLAG"], env["HF_TOKEN"], env["AWS_SECRET_ACCESS_KEY"]) == ("1", "s", "s")
    assert (env["A"], env["PATH"], env["EMPTY"]) == ("b=c", "/other", "")


def test_gpuqs_own_token_is_never_passed() -> None:
    assert not any(name.startswith("GPUQ_") for name in variables.environment(ENVIRON, ["*"], []))


@pytest.mark.parametrize("setting", ["=x", "", "NOT_SET"])
def test_a_setting_that_names_nothing_is_refused(setting: str) -> None:
    with pytest.raises(BadInput):
        variables.environment(ENVIRON, [], [setting])
