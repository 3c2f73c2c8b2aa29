"""A JSON file of an attempt's folder that is written once, atomically.

Creating `NAME.new` gives the right to write `NAME` and can succeed only once. So of two processes that want to record how an
attempt ended, the second learns that it is second. Standard library only, as all of the shim.
"""

from __future__ import annotations

import json
import os

_ROOM_BYTES = 4096


class OnceFile:
    """A file whose space on disk is allocated early, so that a full disk cannot lose an exit status."""

    def __init__(self, folder: str, name: str) -> None:
        """Raises FileExistsError if another process has written or will write this file, OSError if there is no space."""
        self._folder, self._path = folder, f"{folder}/{name}"
        self._file = os.open(self._path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if os.path.exists(self._path):  # noqa: PTH110 - pathlib costs the shim start time and memory
            os.unlink(self._path + ".new")  # noqa: PTH108
            raise FileExistsError(self._path)
        os.write(self._file, b" " * _ROOM_BYTES)

    def publish(self, **values: object) -> None:
        """Write the values into the allocated space, sync them, then rename the file to its name. Raises OSError."""
        os.pwrite(self._file, json.dumps(values).encode().ljust(_ROOM_BYTES), 0)
        os.fsync(self._file)
        os.close(self._file)
        os.rename(self._path + ".new", self._path)  # noqa: PTH104
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        os.close(folder)
