"""An attempt's folder, as docs/architecture.md describes it: reads its JSON files, and writes those that are not the shim's.

The folder's existence is the fence of a start: only one process can make it. That process keeps it locked until it has written
an order or an end there, and one that takes it for abandoned locks it too, so neither comes between the steps of the other. The
lock ends with its process. The job may write into the folder, so every file is read with `gpuq.home.read_regular` and every value
is checked. A missing file is read as None, and one that cannot be read raises UnreadableFile: it says nothing about the attempt.
The shim writes its own files (`shim/record.py`), because it must not import gpuq.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from gpuq.adapters.lock import is_at
from gpuq.adapters.process import Identity
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.job import JobId
from gpuq.home import LARGEST_FILE_BYTES, Home, free_name, is_folder, open_regular, read_regular, write_private
from gpuq.messages.launch import NOT_JSON
from gpuq.messages.submission import MAX_MOMENT, NO_NUL, USUAL_UMASK
from gpuq_workers.shim.record import LARGEST_ORDER_BYTES, VERSION, OnceFile, storable

NOT_EXECUTABLE = 126
"""The exit code of a job that cannot be started, as a shell gives it."""
# Beside the folder of the attempt, so that the modification time of their parent shows it.
_END_ASKED_FOR = ".end"
T = TypeVar("T")

# A job may write any value, so each has the range that the record and the screens can take.
_Moment = Annotated[float, Meta(ge=0, le=MAX_MOMENT)]
_Pid = Annotated[int, Meta(gt=0, lt=2**31)]
_Ticks = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[int, Meta(gt=0, le=2**63 - 1)]


class UnreadableFile(OSError):
    """A file of an attempt is there and cannot be read: it cannot be opened now, or does not hold what this gpuq can read."""


class Unit(msgspec.Struct, frozen=True):
    """The systemd unit that an attempt was given to: its name, when (Unix seconds, and CLOCK_BOOTTIME), and on which boot."""

    name: str
    at: _Moment
    uptime: float
    boot_id: str | None = None


class OrderFile(msgspec.Struct, frozen=True, kw_only=True):
    """`order.json`: what to run and how, and the shim or the unit that is to run it. Time in seconds, memory in bytes."""

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
    shim: Identity | None = None
    unit: Unit | None = None
    checkpoint_signal: int = 15
    """The number of the signal that asks it to save its work; `save_grace_s` is the time that it has for that."""
    save_grace_s: float = 0.0
    signal_before_s: float | None = None
    """How long before its time limit it gets that signal; None: not at all."""
    resumes: bool = False
    """Whether its end counts as that of its time limit if it comes after this signal."""
    blink: bool = False
    """Whether the shim may pause it for a moment."""
    borrows: bool = False
    """Whether idle cores may be lent to it."""
    stdin: str = "/dev/null"
    """What its standard input is opened from."""
    umask: int = USUAL_UMASK
    lease_s: float | None = None
    """How long it runs on while the file `lease` is not renewed (`shim/lease.py`); None: for ever."""
    lease: str | None = None
    interactive: str | None = None
    """How its user works in it, None for a batch job; see `gpuq_workers.shim.terminal`."""
    tree: str | None = None
    """The files that it was submitted with, None for none, and `owner` who has sent them."""
    owner: str | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.shim is None and self.unit is None:
            raise ValueError("it names neither a shim nor a unit")
        if self.shim is not None and not 0 < self.shim.pid < 2**31:
            raise ValueError("`shim` names no process")


class StartFile(msgspec.Struct, frozen=True):
    """`started.json`: the job's process runs."""

    pid: _Pid
    shim_pid: _Pid
    start_ticks: _Ticks
    shim_start_ticks: _Ticks
    boot_id: str
    at: _Moment
    version: int = VERSION

    @property
    def shim(self) -> Identity:
        """The shim, for as long as this boot lasts."""
        return Identity(self.boot_id, self.shim_pid, self.shim_start_ticks)


class EndFile(msgspec.Struct, frozen=True):
    """`exit.json`: the attempt is over and nothing of it is left. `lasted_s`: since its process started; None if not known."""

    ending: Ending
    exit_code: Annotated[int, Meta(ge=0, le=255)] | None
    reason: Annotated[str, Meta(max_length=1000, pattern=NO_NUL)]
    at: _Moment
    lasted_s: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    version: int = VERSION

    def ended_at(self, start: StartFile | None) -> float:
        """Unix seconds, counted from its start where that is known: the wall clock may have been set while it ran, and the record
        takes the difference for its duration."""
        return self.at if start is None or self.lasted_s is None else start.at + self.lasted_s


