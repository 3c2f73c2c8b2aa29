"""`runs.jsonl`: every session and run of a campaign, one line each, forced to the disk before the next run begins.

A campaign that is killed while it writes leaves half a line; it is cut off at the next start, and that run is made again. Lines
are never changed.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import msgspec

from gpuq.errors import BadInput, Failure
from gpuq.lab.campaign.session import Session

MEASURED = "measured"
OUT_OF_MEMORY = "out of memory"
FAILED = "failed"
DISTURBED = "disturbed"


class MeasuredJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job in one run. Rates are steps per second; half-widths are of 95% intervals, as a share of their mean.

    `alone_rate` was measured with no other job running: in a run of its own, or in a pair while the other was paused.
    `slowdown` is alone rate / shared rate, the geometric mean over the cycles of the run. `warm_up_s` is the time from the
    start of the process to the first moment that counts. `summary` is the job's own last line.
    Bandwidth and power are the device's, means from the first step on. With `peak_memory_is_bound` a framework took its memory
    in advance, and the peak says nothing of what the job needs. Unknown is None.
    """

    job: str
    digest: str
    alone_rate: float | None = None
    alone_half_width: float | None = None
    shared_rate: float | None = None
    slowdown: float | None = None
    slowdown_half_width: float | None = None
    steps: int | None = None
    warm_up_s: float | None = None
    peak_utilization_pct: float | None = None
    peak_memory_bytes: int | None = None
    peak_memory_is_bound: bool = False
    memory_utilization_pct: float | None = None
    power_w: float | None = None
    exit_code: int | None = None
    summary: dict[str, Any] | None = None


class MeasuredRun(msgspec.Struct, frozen=True, kw_only=True, tag="run"):
    """One run: a job alone, or two together. `at` is Unix seconds; `values` counts the windows or cycles behind its rates.

    `steady` is False where the time ran out before the rate was steady and its interval narrow; the run is kept all the same.
    """

    device: str
    device_type: str
    sharing: str | None
    at: float
    seconds: float
    outcome: str
    parts: tuple[MeasuredJob, ...]
    reason: str | None = None
    steady: bool = False
    values: int = 0
    foreign_utilization_pct: float | None = None

    @property
    def jobs(self) -> tuple[str, ...]:
        """The digests of its jobs, in the order of `parts`."""
        return tuple(part.digest for part in self.parts)


class Ledger:
    """The file, held open by one campaign. `runs` and `sessions` are its whole content."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs: list[MeasuredRun] = []
        self.sessions: list[Session] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _cannot(path, error) from error
        try:
            self._read()
        except BaseException:
            os.close(self._file)
            raise

    def add(self, entry: MeasuredRun | Session) -> None:
        """Write one line and force it to the disk. Raises Failure."""
        line = msgspec.json.encode(entry) + b"\n"
        try:
            if os.write(self._file, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as error:
            raise _cannot(self.path, error) from error
        self._keep(entry)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _read(self) -> None:
        """Take in the whole lines; half a line at the end is cut off the file."""
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            try:
                self._keep(msgspec.json.decode(line, type=MeasuredRun | Session))
            except msgspec.MsgspecError as error:
                raise BadInput(
                    f"{self.path}, line {number} is not a line of a campaign: {error}.",
                    fix="Name another folder with --out, or remove that line.",
                ) from error

    def _keep(self, entry: MeasuredRun | Session) -> None:
        if isinstance(entry, MeasuredRun):
            self.runs.append(entry)
        else:
            self.sessions.append(entry)


def _cannot(path: Path, error: OSError) -> Failure:
    return Failure(f"{path} cannot be written to: {error.strerror or error}.", fix="Name another folder with --out.")
