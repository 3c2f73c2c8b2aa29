"""Files as one stream: what is sent arrives, and what is hostile or broken is refused before it is written anywhere."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.files import (
    BadStream,
    ListedFile,
    Receiver,
    SentFile,
    header,
    is_name,
    last_line,
    matches,
    pieces_of,
    receive,
    tree_id,
)

part = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=8)
parts = part.filter(lambda text: text not in {".", ".."} and text.lower() != ".git")
names = st.lists(parts, min_size=1, max_size=4).map("/".join)


def stream(*files: tuple[str, bytes]) -> bytes:
    pieces = (pieces_of(SentFile(name, len(content)), io.BytesIO(content)) for name, content in files)
    return b"".join(piece for one in pieces for piece in one) + last_line(len(files))


def in_steps(raw: bytes, step: int) -> Iterator[bytes]:
    return (raw[at : at + step] for at in range(0, len(raw), step))


@given(st.dictionaries(names, st.binary(max_size=300), max_size=6), st.integers(1, 400))
def test_a_stream_in_pieces_of_any_size_gives_the_same_contents(files: dict[str, bytes], step: int) -> None:
    found: dict[str, io.BytesIO] = {}

    class Kept(io.BytesIO):
        def close(self) -> None:
            self.is_closed = True

    def begin(file: SentFile) -> Kept:
        found[file.name] = Kept()
        return found[file.name]

    receiver = Receiver(begin)
    for piece in in_steps(stream(*files.items()), step):
        receiver.feed(piece)
    receiver.close()
    assert {name: kept.getvalue() for name, kept in found.items()} == files
    assert all(kept.is_closed for kept in found.values())


def test_a_stream_of_many_empty_files_is_read_in_time_proportional_to_its_length() -> None:
    raw = header(SentFile("e", 0)) * 20_000
    receiver = Receiver(lambda _: io.BytesIO())
    began = time.process_time()
    receiver.feed(raw)
    assert time.process_time() - began < 1.0
    assert receiver.count == 20_000


@given(st.integers(0, 200))
def test_a_stream_that_broke_off_anywhere_is_refused(cut: int) -> None:
    raw = stream(("a", b"one\n"), ("b/c", b"\x00" * 40))
    receiver = Receiver(lambda _: io.BytesIO())
    receiver.feed(raw[: min(cut, len(raw) - 1)])
    with pytest.raises(BadStream, match="broke off"):
        receiver.close()


@given(names)
def test_a_relative_name_is_one(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "/etc/passwd", "../up", "a/../../up", "a/..", "a//b", "a/", "./a", "a/./b", "a\nb", "a\0", "\x1b[2J"),
        *(".git", ".git/hooks/pre-commit", "a/.git/config", ".GIT/config", "x" * 1025, "a\udc80", "a\n"),
    ],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    assert not is_name(name)
    line = json.dumps({"name": name, "size": 1, "executable": False}).encode()
    with pytest.raises(BadStream, match="leads elsewhere"):
        receive(tmp_path, [line + b"\nx" + last_line(1)])
    assert not list(tmp_path.iterdir())


def test_names_like_those_of_git_are_allowed() -> None:
    assert all(map(is_name, [".gitignore", ".github/ci.yml", "a.git", "...", "..a", "a/..b", ".gitmodules", "a\\b"]))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"no json\n", "neither begins a file"),
        (b'{"name": "a", "size": -1, "executable": false}\n', "neither begins a file"),
        (b'{"name": "a", "size": 1}\nx', "neither begins a file"),
        (
            b'{"name": "a", "size": 1, "executable": false, "link": "/etc"}\nx{"end": 2, "left_out": []}\n',
            "neither begins a file",
        ),
        (b"[" * 10_000 + b"\n", "neither begins a file"),
        (b"x" * 2_000_000, "neither begins a file"),
        (stream(("a", b"1")) + b"more\n", "neither begins a file"),
        (stream(("a", b"1"), ("a", b"2")), "twice"),
        (stream(("a", b"1"), ("a/b", b"2")), "as a file and as a folder"),
        (stream(("a/b", b"1"), ("a", b"2")), "twice"),
    ],
)
def test_what_no_honest_sender_sends_is_refused(raw: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(BadStream, match=why):
        receive(tmp_path, [raw])


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "file").symlink_to(tmp_path / "outside" / "new")
    for name in ("out/a", "file"):
        with pytest.raises(BadStream):
            receive(tmp_path / "in", [stream((name, b"x"))])
    assert not list((tmp_path / "outside").iterdir())


def test_files_are_made_with_their_folders_and_the_umask(tmp_path: Path) -> None:
    raw = (
        header(SentFile("bin/run", 2, executable=True)) + b"hi" + header(SentFile("empty", 0)) + last_line(2, ["link"])
    )
    before = os.umask(0o027)
    try:
        files, left_out = receive(tmp_path, [raw])
    finally:
        os.umask(before)
    assert ([file.name for file in files], left_out) == (["bin/run", "empty"], ("link",))
    assert (tmp_path / "bin/run").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o640


def test_a_file_that_became_shorter_is_not_passed_off_as_whole() -> None:
    with pytest.raises(BadStream, match="became shorter"):
        list(pieces_of(SentFile("a", 5), io.BytesIO(b"123")))


def test_the_id_of_a_tree_depends_on_all_of_it_and_not_on_the_order() -> None:
    one, other = ListedFile("a", 1, "0" * 64), ListedFile("b", 2, "1" * 64)
    ids = {
        tree_id(files)
        for files in (
            [one, other],
            [one],
            [one, ListedFile("b", 2, "1" * 64, executable=True)],
            [one, ListedFile("c", 2, "1" * 64)],
        )
    }
    assert len(ids) == 4
    assert tree_id([other, one]) == tree_id([one, other])


def test_patterns_are_names_folders_and_globs() -> None:
    assert matches("out/a.csv", [])
    assert all(
        matches("out/deep/a.csv", [one]) for one in ("out", "out/", "./out", "*.csv", "out/*.csv", "out/deep/a.csv")
    )
    assert not any(matches("out/a.csv", [one]) for one in ("ou", "a.csv", "*.pt", "out/a"))
