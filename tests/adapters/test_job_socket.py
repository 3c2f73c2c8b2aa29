"""The worker service connects to what a job listens on, and to nothing else that the job may put in its place."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuq.adapters import job_socket
from gpuq.adapters.job_socket import connect


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "attempts" / "7-1"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def listener(folder: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "terminal"))
        made.listen()
        yield made


def test_a_socket_of_the_job_is_connected_to(folder: Path, listener: socket.socket) -> None:
    connection = connect(folder.parent, 7, 1, "terminal")
    assert connection is not None
    with connection, listener.accept()[0] as accepted:
        accepted.sendall(b"x")
        assert connection.recv(1) == b"x"


def test_a_link_to_another_socket_is_not_followed(folder: Path, listener: socket.socket) -> None:
    (folder / "notebook").symlink_to(folder / "terminal")
    assert connect(folder.parent, 7, 1, "notebook") is None
    (folder.parent / "8-1").symlink_to(folder)
    assert connect(folder.parent, 8, 1, "terminal") is None


@pytest.mark.parametrize("kind", ["nothing", "file", "pipe", "folder", "silent"])
def test_what_is_no_listening_socket_is_none(folder: Path, kind: str) -> None:
    path = folder / "terminal"
    match kind:
        case "file":
            path.write_text("")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "silent":
            with socket.socket(socket.AF_UNIX) as ended:
                ended.bind(str(path))
    assert connect(folder.parent, 7, 1, "terminal") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give the folder to another user")
def test_a_socket_that_another_user_listens_on_is_none(folder: Path, listener: socket.socket) -> None:
    os.chown(folder, 54321, 54321)
    assert connect(folder.parent, 7, 1, "terminal") is None


def test_a_job_that_does_not_accept_is_waited_for_two_seconds_at_most(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_socket, "_CONNECTED_WITHIN_S", 0.1)
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(str(folder / "terminal"))
        busy.listen(0)
        first.connect(str(folder / "terminal"))
        assert connect(folder.parent, 7, 1, "terminal") is None
