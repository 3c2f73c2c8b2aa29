"""The command of "Run it again", read by the command line itself: it asks for the same."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuq.api.page.submit_command import submit_command
from gpuq.cli import job_body, job_options
from gpuq.messages.environment import in_environment
from gpuq.messages.submission import Submission
from tests.api.support import submission

NOW = 1_790_000_000.0


def command(*, waits: bool = False, **asked: Any) -> str:
    return submit_command(msgspec.convert(submission(**asked), Submission), NOW, waits=waits)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"time_limit_s": 9000.0}, "--time 2h30m"),
        ({"time_limit_s": 0.5}, "--time 0.5s"),
        ({"kind": "my kind"}, "--kind 'my kind'"),
        ({"gpu_memory": 10 * 2**30}, "--gpu-mem 10G"),
        ({"gpu_memory": 12345}, "--gpu-mem 12345B"),
        ({"gpus": 1, "most_gpus": 4}, "--gpus 1-4"),
        ({"gpus": 4, "hosts": 2}, "--gpus 4 --hosts 2"),
        ({"share": "never", "max_slowdown": 1.1}, "--share never --max-slowdown 10%"),
        ({"singleton": True, "requeue_on_node_fail": True}, "--singleton --requeue"),
        ({"signal": "SIGUSR1"}, "--signal USR1"),
        ({"signal": "SIGUSR1", "signal_before_s": 120.0, "time_limit_s": 600.0}, "--time 10m --signal USR1@120"),
        ({"preemptible": True, "no_pause": True, "idle_ok": True}, "--preemptible --no-pause --idle-ok"),
        ({"retry": ["oom:2", "exit=75:3"]}, "--retry oom:2,exit=75:3"),
        ({"blink": True, "lend_cores": 2}, "--lend-cores 2 --blink"),
        ({"notify": []}, "--notify none"),
        ({"constraints": {"types": ["H100", "A100"], "least_memory": 40}}, "--gpu-type 'H100|A100' --gpu-mem-min 40B"),
        (
            {"constraints": {"hosts": ["n1", "n2"], "excluded_hosts": ["n3"], "devices": ["gpu0", "gpu1"]}, "gpus": 1},
            "--gpus 1 --hosts 1 --nodelist n1,n2 --exclude n3 --device gpu0,gpu1",
        ),
        ({"constraints": {"features": [["nvlink", "ib"], ["fast"]]}}, "--constraint '(nvlink&ib)|fast'"),
    ],
)
def test_a_job_is_submitted_again_as_it_was(
    asked: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    text = command(**asked)
    assert text == f"cd /home/ada && gpuq submit {words} -- python train.py"
    parser = job_options.job_parser("submit", "")
    job_options.add_job_options(parser)
    _, body = job_body.parse(parser, shlex.split(text)[5:])
    again, was = (msgspec.convert(one, Submission) for one in (body, submission(**asked)))
    for name in Submission.__struct_fields__:
        if name not in {"command", "cwd", "env", "name", "script", "umask"}:
            assert getattr(again, name) == getattr(was, name), name


def test_modules_and_an_image_are_options() -> None:
    words = in_environment("x.org/y", ["cuda/12"], ["python", "train.py"])
    text = command(command=[*words], name="-x")
    assert text == "cd /home/ada && gpuq submit --name=-x --module=cuda/12 --image=x.org/y -- python train.py"


def test_what_is_past_is_left_out() -> None:
    moments = {"begin_at": NOW - 60, "deadline_at": NOW + 60}
    assert "--deadline 2026-09-21T14:14:20.000Z -- python" in command(**moments)
    assert "--begin" not in command(**moments)


def test_only_a_job_that_waits_waits_for_the_same_jobs_again() -> None:
    assert "--after ok:12 --after any:13-14 --" in command(after=["ok:12", "any:13-14"], waits=True)
    assert "--after" not in command(after=["ok:12"])


def test_a_terminal_and_a_notebook_are_started_again_as_such() -> None:
    assert "gpuq submit --pty -- python" in command(interactive="terminal")
    assert command(interactive="notebook", time_limit_s=3600.0) == "cd /home/ada && gpuq notebook --time 1h"
