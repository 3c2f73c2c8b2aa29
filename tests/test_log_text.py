"""Logs as text that can be shown."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuq.log_text import readable


def test_what_steers_a_terminal_is_left_out() -> None:
    assert (
        readable(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07and \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "red and link"
    )


def test_of_a_line_that_was_overwritten_the_last_is_kept() -> None:
    assert readable(b"epoch 1\r\n10%\r20%\r100%\ndone\r") == "epoch 1\n100%\ndone"
    assert readable(b"10%\r\r") == "10%", "a terminal leaves a line that only its cursor went back on"


@pytest.mark.parametrize(
    "raw", [b"x" * 2**16, b"\x1b[" + b"1" * 2**16, b"\x1b]" * 2**15, b"x\r" * 2**15, b"\r" * 2**16]
)
def test_the_time_grows_with_the_length_of_a_log_and_not_with_that_of_its_lines(raw: bytes) -> None:
    began = time.process_time()
    readable(raw)
    assert time.process_time() - began < 1.0


@given(some.binary() | some.text().map(str.encode))
def test_nothing_that_controls_or_turns_text_is_left(raw: bytes) -> None:
    text = readable(raw)
    assert all(unicodedata.category(sign) != "Cc" for sign in text.replace("\n", "").replace("\t", ""))
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
