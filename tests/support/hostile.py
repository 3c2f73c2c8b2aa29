"""What a job may put in place of the files of its attempt's folder."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

FILES = (
    "order.json",
    "started.json",
    "exit.json",
    "exit.json.new",
    "stop.json",
    "spooled.json",
    "spooled.json.tmp",
    "measure.json",
    "stop.json.tmp",
    "blink.json",
    "blinked.json",
    "progress",
    "xid",
    "output.log",
    "stdin",
)


def _full_folder(path: Path) -> None:
    path.mkdir()
    for number in range(100):
        (path / str(number)).touch()


def _link_to_pipe(path: Path) -> None:
    pipe = path.with_name(f"{path.name}.pipe")
    os.mkfifo(pipe)
    path.symlink_to(pipe)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 2**30)


def _closed(path: Path) -> None:
    path.write_text("{}")
    path.chmod(0)


def _holding(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


_NO_NUMBERS = {
    "ending": "exited",
    "exit_code": 10**30,
    "reason": "\0",
    "at": 1e308,
    "pid": -1,
    "shim_pid": 2**40,
    "start_ticks": 10**40,
    "shim_start_ticks": 0,
    "boot_id": "",
    "started": -5,
    "exited": -5,
}

SHAPES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "an empty folder": Path.mkdir,
    "a full folder": _full_folder,
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to another's file": lambda path: path.symlink_to("/etc/shadow"),
    "a link to a pipe": _link_to_pipe,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nowhere": lambda path: path.symlink_to(path.with_name(f"{path.name}.followed")),
    "a link to a folder": lambda path: path.symlink_to("/"),
    "10 GiB of nothing": _sparse,
    "an empty file": Path.touch,
    "half a document": _holding(b'{"ending": "exit'),
    "deep nesting": _holding(b'{"reason": ' + b"[" * 60_000),
    "a list": _holding(b"[1, 2, 3]"),
    "values of other types": _holding(
        b'{"ending": 7, "pid": "x", "command": {}, "version": "new", "id": [], "exited": {}}'
    ),
    "numbers beyond all bounds": _holding(json.dumps(_NO_NUMBERS).encode()),
    "bytes that are no text": _holding(b"\xff\xfe\x00" * 100),
    "a file of mode 000": _closed,
    "a newer version": _holding(b'{"version": 99}'),
}


def put(shape: str, path: Path) -> None:
    """Replace what has this name by the shape, as a job would."""
    path.unlink(missing_ok=True)
    SHAPES[shape](path)
