"""Lock files that the kernel releases when their holder ends, even if it is killed."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gpuq.errors import Conflict

# A command that checks whether the lock is held (gpuq/cli/client.py) holds it for a moment itself.
_PROBED_FOR_S = 0.2


def take_lock(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed; None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def only_one(path: Path, what: str, stop_it: str = "Stop that one first") -> Iterator[Callable[[], bool]]:
    """Hold the lock while the block runs. Raises Conflict, with `stop_it` in its fix, if another process holds it.

    The value says whether the lock's file is still there: once it was removed, another process can take the lock as well.
    """
    deadline = time.monotonic() + _PROBED_FOR_S
    while (descriptor := take_lock(path)) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if descriptor is None:
        raise Conflict(f"{what} already runs in {path.parent.parent}.", fix=f"{stop_it}, or set another GPUQ_HOME.")
    try:
        yield partial(is_at, path, os.fstat(descriptor))
    finally:
        os.close(descriptor)


def is_at(path: Path, file: os.stat_result) -> bool:
    """Whether this file, which was opened there, is still there: not moved, removed or replaced."""
    try:
        return os.path.samestat(file, path.stat())
    except OSError:
        return False
