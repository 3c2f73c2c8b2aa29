"""What a shell is offered while a line is typed: by the command itself, and once in a real bash, zsh and fish."""

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


def test_jobs_are_completed_by_name_and_devices_and_hosts_in_lists(gpuq: Command, api: FakeApi, tmp_path: Path) -> None:
    api.on(
        "GET", "/api/v1/jobs", {"jobs": [samples.job(42, name="train.py"), samples.job(41, name="eval")], "next": None}
    )
    assert offered(gpuq, tmp_path, "gpuq cancel t") == ["train.py"]
    devices = [{"name": f"node2:gpu{number}", "kind": "NVIDIA H100", "host": "node2"} for number in range(2)]
    api.on("GET", "/api/v1/gpus", devices)
    assert offered(gpuq, tmp_path, "gpuq submit --gpu-type ") == ["NVIDIA\\ H100"]
    assert set(offered(gpuq, tmp_path, "gpuq reserve --device ")) == {"node2:gpu0", "node2:gpu1"}
    assert offered(gpuq, tmp_path, "gpuq submit --device node2:gpu0,node2:gpu1") == ["node2:gpu0,node2:gpu1"]
    api.on("GET", "/api/v1/hosts", [{"name": "node1", "state": "up"}, {"name": "box", "state": "up"}])
    assert offered(gpuq, tmp_path, "gpuq submit -x box,n") == ["box,node1"]


def test_states_and_policies_are_completed(gpuq: Command, api: FakeApi, tmp_path: Path) -> None:
    assert offered(gpuq, tmp_path, "gpuq queue -s FAI") == ["FAILED"]
    assert offered(gpuq, tmp_path, "gpuq cancel --state PENDING,H") == ["PENDING,HELD"]
    api.on("GET", "/api/v1/policies", {"policies": [{"name": "fifo", "summary": "first come, first served"}]})
    assert offered(gpuq, tmp_path, "gpuq policy show ") == ["fifo"]


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
    done = in_shell(tmp_path, "bash", "--norc", "-c", script)
    assert (done.stdout.strip(), done.stderr) == ("--max-slowdown", "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_after_the_printed_lines(tmp_path: Path) -> None:
    script = "gpuq completion fish | source; complete -C 'gpuq submit --share '"
    done = in_shell(tmp_path, "fish", "--no-config", "-c", script)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["auto", "never"], done.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_after_the_printed_lines(tmp_path: Path) -> None:
    # Completion runs while a line is edited, so this zsh types into another one, in a terminal.
    script = """
        zmodload zsh/zpty
        zpty shell 'zsh -f'
        zpty -w shell 'PROMPT=; autoload -Uz compinit; compinit -u; eval "$(gpuq completion zsh)"; echo is rea""dy'
        zpty -r -m shell shown '*is ready*'
        zpty -w -n shell $'gpuq submit --max-s\t'
        zpty -r -m shell shown '*--max-slowdown*' && echo completed
        zpty -d shell
    """
    assert in_shell(tmp_path, "zsh", "-f", "-c", script).stdout == "completed\n"


def in_shell(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(forked.PROGRAM).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(home), "TERM": "dumb"}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)
