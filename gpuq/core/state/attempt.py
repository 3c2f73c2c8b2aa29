"""One start of a job on its devices, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.forecast import UNKNOWN, Forecast
from gpuq.core.state.job import JobId, KindId


class AttemptId(NamedTuple):
    """(job, attempt) names every event and action. A start on several hosts has one attempt on each, numbered in a row."""

    job: JobId
    number: int

    def __str__(self) -> str:
        return f"{self.job}-{self.number}"


class StopReason(StrEnum):
    """Why gpuq stops an attempt."""

    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    IDLE = "it used none of its devices"
    GANG = "another attempt of its gang ended"
    TIME_LIMIT = "its time limit was made shorter"


class Ending(StrEnum):
    """How an attempt ended, as its worker reports it; what that means for the job is decided in `apply`.

    `KILLED`: by a signal that gpuq did not send. `OUT_OF_MEMORY`: its device had none left; `HOST_OUT_OF_MEMORY`: the machine,
    its cgroup or a limit of its own had none left, which on CPU cores is the device's too. `DRIVER_ERROR`: the driver would not
    serve it, here or anywhere like here; `DEVICE_FAILED`: its device broke down under it.
    """

    EXITED = "exited"
    KILLED = "killed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    HOST_OUT_OF_MEMORY = "host out of memory"
    DRIVER_ERROR = "driver error"
    DEVICE_FAILED = "device failed"
    STOPPED = "stopped"
    NEVER_STARTED = "never started"
    LOST = "lost"


class MemoryCause(StrEnum):
    """Whose use left a device without memory, as far as the last readings say."""

    OWN = "own growth"
    PARTNER = "a partner's growth"
    FOREIGN = "a foreign process"


@dataclass(frozen=True, slots=True)
class Gang:
    """The attempts of one start on several hosts, which run together or not at all: the one on `hosts[i]` has the number
    `first` + i. They meet at `address`, a name or an IP address of the first host, and `port`."""

    first: int
    hosts: tuple[HostId, ...]
    address: str
    port: int

    @property
    def numbers(self) -> range:
        """The numbers of its attempts."""
        return range(self.first, self.first + len(self.hosts))


@dataclass(frozen=True, slots=True)
class Attempt:
    """A resident of its devices from the moment it is ordered until its end is known.

    `promised` is the memory in bytes promised on each of `devices`, in their order: the upper forecast, or the whole
    device when nothing is known. `live_memory` is the last measured value, None before the first. `revoking` says that
    the order to start it is taken back, because its host does not report it. `lease_s`: its host ends it when it was not
    connected to the dispatcher for so many seconds; None: it runs on. `idle_s`: for how long it has used none of its devices,
    None while that is not known; `warned_at`: when it was warned of that last. `opened`: it
    was opened to partners for that, and counts as no load while it is idle. `revised`: its forecast was made while it ran.
    `gang`: None for a start on one host. `time_limit_s`: its host ends it so long after its start; None: it runs on.
    `trial`: it was started to try its pairs. `ahead_of`: it was started on devices that were reserved for a job that had waited
    too long, and this was the highest priority that waited then; None: on others.
    `slowed_s` and `paused_s`: what it has lost to partners and pauses, as last reported. `paused_for`: it stands still while that
    attempt runs, since `paused_at`; `resumed_at` is when its last pause ended. `not_pausable`: why its host could not pause it.
    `lent`: the idle cores of its host that it may use besides its devices, by their numbers.
    """

    id: AttemptId
    kind: KindId
    host: HostId
    devices: tuple[DeviceId, ...]
    promised: tuple[int, ...]
    shares: bool
    launched_at: float
    forecast: Forecast = UNKNOWN
    max_slowdown: float | None = None
    started_at: float | None = None
    last_reported: float | None = None
    live_memory: int | None = None
    stopping: StopReason | None = None
    revoking: bool = False
    had_partner: bool = False
    lease_s: float | None = None
    idle_s: float | None = None
    warned_at: float | None = None
    opened: bool = False
    revised: bool = False
    gang: Gang | None = None
    time_limit_s: float | None = None
    slowed_s: float | None = None
    paused_s: float | None = None
    paused_for: AttemptId | None = None
    paused_at: float | None = None
    resumed_at: float | None = None
    not_pausable: str | None = None
    lent: tuple[int, ...] = ()
    trial: bool = False
    ahead_of: int | None = None

    @property
    def began_at(self) -> float:
        """When it started; until that is known, when it was launched."""
        return self.launched_at if self.started_at is None else self.started_at


def started(attempt: Attempt, at: float, now: float) -> Attempt:
    """The attempt as one that started `at` by the clock of its host, which may differ from ours: it started after its launch, and
    before we hear of it, `now`."""
    return replace(attempt, started_at=min(max(at, attempt.launched_at), now))


def opened(attempt: Attempt, promised: int) -> Attempt:
    """The attempt as one that others may join, with so many bytes promised to it on each of its devices."""
    return replace(attempt, opened=True, shares=True, promised=(promised,) * len(attempt.devices))


def served_s(attempt: Attempt, now: float) -> float:
    """Device-seconds that the attempt has had by `now`; 0 before its start."""
    return 0.0 if attempt.started_at is None else max(0.0, now - attempt.started_at) * len(attempt.devices)
