"""A connection goes from one process to another: a real socket, and what else may come."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from gpuq.adapters.handover import Handover, give
from gpuq.errors import Unreachable


async def test_the_connection_works_after_the_giver_has_closed_it(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, Handover(tmp_path, "node2") as handover:
        give(tmp_path, handover.id, "node2", theirs)
        theirs.close()
        taken = await handover.take(5)
        assert taken is not None
        with taken:
            ours.sendall(b"hello")
            assert await asyncio.get_running_loop().sock_recv(taken, 10) == b"hello"
    assert list(tmp_path.iterdir()) == []


async def test_a_host_may_have_no_such_connection(tmp_path: Path) -> None:
    with Handover(tmp_path, "node2") as handover:
        give(tmp_path, handover.id, "node2", None)
        assert await handover.take(5) is None


async def test_the_connection_of_another_host_is_not_taken(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, Handover(tmp_path, "node2") as handover:
        give(tmp_path, handover.id, "node3", theirs)
        theirs.close()
        with pytest.raises(TimeoutError):
            await handover.take(0.2)
        assert ours.recv(1) == b"", "it was closed"


def test_a_replayed_request_meets_nothing_that_waits(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="Nothing waits"):
        give(tmp_path, "0" * 32, "node2", None)


async def test_the_folders_path_may_be_long(tmp_path: Path) -> None:
    run = tmp_path / ("x" * 100)
    run.mkdir()
    with Handover(run, "node2") as handover:
        give(run, handover.id, "node2", None)
        assert await handover.take(5) is None
