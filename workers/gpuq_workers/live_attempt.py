"""An attempt whose end is not spooled yet: what its files say, and which of its processes still run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from gpuq.adapters.process import Identity, descendants, identities, is_alive, with_environment, with_open_file
from gpuq_workers.attempts import AttemptFolder, Marker, OrderFile, PauseRecord, StartFile, Unit, UnreadableFile
from gpuq_workers.shim_pool import SHIM


@dataclass
class Unreadable:
    """A file that could not be read: since when, why, and when it is read again."""

    since: float
    why: str
    again_at: float


@dataclass
class LiveAttempt:
    """What is known of it; times are in monotonic seconds."""

    folder: AttemptFolder
    marker: Marker
    first_seen: float
    order: OrderFile | None = None
    start: StartFile | None = None
    sweep_at: float = 0.0
    shim_seen_at: float = float("-inf")
    kill_at: float | None = None
    hangs_at: float | None = None
    """When a shim that was ordered to stop, and has not started its job, is taken to hang."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)

    def pauses(self) -> PauseRecord | None:
        """What its shim has written of its pauses; None where it cannot be read."""
        with suppress(UnreadableFile):
            return self.folder.paused()
        return None

    @property
    def shim(self) -> Identity | None:
        """The shim that runs it, or was given it; None before there is one."""
        return self.start.shim if self.start else self.order.shim if self.order else None

    @property
    def unit(self) -> Unit | None:
        """The unit that runs it as its submitter; None if a shim of the worker service does."""
        return self.order.unit if self.order else None

    @property
    def boot(self) -> str | None:
        """The boot of the machine on which it was started, as far as files that are not the job's say."""
        if self.unit is not None:
            return self.unit.boot_id
        return self.shim.boot_id if self.shim is not None else None

    def marks(self) -> dict[str, str]:
        """What the environment of each of its processes has."""
        attempt = self.folder.attempt
        return {
            "GPUQ_JOB_ID": str(attempt.job),
            "GPUQ_ATTEMPT": str(attempt.number),
            # Only this one differs between two gpuq on one machine.
            "GPUQ_PROGRESS": str(self.folder.path / "progress"),
        }

    def left(self) -> list[Identity]:
        """What still runs of it: the processes with its environment, and all below them.

        Nothing of one in a unit: PID 1 ends that, and its `started.json` could name any process, one of ours too.
        """
        if self.unit is not None:
            return []
        found = set(with_environment(self.marks()))
        if self.start is not None:
            found.add(Identity(self.start.boot_id, self.start.pid, self.start.start_ticks))
        elif self.shim is not None:
            # What the shim forked for the job has the shim's environment and open files until the job's program is loaded, for as
            # long as a file system does not answer. Left alone, it would become the job after that.
            found.update(with_open_file(self.folder.path / "exit.json.new", str(SHIM)))
        for one in list(found):
            if is_alive(one):
                found.update(identities(descendants(one.pid)))
        return [one for one in found if is_alive(one)]
