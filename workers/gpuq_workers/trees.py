"""Give jobs that run as their submitters the files of `--sync`, which only the services can read.

The worker service listens at `TREES_SOCKET`, where every user of the host can ask for the tree of an attempt, with a line
`{"job", "attempt"}`. A stream of files answers it, if the kernel says that the owner of the attempt asks, and it has not ended.
"""

from __future__ import annotations

import errno
import logging
import pwd
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.errors import GpuqError
from gpuq.files import BadStream
from gpuq.home import Home
from gpuq.messages.launch import NOT_JSON, TREES_SOCKET
from gpuq_workers.attempts import AttemptFolder, OrderFile
from gpuq_workers.sync import source

# Of one user; the tasks of an array start together.
_AT_ONCE = 16
_counting = threading.Lock()
_ASKS_WITHIN_S = 10.0
_STALLED_S = 120.0
# After an error, such as that this process has no descriptor left.
_AGAIN_AFTER_S = 0.5
_LONGEST_REQUEST = 200
_PEER = struct.Struct("3i")
_Id = Annotated[int, Meta(ge=1, lt=2**53)]
log = logging.getLogger("gpuq.trees")


class _Asked(msgspec.Struct):
    job: _Id
    attempt: _Id


@contextmanager
def serving(home: Home, path: str = TREES_SOCKET) -> Iterator[None]:
    """Serve while the context lasts. Where nothing can listen at `path`, that is logged, and jobs get no files."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            Path(path).unlink(missing_ok=True)
            listener.bind(path)
            Path(path).chmod(0o666)
            listener.listen()
        except OSError as error:
            log.warning(
                "jobs get no files of --sync: %s: %s. Install this release's gpuq-worker.service", path, error.strerror
            )
            yield
            return
        threading.Thread(target=_serve, args=(home, listener), name="trees", daemon=True).start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _serve(home: Home, listener: socket.socket) -> None:
    """Answer until nothing listens any more. No user keeps others waiting: one who asks too often at once is to ask again."""
    busy: Counter[int] = Counter()
    while True:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EBADF):  # it was shut down, or closed before that was seen
                return
            log.warning("nothing is sent for --sync for now: %s", error, extra={"action": "tree"})
            time.sleep(_AGAIN_AFTER_S)
            continue
        _, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        if busy[uid] >= _AT_ONCE:
            connection.close()
            continue
        with _counting:
            busy[uid] += 1
        threading.Thread(target=_answer, args=(home, connection, uid, busy), name="tree", daemon=True).start()


def _answer(home: Home, connection: socket.socket, uid: int, busy: Counter[int]) -> None:
    try:
        with connection:
            for piece in _pieces(home, connection, uid):
                connection.sendall(piece)
    except (OSError, *NOT_JSON, GpuqError, BadStream) as error:
        # The other side sees a stream without its end.
        log.warning("a tree was not sent whole: %s", error, extra={"action": "tree"})
    finally:
        with _counting:
            busy[uid] -= 1


def _pieces(home: Home, connection: socket.socket, uid: int) -> Iterator[bytes]:
    """The stream that a peer with this uid may have.

    Raises what is in NOT_JSON for a request that makes no sense, PermissionError for one that is not the peer's to make, and what
    `source` raises.
    """
    connection.settimeout(_ASKS_WITHIN_S)
    with connection.makefile("rb") as lines:
        asked = msgspec.json.decode(lines.readline(_LONGEST_REQUEST), type=_Asked)
    attempt = AttemptId(JobId(asked.job), asked.attempt)
    folder = AttemptFolder(home.attempt(attempt.job, attempt.number), attempt)
    order = folder.order()
    if order is None or not _may_have(order, uid) or folder.ended() is not None:
        raise PermissionError(f"uid {uid} may not have the files of {attempt}")
    connection.settimeout(_STALLED_S)
    assert order.owner is not None
    assert order.tree is not None
    yield from source(home, attempt, order.owner, order.tree)()


def _may_have(order: OrderFile, uid: int) -> bool:
    """Whether it was submitted with files by the user of this number."""
    if order.tree is None or order.owner is None:
        return False
    try:
        return pwd.getpwnam(order.owner).pw_uid == uid
    except KeyError:
        return False
