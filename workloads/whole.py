"""Write files atomically: into a temporary file beside the target, which replaces it once everything is on the disk.

A job that is killed while it writes leaves a hidden `.part` file, which nothing reads. Two jobs that write the same file do
not disturb each other, because each has a temporary file of its own.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole(file: Path, synced: bool = True) -> Iterator[BinaryIO]:
    """A stream to write; what was at `file` before stays if that fails. Raises OSError where it cannot be written.

    `synced`: whole also after the machine loses its power. That takes milliseconds a file, too long for thousands of them.
    """
    part = file.with_name(f".{file.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as stream:
            yield stream
            if synced:
                stream.flush()
                os.fsync(stream.fileno())
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
