"""On a terminal: colour, width, the bar, characters that it cannot show."""

from __future__ import annotations

import os
import pty
import termios
from contextlib import suppress

from tests.cli import samples
from tests.cli.conftest import Command, FakeApi


def on_a_terminal(gpuq: Command, *words: str, **env: str) -> str:
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 80))
    process = gpuq.start(*words, stdout=follower, env={**gpuq.env, "TERM": "xterm", **env})
    os.close(follower)
    said = b""
    with suppress(OSError):  # how Linux tells that the other end is closed
        while chunk := os.read(leader, 4096):
            said += chunk
    os.close(leader)
    process.communicate(timeout=10)
    assert process.returncode == 0
    return said.decode()


def test_colour_is_for_terminals_and_can_be_refused(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": samples.queue(), "next": None})
    assert "\x1b[32m42" in on_a_terminal(gpuq, "queue")
    assert "\x1b" not in on_a_terminal(gpuq, "queue", NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(gpuq, "queue", TERM="dumb")
    assert "\x1b" not in on_a_terminal(gpuq, "queue", "--no-color")
    assert "\x1b" not in gpuq("queue").out


def test_the_terminals_width_is_used(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": samples.queue(), "next": None})
    plain = on_a_terminal(gpuq, "--no-color", "queue").splitlines()
    assert max(map(len, plain)) <= 80
    assert "llama-70b-finetune-lora" in gpuq("queue").out
    narrow = gpuq("queue", COLUMNS="40").out.splitlines()
    assert max(map(len, narrow)) <= 40
    assert any("…" in line for line in narrow)


def test_the_bar_is_drawn_on_a_wide_terminal_only(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/gpus", samples.DEVICES)
    assert "███████▌" in on_a_terminal(gpuq, "gpus", COLUMNS="120")
    assert "█" not in gpuq("gpus", COLUMNS="120").out


def test_a_terminal_that_cannot_show_a_character_gets_it_escaped(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/jobs", {"jobs": [samples.job(1, name="größe")], "next": None})
    done = gpuq("queue", PYTHONIOENCODING="ascii")
    assert done.code == 0
    assert "gr\\xf6\\xdfe" in done.out
