"""What a shell is offered while a line is typed: by the command itself, and once in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuq.cli.main import VERBS
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi
from tests.support import forked


def offered(gpuq: Command, tmp_path: Path, line: str) -> list[str]:
    """The completions of a line, without the space that ends the only one."""
    answer = tmp_path / "completions"
    answer.unlink(missing_ok=True)
    done = gpuq(
        _ARGCOMPLETE="1",
        _ARGCOMPLETE_IFS="\n",
        _ARGCOMPLETE_STDOUT_FILENAME=str(answer),
        COMP_LINE=line,
        COMP_POINT=str(len(line)),
        COMP_TYPE="9",
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    return [word.rstrip() for word in answer.read_text().splitlines()] if answer.exists() else []


def test_a_verb_is_completed(gpuq: Command, tmp_path: Path) -> None:
    assert offered(gpuq, tmp_path, "gpuq sub") == ["submit"]
    assert offered(gpuq, tmp_path, "gpuq --json --host http://localhost sh") == ["show"]
    assert set(offered(gpuq, tmp_path, "gpuq ")) == set(VERBS)
    assert offered(gpuq, tmp_path, "gpuq nonsense --") == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_offers_its_options_and_does_nothing_else(gpuq: Command, tmp_path: Path, verb: str) -> None:
    assert "--json" in offered(gpuq, tmp_path, f"gpuq {verb} --")


def test_values_and_files_are_completed(gpuq: Command, tmp_path: Path) -> None:
    (gpuq.cwd / "train.py").touch()
    assert offered(gpuq, tmp_path, "gpuq submit --share ") == ["auto", "never"]
    assert offered(gpuq, tmp_path, "gpuq submit --gpus 2 tra") == ["train.py"]
    assert offered(gpuq, tmp_path, "gpuq submit train.py --gp") == [], "from here on the options are the script's"
    assert offered(gpuq, tmp_path, "gpuq ls --sta") == ["--state"]


def test_ids_are_those_of_the_jobs_that_the_verb_is_for(gpuq: Command, api: FakeApi, tmp_path: Path) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(41), samples.job(42)], "next": None})
    assert offered(gpuq, tmp_path, "gpuq release 4") == ["41", "42"]
    assert api.requests[-1].query["state"] == "HELD"
    assert offered(gpuq, tmp_path, "gpuq show 42") == ["42"]
    assert "state" not in api.requests[-1].query


def test_without_a_daemon_there_are_no_ids_and_no_error(gpuq: Command, tmp_path: Path) -> None:
    assert offered(gpuq, tmp_path, "gpuq cancel ") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_after_the_printed_lines(tmp_path: Path) -> None:
    script = """
        eval "$(gpuq completion bash)"
        line='gpuq submit --max'
        COMP_LINE=$line COMP_POINT=${#line} COMP_TYPE=9 COMP_CWORD=2 COMP_WORDS=($line)
        $(complete -p gpuq | sed 's/.*-F \\([^ ]*\\).*/\\1/') gpuq --max submit
        echo "${COMPREPLY[@]}"
    """
    path = f"{Path(forked.PROGRAM).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("--max-slowdown", "")
