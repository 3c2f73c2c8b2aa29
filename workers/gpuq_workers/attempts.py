"""An attempt's folder, as docs/architecture.md describes it: reads its JSON files, and writes those that are not the shim's.

The folder's existence is the fence of a start: only one process can make it. A file that is missing, incomplete or unreadable
is read as None. The shim writes its own files (`shim/record.py`), because it must not import gpuq.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from gpuq.adapters.process import Identity
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.job import JobId
from gpuq.home import write_private
from gpuq_workers.shim.record import OnceFile

T = TypeVar("T")


class OrderFile(msgspec.Struct, frozen=True, kw_only=True):
    """`order.json`: what to run and how, and the shim that is to run it. Time in seconds, memory in bytes."""

    job: int
    attempt: int
    command: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    devices: tuple[str, ...]
    cores: tuple[int, ...] | None
    time_limit_s: float | None
    grace_s: float
    log_limit_bytes: int
    shim: Identity
    checkpoint_signal: int = 15
    """The number of the signal that asks it to save its work; `save_grace_s` is the time that it has for that."""
    save_grace_s: float = 0.0
    blink: bool = False
    """Whether the shim may pause it for a moment."""
    stdin: str = "/dev/null"
    """What its standard input is opened from."""


class StartFile(msgspec.Struct, frozen=True):
    """`started.json`: the job's process runs."""

    pid: int
    shim_pid: int
    start_ticks: int
    shim_start_ticks: int
    boot_id: str
    at: float

    @property
    def shim(self) -> Identity:
        """The shim, for as long as this boot lasts."""
        return Identity(self.boot_id, self.shim_pid, self.shim_start_ticks)


class EndFile(msgspec.Struct, frozen=True):
    """`exit.json`: the attempt is over and nothing of it is left. `lasted_s`: since its process started; None if not known."""

    ending: Ending
    exit_code: int | None
    reason: str
    at: float
    lasted_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None


class BlinkAnswer(msgspec.Struct, frozen=True):
    """`blinked.json`: from when to when (CLOCK_MONOTONIC) the job stood still, if it did, and why that is to be ignored."""

    id: int
    began: float | None
    ended: float | None
    why_not: str | None


class Marker(msgspec.Struct, frozen=True):
    """`spooled.json`: the spool numbers under which the start and the end were written down, None while they were not."""

    started: int | None = None
    exited: int | None = None


class AttemptFolder:
    """One attempt's folder."""

    def __init__(self, path: Path, attempt: AttemptId) -> None:
        self.path = path
        self.attempt = attempt

    @property
    def log_path(self) -> Path:
        """Where the output begins."""
        return self.path / "output.log"

    @property
    def stdin_path(self) -> Path:
        """What the job reads on its standard input, where it was submitted with something."""
        return self.path / "stdin"

    def order(self) -> OrderFile | None:
        """What was ordered."""
        return self._read("order.json", OrderFile)

    def started(self) -> StartFile | None:
        """The start, once the process runs."""
        return self._read("started.json", StartFile)

    def ended(self) -> EndFile | None:
        """The end, once there is one."""
        return self._read("exit.json", EndFile)

    def marker(self) -> Marker:
        """The events of it that were spooled already."""
        return self._read("spooled.json", Marker) or Marker()

    def mark(self, marker: Marker) -> None:
        """Remember what was spooled."""
        write_private(self.path / "spooled.json", msgspec.json.encode(marker))

    def write_order(self, order: OrderFile) -> None:
        """Write what to run, for the owner's eyes only: the environment may hold secrets."""
        # Not forced to the disk: after a power cut there is nothing left to start.
        write_private(self.path / "order.json", msgspec.json.encode(order), durable=False)

    def write_stdin(self, text: str) -> None:
        """Write what the job is to read on its standard input. Raises OSError."""
        write_private(self.stdin_path, text.encode(), durable=False)

    def write_stop(self, reason: str, at: float, *, save: bool = False) -> None:
        """Ask the shim to end the attempt, with `save` only after the job had time to save its work. On a full disk the file
        stays empty: that it is there is enough to end it."""
        path = self.path / "stop.json"
        try:
            write_private(path, msgspec.json.encode({"reason": reason, "at": at, "save": save}), durable=False)
        except OSError:
            path.touch(mode=0o600)

    def ask_blink(self, number: int, seconds: float, until: float) -> None:
        """Ask the shim to pause the job, if it comes to it by `until` (CLOCK_MONOTONIC). Raises OSError."""
        asked = {"id": number, "seconds": seconds, "until": until}
        write_private(self.path / "blink.json", msgspec.json.encode(asked), durable=False)

    def blinked(self) -> BlinkAnswer | None:
        """What came of the last blink."""
        return self._read("blinked.json", BlinkAnswer)

    def is_wanted_back(self) -> bool:
        """Whether it is over, or was ordered to stop or to save its work."""
        return any((self.path / name).exists() for name in ("stop.json", "exit.json"))

    def shim(self) -> Identity | None:
        """The shim that runs this attempt, or was given it."""
        started = self.started()
        if started is not None:
            return started.shim
        order = self.order()
        return None if order is None else order.shim

    def close_unstarted(self, reason: str, at: float) -> bool:
        """Say that this attempt never started, if no shim has taken it up; whether we could."""
        try:
            record = OnceFile(str(self.path), "exit.json")
        except FileExistsError:
            return False
        record.publish(ending=Ending.NEVER_STARTED, exit_code=None, reason=reason, at=at)
        return True

    def close_abandoned(self, ending: Ending, reason: str, at: float) -> None:
        """Write the end in place of a shim that is known to be gone."""
        (self.path / "exit.json.new").unlink(missing_ok=True)
        with suppress(FileExistsError):
            OnceFile(str(self.path), "exit.json").publish(ending=ending, exit_code=None, reason=reason, at=at)

    def _read(self, name: str, cls: type[T]) -> T | None:
        try:
            return msgspec.json.decode((self.path / name).read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None


def promised_bytes(order: OrderFile) -> int | None:
    """The memory promised to it on each of its devices, the least of them."""
    try:
        return int(order.env["GPUQ_GPU_MEM_BUDGET"])
    except (KeyError, ValueError):
        return None


def make_folder(path: Path, attempt: AttemptId) -> AttemptFolder | None:
    """Make the folder: the host's own fence. None if it was there, so that only one caller ever gets it."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return None
    return AttemptFolder(path, attempt)


def folders_in(root: Path, without: Container[str] = ()) -> Iterator[AttemptFolder]:
    """Every attempt's folder under `root`, but for the names in `without`; names of other things are passed over."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(root):
            if entry.name in without:
                continue
            job, dash, number = entry.name.partition("-")
            if dash and job.isdecimal() and number.isdecimal():
                yield AttemptFolder(Path(entry.path), AttemptId(JobId(int(job)), int(number)))
