"""The folders of the pilots of a home, one for each; they outlive this process, so no pilot is lost.

`pilot.json` is its record, `order.json` what it is to do, `slurm.out` what it printed, and `gpuq` its own home, in which the logs
of its jobs stay when the rest is removed.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import msgspec

from gpuq.home import Home, write_private
from gpuq.logs import last_words
from gpuq.messages.pilot import Pilot, PilotOrder, PilotProblem

log = logging.getLogger("gpuq.pools")


class PilotFolders:
    """All pilots of a home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def read(self) -> list[Pilot]:
        """The pilots that have not been removed, by name."""
        found = []
        for file in sorted(self._home.pilots.glob("*/pilot.json")):
            try:
                found.append(msgspec.json.decode(file.read_bytes(), type=Pilot))
            except (OSError, msgspec.MsgspecError) as error:
                log.warning("%s cannot be read: %s", file, error)
        return found

    def folder(self, name: str) -> Path:
        """That of the pilot, in which its Slurm job runs."""
        return self._home.pilots / name

    def make(self, name: str) -> Path:
        """The folder of a new pilot."""
        folder = self.folder(name)
        folder.mkdir(mode=0o700, parents=True)
        return folder

    def save(self, pilot: Pilot) -> Pilot:
        """Replace the record of a pilot."""
        write_private(self._home.pilots / pilot.name / "pilot.json", msgspec.json.encode(pilot))
        return pilot

    def order(self, order: PilotOrder) -> None:
        """Replace what a pilot is to do."""
        write_private(self._home.pilots / order.host / "order.json", msgspec.json.encode(order))

    def ordered(self, name: str) -> PilotOrder | None:
        """What the pilot is to do; None if that cannot be read, as an order of another release."""
        try:
            return msgspec.json.decode((self._home.pilots / name / "order.json").read_bytes(), type=PilotOrder)
        except (OSError, msgspec.MsgspecError):
            return None

    def said(self, name: str) -> tuple[str, str | None]:
        """What the pilot printed last, and its fix where it gave one."""
        return last_words(self._home.pilots / name / "slurm.out")

    def has_worked(self, name: str) -> bool:
        """Whether the pilot has had a job. One that is shorter than the time between two looks is seen here only."""
        attempts = self._home.attempts_of_pilot(name)
        return attempts.is_dir() and any(attempts.iterdir())

    def remove(self, name: str) -> None:
        """Remove all of a pilot but the folders of its attempts: their logs are still to be read."""
        folder, attempts = self._home.pilots / name, self._home.attempts_of_pilot(name)
        (folder / "pilot.json").unlink(missing_ok=True)  # from here on it counts as ended
        if not self.has_worked(name):
            shutil.rmtree(folder, ignore_errors=True)
            return
        for path in [*folder.iterdir(), *attempts.parent.iterdir()]:
            if path.is_dir() and path not in {attempts, attempts.parent}:
                shutil.rmtree(path, ignore_errors=True)
            elif not path.is_dir():
                path.unlink(missing_ok=True)

    def remove_logs(self, older_than: float) -> None:
        """Remove what is left of pilots that ended before this time (Unix seconds)."""
        for folder in self._home.pilots.glob("*/"):
            if not (folder / "pilot.json").exists() and folder.stat().st_mtime < older_than:
                shutil.rmtree(folder, ignore_errors=True)

    def heard_at(self) -> float | None:
        """When the dispatcher was heard last, as `note_heard` noted; None if never. In a file, for the next start of gpuq."""
        file = self._heard_file
        return file.stat().st_mtime if file.exists() else None

    def note_heard(self, at: float) -> None:
        """Note that the dispatcher was heard then."""
        self._heard_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._heard_file.touch(mode=0o600)
        os.utime(self._heard_file, (at, at))

    @property
    def _heard_file(self) -> Path:
        return self._home.run / "pools.heard"

    def note(self, pool: str, problem: PilotProblem | None) -> None:
        """Replace what keeps a pool from getting pilots; None: nothing does."""
        file = self._home.pilots / f"{pool}.problem"
        if problem is not None:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(file, msgspec.json.encode(problem))
        else:
            file.unlink(missing_ok=True)

    def charge(self, pool: str, hours: float) -> None:
        """Add GPU-hours to what the pilots of a pool have taken."""
        write_private(self._hours_file(pool), repr(self.hours(pool) + hours).encode())

    def hours(self, pool: str) -> float:
        """GPU-hours that the pilots of this pool have taken which have ended."""
        try:
            return float(self._hours_file(pool).read_text())
        except (OSError, ValueError):
            return 0.0

    def _hours_file(self, pool: str) -> Path:
        return self._home.pilots / f"{pool}.hours"
