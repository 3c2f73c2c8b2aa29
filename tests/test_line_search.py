"""Lines that contain a text are the same, however the output was cut into pieces."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gpuq.line_search import LONGEST_LINE_BYTES, LineSearch

OUTPUT = st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r", b"\xff"]), max_size=60).map(b"".join)


@given(OUTPUT, st.sampled_from(["a", "ab", "ba"]), st.integers(1, 7))
def test_pieces_of_any_size_give_the_lines_of_the_whole(output: bytes, text: str, size: int) -> None:
    search = LineSearch(text)
    found = (
        b"".join(search.found(output[start : start + size]) for start in range(0, len(output), size)) + search.last()
    )
    assert found == b"".join(line + b"\n" for line in re.split(rb"[\r\n]", output) if text.encode() in line)


def test_a_line_without_end_takes_little_memory() -> None:
    search = LineSearch("x")
    found = sum(len(search.found(b"x" * 1000)) for _ in range(10_000))
    assert found >= 9 * LONGEST_LINE_BYTES
    assert len(search.last()) <= LONGEST_LINE_BYTES + 1
