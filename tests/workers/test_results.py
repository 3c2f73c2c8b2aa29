"""What a job made or changed, from a folder in which it may put anything."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from gpuq_workers import results
from gpuq_workers.sync import FOLDER, LISTING

from gpuq.files import BadStream, receive


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    """An attempt that was sent two files, and has changed one of them and made others."""
    attempt = tmp_path / "7-1"
    files = attempt / FOLDER
    (files / "out").mkdir(parents=True)
    sent = {"train.py": b"one\n", "src/model.py": b"two\n"}
    for name, content in sent.items():
        (files / name).parent.mkdir(exist_ok=True)
        (files / name).write_bytes(content)
    listing = {name: [len(content), hashlib.sha256(content).hexdigest()] for name, content in sent.items()}
    (attempt / LISTING).write_text(json.dumps(listing))
    (files / "src/model.py").write_bytes(b"TWO\n")
    (files / "out/loss.csv").write_bytes(b"1\n")
    (files / "out/best.pt").write_bytes(b"\0" * 600_000)
    (files / "out/best.pt").chmod(0o755)
    (files / "src/__pycache__").mkdir()
    (files / "src/__pycache__/model.pyc").write_bytes(b"compiled")
    return attempt


def fetched(attempt: Path, to: Path, *patterns: str) -> tuple[list[str], tuple[str, ...]]:
    to.mkdir()
    files, left_out = receive(to, results.changed_files(attempt, patterns))
    return [file.name for file in files], left_out


def test_what_was_made_and_what_has_another_content_is_sent(attempt: Path, tmp_path: Path) -> None:
    assert fetched(attempt, tmp_path / "to") == (["out/best.pt", "out/loss.csv", "src/model.py"], ())
    assert (tmp_path / "to/src/model.py").read_bytes() == b"TWO\n"
    assert (tmp_path / "to/out/best.pt").stat().st_size == 600_000
    assert os.access(tmp_path / "to/out/best.pt", os.X_OK)


def test_only_what_matches_is_sent(attempt: Path, tmp_path: Path) -> None:
    assert fetched(attempt, tmp_path / "a", "*.csv", "src")[0] == ["out/loss.csv", "src/model.py"]
    assert fetched(attempt, tmp_path / "b", "train.py") == ([], ()), "it is as it was sent"


def test_what_is_no_plain_file_of_one_name_is_left_out_and_named(attempt: Path, tmp_path: Path) -> None:
    files = attempt / FOLDER
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("s3cret")
    (files / "link").symlink_to(secret / "key")
    (files / "folder").symlink_to(secret)
    os.link(secret / "key", files / "hard")
    os.mkfifo(files / "pipe")
    (files / ".git").mkdir()
    (files / ".git/config").write_text("[core] fsmonitor = evil")
    (files / "new\nline").write_text("")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(files / "socket"))
    names, left_out = fetched(attempt, tmp_path / "to")
    listener.close()
    assert names == ["out/best.pt", "out/loss.csv", "src/model.py"]
    assert sorted(left_out) == [".git/config", "folder", "hard", "link", "new\nline", "pipe", "socket"]
    assert "s3cret" not in "".join(path.read_text() for path in (tmp_path / "to").rglob("*.csv"))


@pytest.mark.parametrize("listing", ["", "[]", '{"a": 1}', "[" * 5000])
def test_a_listing_that_the_job_broke_sends_all(attempt: Path, tmp_path: Path, listing: str) -> None:
    (attempt / LISTING).write_text(listing)
    assert "train.py" in fetched(attempt, tmp_path / "to")[0]


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(attempt: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/key").write_text("s3cret")
    pieces = results.changed_files(attempt, [])
    first = next(pieces)
    (attempt / FOLDER / "src").rename(tmp_path / "moved")
    (attempt / FOLDER / "src").symlink_to(tmp_path / "elsewhere")
    assert b"s3cret" not in first + b"".join(pieces)


def test_a_request_is_answered_and_one_that_makes_no_sense_ends_the_connection(attempt: Path, tmp_path: Path) -> None:
    for asked, names in ((b'{"match": ["*.csv"]}\n', ["out/loss.csv"]), (b"nonsense\n", None), (b"[1]\n", None)):
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=results.serve, args=(ours, attempt))
        thread.start()
        with theirs:
            theirs.sendall(asked)
            raw = theirs.makefile("rb").read()
        thread.join(60)
        to = tmp_path / str(len(raw))
        to.mkdir(exist_ok=True)
        if names is None:
            with pytest.raises(BadStream, match="broke off"):
                receive(to, [raw])
        else:
            assert [file.name for file in receive(to, [raw])[0]] == names


def test_what_is_removed_while_it_is_listed_is_left_out(
    attempt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.stat

    def stat(name: object, **options: object) -> os.stat_result:
        if name == "src":
            shutil.rmtree(attempt / FOLDER / "src", ignore_errors=True)
        return real(name, **options)  # type: ignore[arg-type,call-overload]

    monkeypatch.setattr(os, "stat", stat)
    assert fetched(attempt, tmp_path / "to")[0] == ["out/best.pt", "out/loss.csv"]


def test_folders_in_each_other_keep_one_file_open(attempt: Path, tmp_path: Path) -> None:
    """Else a job could take all descriptors of the service that serves its host, while a client reads slowly."""
    here = Path.cwd()
    try:
        os.chdir(attempt / FOLDER)
        for depth in range(1200):
            Path("a").mkdir()
            os.chdir("a")
            if depth == 400:
                Path("x").write_text("1")
    finally:
        os.chdir(here)
    before, most, stream = _open_files(), 0, bytearray()
    for piece in results.changed_files(attempt, ["a"]):
        stream += piece
        most = max(most, _open_files() - before)
    assert most <= 4
    (tmp_path / "to").mkdir()
    files, left_out = receive(tmp_path / "to", [bytes(stream)])
    assert [file.name for file in files] == ["a/" * 401 + "x"]
    assert left_out == ("/".join("a" * 513),)
    subprocess.run(["rm", "-rf", str(attempt)], check=True)  # deeper than Python removes


def test_without_the_folder_of_its_files_nothing_is_sent(attempt: Path) -> None:
    shutil.rmtree(attempt / FOLDER)
    with pytest.raises(FileNotFoundError):
        list(results.changed_files(attempt, []))


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
