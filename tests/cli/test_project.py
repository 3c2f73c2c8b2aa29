"""Options of a project, from the nearest `gpuq.toml`."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.cli.conftest import Command, FakeApi

SUBMITTED = ("POST", "/api/v1/jobs")
SETTINGS = """
[submit]
project = "nlp"
gpus = 2
time = "2h"
hold = true
requeue = false
env = { WANDB_MODE = "offline", DATA = "/data" }
pass-env = ["MY_*", "OUR_*"]
"""


@pytest.fixture
def project(gpuq: Command) -> Command:
    """The command, in a folder below one with a `gpuq.toml`."""
    (gpuq.cwd / "gpuq.toml").write_text(SETTINGS)
    gpuq.cwd = gpuq.cwd / "below"
    gpuq.cwd.mkdir()
    (gpuq.cwd / "train.py").touch()
    return gpuq


def submitted(gpuq: Command, api: FakeApi, *words: str, **env: str) -> dict[str, Any]:
    api.on(*SUBMITTED, {"id": 1, "ids": [1]})
    done = gpuq("submit", *words, **env)
    assert done.code == 0, done.err
    body: dict[str, Any] = api.asked(*SUBMITTED)[-1].body
    return body


def test_a_file_in_a_folder_above_has_options_for_every_job(project: Command, api: FakeApi) -> None:
    body = submitted(project, api, "train.py", MY_CACHE="/m", OUR_CACHE="/o", THEIR_CACHE="/t")
    assert (body["project"], body["gpus"], body["time_limit_s"], body["hold"]) == ("nlp", 2, 7200, True)
    assert body["requeue_on_node_fail"] is False
    env = {name: value for name, value in body["env"].items() if name in {"WANDB_MODE", "DATA"} or "CACHE" in name}
    assert env == {"WANDB_MODE": "offline", "DATA": "/data", "MY_CACHE": "/m", "OUR_CACHE": "/o"}


def test_the_head_of_the_script_goes_before_it_and_the_command_line_before_both(project: Command, api: FakeApi) -> None:
    (project.cwd / "train.py").write_text("#GPUQ --gpus 3 -t 1h\n")
    body = submitted(project, api, "-t", "30", "train.py")
    assert (body["gpus"], body["time_limit_s"], body["project"]) == (3, 1800, "nlp")


def test_the_nearest_file_counts_alone(project: Command, api: FakeApi) -> None:
    (project.cwd / "gpuq.toml").write_text("[submit]\npriority = -5\n")
    body = submitted(project, api, "train.py")
    assert (body["priority"], body.get("project")) == (-5, None)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[submit]\ngpsu = 2\n", "has no option `--gpsu`. Did you mean `--gpus`?"),
        ("[submit]\n-e = 'x'\n", "`-e` is written with a dash.\n  Keys are long options without dashes: env, gpus.\n"),
        ("[submit]\ntime = 2h\n", '(at line 2, column 9).\n  Write texts in quotes, below [submit]: time = "2h"\n'),
        ("[submit\n", "Expected ']'"),
        ("gpus = 2\n", "it has to have one table, [submit]."),
        ("[submit]\n[server]\n", "it has to have one table, [submit]."),
    ],
)
def test_a_file_with_a_mistake_is_named(project: Command, text: str, sentence: str) -> None:
    (project.cwd / "gpuq.toml").write_text(text)
    done = project("submit", "train.py")
    assert (done.code, f"{project.cwd}/gpuq.toml: " in done.err, sentence in done.err) == (2, True, True), done.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_left_out(project: Command, api: FakeApi) -> None:
    own = project.cwd / "gpuq.toml"
    own.write_text('[submit]\npython = "/tmp/evil"\n')
    os.chown(own, 12345, 12345)
    api.on(*SUBMITTED, {"id": 1})
    done = project("submit", "train.py")
    assert (done.code, "belongs to another user and is left out" in done.err) == (0, True)
    assert api.asked(*SUBMITTED)[-1].body["command"][0] != "/tmp/evil"


@pytest.mark.parametrize("text", ['host = "http://127.0.0.1:1"', "dry-run-memory = true"])
def test_a_folder_chooses_neither_who_is_sent_the_token_nor_that_scripts_run_here(
    project: Command, api: FakeApi, text: str
) -> None:
    (project.cwd / "gpuq.toml").write_text(f"[submit]\n{text}\n")
    for command in (["predict", "train.py"], ["submit", "train.py"], ["submit", "--", "true"]):
        done = project(*command)
        assert (done.code, "counts on a command line only" in done.err) == (2, True), command
    assert not api.requests
