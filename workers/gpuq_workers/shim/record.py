"""Files of an attempt's folder as the shim reads and writes them, although the job may put anything there.

Nothing here follows a link or waits for the other end of a pipe. Creating `NAME.new` gives the right to write `NAME` and can
succeed only once. So of two processes that want to record how an attempt ended, the second learns that it is second. Standard
library only, as all of the shim; `gpuq.home` does the same for the rest of gpuq.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from contextlib import suppress
from typing import Any

VERSION = 1
"""The version of an attempt's files. It rises when an older gpuq can no longer read them; a file without one has version 1."""
LARGEST_FILE_BYTES = 64 * 1024
LARGEST_ORDER_BYTES = 16 * 2**20
"""For `order.json`: arguments and environment, which execve limits to 6 MiB, with escapes."""
_ROOM_BYTES = 4096
# Less the umask, which is that of the services: nothing for others. In a unit the services read them, where no other user can go.
_MODE = 0o644


def open_regular(path: str, flags: int) -> int:
    """A descriptor of a regular file. Raises ValueError if anything else has this name, OSError if it cannot be opened."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, _MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a socket or a pipe, a folder
            raise ValueError(f"{path} is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is not a regular file")
    return descriptor


def read_json(path: str, most_bytes: int = LARGEST_FILE_BYTES) -> Any:
    """The JSON in a regular file of at most `most_bytes`. Raises OSError if it is missing or cannot be opened, ValueError or
    RecursionError if it is no such file."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise ValueError(f"{path} has more than {most_bytes} bytes")
        return json.loads(file.read(size))


def write_json(path: str, values: object) -> None:
    """Write a JSON file atomically. Raises OSError."""
    new = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(new)  # noqa: PTH108 - pathlib costs the shim start time and memory
    with os.fdopen(_create(new), "w", encoding="utf-8") as file:
        json.dump(values, file)
    replace(new, path)


def storable(text: str) -> str:
    """The text as the record can hold it: at most 600 characters, and neither a NUL nor half a character, which a path or what a
    job has written may have."""
    return text[:600].encode(errors="replace").decode().replace("\0", "?")


def replace(new: str, path: str) -> None:
    """Rename `new` to `path`. A folder that has this name, which a job may have filled, is renamed before. Raises OSError."""
    try:
        os.rename(new, path)  # noqa: PTH104
    except IsADirectoryError:
        os.rename(path, f"{path}.{time.time_ns()}.aside")  # noqa: PTH104
        os.rename(new, path)  # noqa: PTH104


def anchored(folder: str) -> str:
    """The folder by a path that holds although one above it is renamed, or replaced by another; for this process only."""
    above, name = os.path.split(folder)
    return f"/proc/self/fd/{os.open(above, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)}/{name}"


def make_again(folder: str) -> None:
    """Make the folder if it was removed. Raises OSError."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)  # noqa: PTH102


def can_be_made_again(folder: str) -> bool:
    """Whether the folder above it, which `anchored` keeps open, still exists somewhere."""
    with suppress(OSError):
        return os.stat(os.path.dirname(folder)).st_nlink > 0  # noqa: PTH116, PTH120
    return False


class OnceFile:
    """A file whose space on disk is allocated early, so that a full disk cannot lose an exit status."""

    def __init__(self, folder: str, name: str) -> None:
        """Raises FileExistsError if another process has written or will write this file, OSError if there is no space."""
        self.folder, self._path = folder, f"{folder}/{name}"
        self._new = self._path + ".new"
        self._file = _create(self._new)
        if os.path.lexists(self._path):
            os.unlink(self._new)  # noqa: PTH108
            os.close(self._file)
            raise FileExistsError(self._path)
        os.write(self._file, b" " * _ROOM_BYTES)

    def publish(self, **values: object) -> None:
        """Write the values into the allocated space, sync them, then rename the file to its name. Raises OSError; then it may be
        called again."""
        if not self.is_in_place():
            # The job has removed or replaced the file, or its folder.
            make_again(self.folder)
            new = f"{self._path}.{time.time_ns()}.new"
            file = _create(new)
            os.close(self._file)
            self._new, self._file = new, file
        os.pwrite(self._file, json.dumps({"version": VERSION, **values}).encode().ljust(_ROOM_BYTES), 0)
        os.fsync(self._file)
        replace(self._new, self._path)
        os.close(self._file)
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        os.close(folder)

    def is_in_place(self) -> bool:
        """Whether the allocated space still has its name in the folder."""
        with suppress(OSError):
            return os.path.samestat(os.lstat(self._new), os.fstat(self._file))
        return False


def _create(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
