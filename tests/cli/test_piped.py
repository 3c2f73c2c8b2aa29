"""A script on standard input goes along with the job; no other input is touched."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from gpuq.cli import piped
from gpuq.messages.submission import MAX_STDIN, Submission
from tests.cli.conftest import Command, FakeApi, Reply

SCRIPT = "import sys\nprint(sys.argv)\n"


@pytest.fixture
def taken(api: FakeApi) -> FakeApi:
    def take(request: Any) -> Reply:
        msgspec.convert(request.body, Submission)
        return Reply({"id": 42}, 201)

    api.on("POST", "/api/v1/jobs", take)
    return api


def body(api: FakeApi) -> dict[str, Any]:
    sent: dict[str, Any] = api.asked("POST", "/api/v1/jobs")[-1].body
    return sent


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("python", True),
        ("python -", True),
        ("/usr/bin/python3.11 -u -X dev -", True),
        ("python -W ignore - --lr 1", True),
        ("python /dev/stdin", True),
        ("python train.py -", False),
        ("python -m train -", False),
        ("python -um train", False),
        ("python -c code", False),
        ("python -W ignore train.py", False),
        ("python --version", False),
        ("bash", True),
        ("bash -s a b", True),
        ("bash -es", True),
        ("bash -o pipefail -", True),
        ("bash -euo pipefail", True),
        ("bash -euo pipefail run.sh", False),
        ("bash -euo pipefail -c code", False),
        ("julia", False),
        ("bash -o pipefail run.sh", False),
        ("bash - run.sh", False),
        ("bash -ec code", False),
        ("bash --norc -x run.sh", False),
        ("cat -", False),
        ("tar xf -", False),
        ("pythonista -", False),
    ],
)
def test_which_commands_read_their_program_there(command: str, reads: bool) -> None:
    assert piped.reads_program(command.split()) is reads


def test_a_dash_submits_the_piped_script(gpuq: Command, taken: FakeApi) -> None:
    done = gpuq("submit", "--python", sys.executable, "-", "--lr", "0.1", stdin=SCRIPT)
    assert (done.code, done.out, done.err) == (0, "42\n", "")
    assert body(taken)["command"] == [sys.executable, "-", "--lr", "0.1"]
    assert (body(taken)["stdin"], body(taken)["name"]) == (SCRIPT, "stdin")


def test_an_interpreter_without_a_script_gets_what_is_piped(gpuq: Command, taken: FakeApi) -> None:
    for words in (["--", sys.executable, "-"], ["--", sys.executable], ["--", "bash", "-s"]):
        assert gpuq("submit", *words, stdin=SCRIPT).code == 0
        assert body(taken)["stdin"] == SCRIPT


def test_a_shebang_selects_the_interpreter(gpuq: Command, taken: FakeApi) -> None:
    assert gpuq("submit", "-", "3", stdin="#!/usr/bin/env bash\necho $1\n").code == 0
    assert body(taken)["command"] == ["/usr/bin/env", "bash", "/dev/stdin", "3"]
    assert gpuq("submit", "--python", sys.executable, "-", stdin="#!/usr/bin/env python3\n").code == 0
    assert body(taken)["command"][1:] == ["-"]


def test_other_commands_leave_standard_input_alone(gpuq: Command, taken: FakeApi) -> None:
    """`while read line; do gpuq submit train.py $line; done < list` reads the list itself."""
    (gpuq.cwd / "train.py").write_text("")
    script = f'while read -r word; do "{gpuq.program}" submit train.py "$word"; done'
    subprocess.run(["bash", "-c", script], input=b"a\nb\n", env=gpuq.env, cwd=gpuq.cwd, check=True, capture_output=True)
    assert [request.body["command"][2] for request in taken.asked("POST", "/api/v1/jobs")] == ["a", "b"]
    assert "stdin" not in body(taken)


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("", "is empty"),
        ("\n", "is empty"),
        ("x" * (piped.MAX_BYTES + 1), "longer than 1 MiB"),
        ("caf\udce9", "not UTF-8 text"),
        ("a\0b", "not UTF-8 text"),
    ],
)
def test_scripts_that_cannot_be_submitted_are_refused(
    gpuq: Command, taken: FakeApi, script: str, sentence: str
) -> None:
    for words in (["-"], ["--", sys.executable, "-"]):
        done = gpuq("submit", *words, stdin=script)
        assert (done.code, done.out) == (2, "")
        said, fix = done.err.splitlines()
        assert sentence in said
        assert "submit" in fix
    assert taken.requests == []


def test_a_shell_script_with_the_line_ends_of_windows_is_refused(gpuq: Command, taken: FakeApi) -> None:
    done = gpuq("submit", "-", stdin="#!/bin/sh\r\necho\r\n")
    assert (done.code, "end as on Windows" in done.err) == (2, True), done.err
    assert gpuq("submit", "-", stdin="#!/usr/bin/env python3\r\nprint()\r\n").code == 0, "which Python reads"


def test_a_terminal_is_not_waited_for(gpuq: Command, taken: FakeApi) -> None:
    leader, follower = pty.openpty()
    done = subprocess.run(
        [gpuq.program, "submit", "-"], env=gpuq.env, cwd=gpuq.cwd, stdin=follower, capture_output=True, check=False
    )
    os.close(follower)
    os.close(leader)
    assert done.returncode == 2
    assert b"which is a terminal here" in done.stderr
    assert b"cat train.py | gpuq submit -" in done.stderr


def test_a_line_of_many_commands_has_no_script_of_its_own(gpuq: Command, taken: FakeApi) -> None:
    done = gpuq("submit", "--stdin", stdin=f"true\n{sys.executable} -\n")
    assert done.code == 2
    assert "line 2 of stdin: with --stdin a command cannot read its own script from there" in done.err
    assert taken.requests == []


def test_the_limit_is_the_servers() -> None:
    assert piped.MAX_BYTES == MAX_STDIN
