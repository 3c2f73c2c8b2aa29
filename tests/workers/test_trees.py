"""The files of jobs that run as their submitters: who gets them from the worker service, and what becomes of them in the unit."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pwd
import socket
from pathlib import Path

import msgspec
import pytest
from gpuq_workers import trees
from gpuq_workers.attempts import AttemptFolder, OrderFile, Unit

from gpuq.adapters.synced import SyncedTrees
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.files import ListedFile, SentFile, last_line, pieces_of, receive
from gpuq.home import Home
from gpuq.messages.launch import unit_name
from tests.support.site import wait_for

ME = pwd.getpwuid(os.getuid()).pw_name
OTHER = next(one.pw_name for one in pwd.getpwall() if one.pw_uid != os.getuid())
TEXT = b"#!/bin/sh\npwd\n"
FILE = ListedFile("bin/run", len(TEXT), hashlib.sha256(TEXT).hexdigest(), executable=True)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "h")


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "trees.sock")


def sent_by(home: Home, owner: str) -> str:
    """The id of a tree that this user has sent."""
    home.root.mkdir(exist_ok=True)
    kept = SyncedTrees(home, owner, 10_000)
    receiver = kept.receiver()
    for piece in (*pieces_of(SentFile("any", len(TEXT)), io.BytesIO(TEXT)), last_line(1)):
        receiver.feed(piece)
    receiver.close()
    return kept.keep([FILE])[0]


def submit(home: Home, job: int, owner: str, tree: str | None) -> AttemptFolder:
    """The services' folder of the first attempt of a job."""
    attempt = AttemptId(JobId(job), 1)
    home.attempt(job, 1).mkdir(parents=True)
    folder = AttemptFolder(home.attempt(job, 1), attempt)
    limits = {"time_limit_s": None, "grace_s": 1.0, "log_limit_bytes": 1, "devices": (), "cores": None}
    unit = Unit(unit_name(job, 1), 1.0, 1.0)
    order = OrderFile(job=job, attempt=1, command=("x",), cwd="/", env={}, unit=unit, **limits)  # type: ignore[arg-type]
    folder.write_order(msgspec.structs.replace(order, owner=owner, tree=tree))
    return folder


def answer(place: str, request: object) -> bytes:
    """All that the worker service sends."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(place)
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except (BrokenPipeError, ConnectionResetError):
            return b""


def test_who_submitted_a_job_gets_its_files_until_it_ends(home: Home, place: str, tmp_path: Path) -> None:
    folder = submit(home, 7, ME, sent_by(home, ME))
    with trees.serving(home, place):
        (tmp_path / "to").mkdir()
        files, _ = receive(tmp_path / "to", iter([answer(place, {"job": 7, "attempt": 1})]))
        assert ([file.name for file in files], (tmp_path / "to/bin/run").read_bytes()) == (["bin/run"], TEXT)
        folder.close_unstarted("it is over", 1.0)
        assert answer(place, {"job": 7, "attempt": 1}) == b""


@pytest.mark.parametrize(
    "request_",
    [
        {"job": 8, "attempt": 1},
        {"job": 9, "attempt": 1},
        {"job": 7, "attempt": 2},
        {"job": "../7", "attempt": 1},
        {"job": float("inf"), "attempt": 1},
        [],
        {"job": 7},
        "x" * 300,
    ],
    ids=lambda one: str(one)[:20],
)
def test_no_user_gets_the_files_of_others_or_of_what_is_no_such_attempt(
    home: Home, place: str, request_: object
) -> None:
    submit(home, 7, ME, sent_by(home, ME))
    submit(home, 8, OTHER, sent_by(home, OTHER))
    submit(home, 9, ME, None)
    with trees.serving(home, place):
        assert answer(place, request_) == b""
        assert answer(place, {"job": 7, "attempt": 1}), "it goes on serving"


def test_a_user_who_asks_too_often_at_once_is_to_ask_again(home: Home, place: str) -> None:
    submit(home, 7, ME, sent_by(home, ME))
    with trees.serving(home, place):
        idle = [socket.socket(socket.AF_UNIX) for _ in range(16)]
        for connection in idle:
            connection.connect(place)
        assert answer(place, {"job": 7, "attempt": 1}) == b""
        for connection in idle:
            connection.close()
        wait_for(lambda: answer(place, {"job": 7, "attempt": 1}), 20)


def test_where_it_cannot_listen_the_service_goes_on_and_says_so(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with trees.serving(home, str(tmp_path / "none/trees.sock")):
        assert "jobs get no files of --sync" in caplog.text


def test_a_lack_of_descriptors_does_not_end_the_service(
    home: Home, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = socket.socket.accept, iter([OSError(errno.EMFILE, "Too many open files")])

    def accept(self: socket.socket) -> tuple[socket.socket, object]:
        for failure in failures:
            raise failure
        return real(self)

    monkeypatch.setattr(trees, "_AGAIN_AFTER_S", 0.0)
    monkeypatch.setattr(socket.socket, "accept", accept)
    with trees.serving(home, place):
        submit(home, 7, ME, sent_by(home, ME))
        assert TEXT in answer(place, {"job": 7, "attempt": 1})
