"""One at a time: a lock file that the kernel frees when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuq.errors import Conflict

# A command that looks whether the lock is held (gpuq/cli/client.py) holds it itself for a moment.
_LOOKED_AT_S = 0.2


def take_lock(path: Path) -> int | None:
    """The descriptor that holds the lock until it is closed; None when somebody else holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def only_one(path: Path, what: str, stop_it: str = "Stop that one first") -> Iterator[None]:
    """Hold the lock for as long as the block runs. Raises Conflict, with `stop_it` as its fix, when another process holds it."""
    deadline = time.monotonic() + _LOOKED_AT_S
    while (descriptor := take_lock(path)) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if descriptor is None:
        raise Conflict(f"{what} already runs in {path.parent.parent}.", fix=f"{stop_it}, or set another GPUQ_HOME.")
    try:
        yield
    finally:
        os.close(descriptor)