class BlinkAnswer(msgspec.Struct, frozen=True):
    """`blinked.json`: from when to when (CLOCK_MONOTONIC) the job stood still, if it did, and why that is to be ignored."""

    id: int
    began: float | None
    ended: float | None
    why_not: Annotated[str, Meta(max_length=1000)] | None
    version: int = VERSION


class PauseRecord(msgspec.Struct, frozen=True):
    """`paused.json`: since when (CLOCK_MONOTONIC) the job stands still in the pause with this id, None if it does not; seconds of
    all pauses before; and why this one ended by itself, if it did."""

    id: int
    since: float | None
    total_s: Annotated[float, Meta(ge=0, le=1e9)]
    why_not: Annotated[str, Meta(max_length=1000)] | None
    version: int = VERSION

    def paused_s(self, now: float) -> float:
        """Seconds for which the job has stood still by `now` (CLOCK_MONOTONIC)."""
        return self.total_s + (0.0 if self.since is None else max(0.0, now - self.since))


class Marker(msgspec.Struct, frozen=True):
    """`spooled.json`: the spool numbers under which the start and the end were written down, None while they were not."""

    started: _Number | None = None
    exited: _Number | None = None
    version: int = VERSION


class _Versioned(msgspec.Struct):
    version: int = VERSION


class AttemptFolder:
    """One attempt's folder. What reads a file returns None if it is missing, and raises UnreadableFile."""

    def __init__(self, path: Path, attempt: AttemptId) -> None:
        self.path = path
        self.attempt = attempt

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Keep the folder locked during the block; False if another process has it. True too for one that is not there. Raises
        OSError."""
        try:
            # A folder's lock is one of this machine, also where a network file system would ask its server for that of a file.
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            yield True
            return
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Its holder may have removed it, and another process have made and locked the next one.
                is_ours = is_at(self.path, os.fstat(descriptor))
            except BlockingIOError:
                is_ours = False
            yield is_ours
        finally:
            os.close(descriptor)

    @property
    def job_path(self) -> Path:
        """The folder that the job can write to: another than this one where it runs as its submitter."""
        return job_path(self.path)

    @property
    def log_path(self) -> Path:
        """Where the output begins."""
        return self.job_path / "output.log"

    @property
    def stdin_path(self) -> Path:
        """What the job reads on its standard input, where it was submitted with something."""
        return self.path / "stdin"

    def order(self) -> OrderFile | None:
        """What was ordered."""
        return self._read("order.json", OrderFile, LARGEST_ORDER_BYTES)

    def started(self) -> StartFile | None:
        """The start, once the process runs, as its shim wrote it."""
        return self._read("started.json", StartFile, folder=self.job_path)

    def ended(self) -> EndFile | None:
        """The end, once there is one."""
        return self._read("exit.json", EndFile)

    def marker(self) -> Marker:
        """The events of it that were spooled already; none if that cannot be read: the dispatcher ignores what is repeated."""
        with suppress(UnreadableFile):
            return self._read("spooled.json", Marker) or Marker()
        return Marker()

    def mark(self, marker: Marker) -> None:
        """Remember what was spooled. Not forced to the disk: what is spooled again after a power cut, the dispatcher ignores."""
        write_private(self.path / "spooled.json", msgspec.json.encode(marker), durable=False)

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
            os.close(open_regular(path, os.O_WRONLY | os.O_CREAT))

    def ask_blink(self, number: int, seconds: float, until: float) -> None:
        """Ask the shim to pause the job, if it comes to it by `until` (CLOCK_MONOTONIC). Raises OSError."""
        asked = {"id": number, "seconds": seconds, "until": until}
        write_private(self.path / "blink.json", msgspec.json.encode(asked), durable=False)

    def blinked(self) -> BlinkAnswer | None:
        """What came of the last blink."""
        return self._read("blinked.json", BlinkAnswer)

    def keep_paused(self, number: int, until: float) -> None:
        """Keep the job paused until this moment (CLOCK_MONOTONIC); one in the past ends the pause. Raises OSError."""
        write_private(self.path / "pause.json", msgspec.json.encode({"id": number, "until": until}), durable=False)

    @property
    def loan_path(self) -> Path:
        """Where the attempt reads which cores are lent to it."""
        return self.path / "loan.json"

    def lend(self, cores: Sequence[int], until: float) -> None:
        """Let the attempt use these cores until this moment (CLOCK_MONOTONIC). Raises OSError."""
        write_private(self.loan_path, msgspec.json.encode({"cores": cores, "until": until}), durable=False)

    def paused(self) -> PauseRecord | None:
        """What the shim has written of the job's pauses; None where it never stood still."""
        return self._read("paused.json", PauseRecord)

    def was_stopped(self) -> bool:
        """Whether it was ordered to stop."""
        return os.path.lexists(self.path / "stop.json")

    def is_wanted_back(self) -> bool:
        """Whether it is over, or was ordered to stop or to save its work."""
        return any(os.path.lexists(self.path / name) for name in ("stop.json", "exit.json"))

    def shim(self) -> Identity | None:
        """The shim that runs this attempt, or was given it; None if there is none yet or no file that names it can be read."""
        with suppress(UnreadableFile):
            started = self.started()
            if started is not None:
                return started.shim
        with suppress(UnreadableFile):
            order = self.order()
            return None if order is None else order.shim
        return None

    def close_unstarted(self, reason: str, at: float) -> bool:
        """Say that this attempt never started, if no shim has taken it up; whether we could."""
        return self.close(Ending.NEVER_STARTED, reason, at)

    def close_refused(self, reason: str, at: float) -> bool:
        """Say that this attempt cannot be started, however often it is tried; whether we could."""
        return self.close(Ending.EXITED, reason, at, NOT_EXECUTABLE)

    def close(self, ending: Ending, reason: str, at: float, exit_code: int | None = None) -> bool:
        """Write the end, if no shim has taken the attempt up; whether we could."""
        try:
            record = OnceFile(str(self.path), "exit.json")
        except FileExistsError:
            return False
        record.publish(ending=ending, exit_code=exit_code, reason=storable(reason), at=at)
        return True

    def close_abandoned(self, ending: Ending, reason: str, at: float) -> None:
        """Write the end in place of a shim that is known to be gone, over whatever has the file's name. Raises OSError."""
        if not is_folder(self.path):
            # It may have been deleted or replaced. It is the fence of the start, so it has to be there.
            free_name(self.path)
            self.path.mkdir(mode=0o700)
        for name in ("exit.json.new", "exit.json"):
            free_name(self.path / name)
        with suppress(FileExistsError):
            record = OnceFile(str(self.path), "exit.json")
            record.publish(ending=ending, exit_code=None, reason=storable(reason), at=at)

    def _read(
        self, name: str, cls: type[T], most_bytes: int = LARGEST_FILE_BYTES, *, folder: Path | None = None
    ) -> T | None:
        try:
            content = read_regular((folder or self.path) / name, most_bytes)
            version = msgspec.json.decode(content, type=_Versioned).version
            if version > VERSION:
                raise UnreadableFile(f"{name} was written by a newer gpuq (version {version} of the file)")
            return msgspec.json.decode(content, type=cls)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnreadableFile:
            raise
        except OSError as error:
            raise UnreadableFile(f"{name} cannot be read: {error.strerror}") from error
        except NOT_JSON as error:
            raise UnreadableFile(f"{name} cannot be read: {error}") from error


