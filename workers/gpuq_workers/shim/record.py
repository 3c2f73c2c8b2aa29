"""One JSON file of an attempt's folder, written once: values arrive, a file that is there whole or not at all leaves.

Creating `NAME.new` is the right to write `NAME`: it can succeed only once, so of two processes that want to say how an
attempt ended one comes second, and knows. Standard library only: this is part of the shim.
"""

from __future__ import annotations

import json
import os

_ROOM_BYTES = 4096


class OnceFile:
    """A record whose room on the disk is taken before it is needed, so that a full disk cannot swallow an exit status."""

    def __init__(self, folder: str, name: str) -> None:
        """Raises FileExistsError if somebody else has, or is about to write, this record; OSError if there is no room."""
        self._folder, self._path = folder, f"{folder}/{name}"
        self._file = os.open(self._path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if os.path.exists(self._path):  # noqa: PTH110 - pathlib costs the shim start time and memory
            os.unlink(self._path + ".new")  # noqa: PTH108
            raise FileExistsError(self._path)
        os.write(self._file, b" " * _ROOM_BYTES)

    def publish(self, **values: object) -> None:
        """Write the values over the room kept, to the disk, then give the file its name."""
        os.pwrite(self._file, json.dumps(values).encode().ljust(_ROOM_BYTES), 0)
        os.fsync(self._file)
        os.close(self._file)
        os.rename(self._path + ".new", self._path)  # noqa: PTH104
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        os.close(folder)
