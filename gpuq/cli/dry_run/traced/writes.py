"""What a script writes where a dry run may not: it goes to the temporary folder of the dry run, and is read again from there.

Most scripts make a folder for their results and note their options in it before they train.
"""

# ruff: noqa: PTH100, PTH110, PTH118
from __future__ import annotations

import builtins
import errno
import io
import os
from typing import Any

# What Landlock answers, a file system that is mounted read-only, and a folder that could not be made before.
_CANNOT = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT})


def redirect(folder: str) -> None:
    """From now on, let `open` and `mkdir` of this process do so with what cannot be written where the script wants it."""
    opened, made = io.open, os.mkdir
    moved: dict[str, str] = {}

    def open_(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        path = os.path.abspath(os.fsdecode(file)) if isinstance(file, (str, bytes, os.PathLike)) else None
        if path in moved:
            return opened(moved[path], mode, *args, **options)
        try:
            return opened(file, mode, *args, **options)
        except OSError as error:
            if error.errno not in _CANNOT or path is None or not set(mode) & set("wax"):
                raise
        moved[path] = os.path.join(folder, f"written-{len(moved)}")
        return opened(moved[path], mode, *args, **options)

    def mkdir(path: Any, *args: Any, **options: Any) -> None:
        try:
            made(path, *args, **options)
        except OSError as error:
            # The folder above it may be one that is not there either.
            if error.errno not in _CANNOT or os.path.exists(path):
                raise

    # What is imported later, and `Path`, take them from these modules.
    builtins.open = io.open = open_
    os.mkdir = mkdir