def job_path(folder: Path) -> Path:
    """The folder that the job of this attempt's folder can write to; another one where it runs as its submitter."""
    of_submitter = _path_of_submitter(folder)
    return of_submitter if is_folder(of_submitter) else folder


@lru_cache(maxsize=1024)
def _path_of_submitter(folder: Path) -> Path:
    # Kept, because each look at a job asks for it, and to build paths costs more than to look for the folder.
    return Home(folder.parents[1]).jobs / folder.name


def counter_path(folder: Path) -> Path:
    """The step counter of the job of this attempt's folder."""
    return job_path(folder) / "progress"


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
    """Every attempt's folder under `root`, but for the names in `without`; links and names of other things are passed over."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(root):
            if entry.name in without:
                continue
            attempt = _attempt_named(entry.name)
            if attempt is not None and entry.is_dir(follow_symlinks=False):
                yield AttemptFolder(Path(entry.path), attempt)


def _attempt_named(name: str) -> AttemptId | None:
    """The attempt whose folder has this name, as in `7-1`; None for other names."""
    job, dash, number = name.partition("-")
    return AttemptId(JobId(int(job)), int(number)) if dash and job.isdecimal() and number.isdecimal() else None


def ask_for_end(root: Path, attempt: AttemptId) -> None:
    """Ask the worker service to send the end of this attempt again, if it is over."""
    with suppress(OSError):  # a full disk must not keep an attempt from being stopped; the next order asks again
        (root / f"{attempt}{_END_ASKED_FOR}").touch(mode=0o600)


def ends_asked_for(root: Path) -> Iterator[AttemptFolder]:
    """The folders of the attempts whose ends were asked for since the last call."""
    for request in root.glob(f"*{_END_ASKED_FOR}"):
        attempt = _attempt_named(request.stem)
        try:
            request.unlink()
        except OSError:
            continue  # not a file of ours
        if attempt is not None:
            yield AttemptFolder(root / request.stem, attempt)
