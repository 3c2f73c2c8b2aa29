"""What users sent: contents under the hash that they have, trees of their own only, and nothing removed that a job needs."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import pytest

from gpuq.adapters import synced
from gpuq.adapters.synced import KEEP_S, SyncedTrees
from gpuq.errors import Conflict, NotPermitted
from gpuq.files import BadStream, ListedFile, SentFile, header, last_line, pieces_of, receive
from gpuq.home import Home

NOW = 2_000_000_000.0
DAY = 86_400.0
BLOCK = 4096
ROOM = 10 * BLOCK


def listed(name: str, content: bytes, *, executable: bool = False) -> ListedFile:
    return ListedFile(name, len(content), hashlib.sha256(content).hexdigest(), executable)


def send(trees: SyncedTrees, *contents: bytes) -> None:
    receiver = trees.receiver()
    for content in contents:
        for piece in pieces_of(SentFile("any", len(content)), io.BytesIO(content)):
            receiver.feed(piece)
    receiver.feed(last_line(len(contents)))
    receiver.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def ann(home: Home) -> SyncedTrees:
    return SyncedTrees(home, "ann", ROOM)


def age(home: Home, seconds: float) -> None:
    for path in home.synced.rglob("*"):
        os.utime(path, (NOW - seconds, NOW - seconds))


def test_only_what_is_missing_is_asked_for_and_the_tree_comes_back_whole(ann: SyncedTrees, tmp_path: Path) -> None:
    files = [listed("a", b"one"), listed("b/c", b"two", executable=True), listed("d", b"one")]
    tree, missing = ann.keep(files)
    assert missing == [files[0].sha256, files[1].sha256]
    send(ann, b"one")
    assert ann.keep(files) == (tree, [files[1].sha256]), "a transfer that broke off goes on"
    send(ann, b"two")
    assert ann.keep(files) == (tree, [])
    (tmp_path / "there").mkdir()
    receive(tmp_path / "there", ann.pieces(tree))
    assert (tmp_path / "there/d").read_bytes() == b"one"
    assert os.access(tmp_path / "there/b/c", os.X_OK)
    assert ann.keep([*files, listed("e", b"three")])[1] == [listed("e", b"three").sha256]


def test_a_content_has_the_name_of_its_own_hash_whatever_was_announced(ann: SyncedTrees) -> None:
    send(ann, b"forged")
    assert ann.keep([listed("a", b"real")])[1] == [listed("a", b"real").sha256]


def test_no_user_has_what_another_has(home: Home, ann: SyncedTrees) -> None:
    files = [listed("a", b"secret")]
    send(ann, b"secret")
    tree, _ = ann.keep(files)
    for other in ("bob", "ann/", "../ann"):
        his = SyncedTrees(home, other, ROOM)
        assert his.keep(files)[1], "he has to send it himself"
        with pytest.raises(Conflict, match="are not here"):
            his.use(tree)
        with pytest.raises(Conflict):
            list(his.pieces(tree))
    assert all(path.stat().st_mode & 0o77 == 0 for path in home.synced.rglob("*"))


def test_a_content_that_broke_off_leaves_nothing(home: Home, ann: SyncedTrees) -> None:
    receiver = ann.receiver()
    receiver.feed(next(pieces_of(SentFile("a", 10), io.BytesIO(b"0123456789"))) + b"01234")
    with pytest.raises(BadStream):
        receiver.close()
    assert not [path for path in home.synced.rglob("*") if path.is_file() and path.name != "lock"]


def test_more_than_a_user_may_have_is_refused_by_its_announced_size(ann: SyncedTrees) -> None:
    send(ann, b"x" * 6 * BLOCK)
    with pytest.raises(NotPermitted, match="would take more"):
        send(ann, b"y" * 5 * BLOCK)
    assert ann.used_bytes() == 6 * BLOCK
    with pytest.raises(NotPermitted, match="would take more"):
        ann.keep([listed("a", b"y" * 5 * BLOCK)])
    assert ann.keep([listed("a", b"y" * 3 * BLOCK)])[1], "its list takes the fourth block"


def test_uploads_at_the_same_time_share_what_the_user_may_have(home: Home, ann: SyncedTrees) -> None:
    begun = ann.receiver(), SyncedTrees(home, "ann", ROOM).receiver()
    begun[0].feed(header(SentFile("a", 6 * BLOCK)) + b"x")
    with pytest.raises(NotPermitted, match="would take more"):
        begun[1].feed(header(SentFile("b", 6 * BLOCK)) + b"y")
    with pytest.raises(NotPermitted, match="would take more"):
        ann.receiver().feed(header(SentFile("b", 6 * BLOCK)) + b"y")
    begun[0].abort()
    send(ann, b"y" * 6 * BLOCK)


def test_lists_of_files_and_many_small_contents_take_room_too(ann: SyncedTrees) -> None:
    send(ann, b"")
    for number in range(10):
        ann.keep([listed(f"{number}", b"")])
    with pytest.raises(NotPermitted, match="would take more"):
        ann.keep([listed("one more", b"")])
    assert ann.used_bytes() == ROOM
    with pytest.raises(NotPermitted, match="would take more"):
        send(ann, b"1")


def test_a_stream_has_no_more_files_than_a_tree(ann: SyncedTrees, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synced, "MOST_FILES", 3)
    with pytest.raises(BadStream, match="more than 3 files"):
        send(ann, *[b""] * 4)


def test_a_content_that_is_there_is_not_written_to_the_disk_again(
    ann: SyncedTrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    monkeypatch.setattr(os, "fsync", written.append)
    for _ in range(3):
        send(ann, b"the same", b"the same")
    assert len(written) == 1
    assert ann.keep([listed("a", b"the same")])[1] == []


def test_trees_that_no_job_needs_go_after_a_while_and_contents_with_the_last_of_them(
    home: Home, ann: SyncedTrees
) -> None:
    send(ann, b"shared", b"old", b"new", b"needed")
    old, _ = ann.keep([listed("a", b"shared"), listed("b", b"old")])
    needed, _ = ann.keep([listed("a", b"needed")])
    age(home, KEEP_S + DAY)
    recent, _ = ann.keep([listed("a", b"shared"), listed("b", b"new")])
    for sha256 in (listed("", b"shared").sha256, listed("", b"new").sha256):
        os.utime(ann._blob(sha256), (NOW - DAY, NOW - DAY))
    os.utime(ann._trees / recent, (NOW - DAY, NOW - DAY))
    assert ann.has_old(NOW)
    ann.remove_unused({needed}, NOW)
    assert ann.used_bytes() == 5 * BLOCK, "three contents and two trees"
    for tree in (needed, recent):
        ann.use(tree)
    with pytest.raises(Conflict):
        ann.use(old)


def test_where_room_is_needed_all_goes_that_is_neither_needed_nor_just_sent(home: Home, ann: SyncedTrees) -> None:
    send(ann, b"yesterday")
    ann.keep([listed("a", b"yesterday")])
    age(home, DAY)
    send(ann, b"a moment ago")
    os.utime(ann._blob(listed("", b"a moment ago").sha256), (NOW, NOW))
    ann.remove_unused((), NOW, 0.0)
    assert ann.used_bytes() == BLOCK
    assert ann.keep([listed("a", b"a moment ago")])[1] == []
