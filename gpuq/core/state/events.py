"""The events: what has happened. Each is a frozen value named in the past tense; it holds ids and values only.

An event reaches the core through one inbox, with the time it is applied at and a sequence number given by the shell.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.measuring.slowdown import Rates
from gpuq.core.state.attempt import AttemptId, Ending, MemoryCause
from gpuq.core.state.booking import Booking, BookingId
from gpuq.core.state.device import Device, DeviceId, HostId, NoStarts, Reading
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.quota import Account, Quota


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job was committed to the record."""

    job: Job


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """An authorised user asked to cancel a job."""

    job: JobId
    by: str


@dataclass(frozen=True, slots=True)
class HoldRequested:
    """An authorised user asked that a waiting job not start."""

    job: JobId
    by: str


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    """An authorised user released a held job."""

    job: JobId
    by: str


@dataclass(frozen=True, slots=True)
class JobEdited:
    """An authorised user changed what a job asks for. Without effect where the job cannot be changed so any more."""

    job: JobId
    edit: JobEdit
    by: str


@dataclass(frozen=True, slots=True)
class HostDrained:
    """An operator asked that no more jobs start on a host, and said why. What runs there goes on."""

    host: HostId
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class HostResumed:
    """An operator put a drained host back into service."""

    host: HostId
    by: str


@dataclass(frozen=True, slots=True)
class HostForgotten:
    """An admin removed a host that will not come back, with its devices."""

    host: HostId
    by: str


@dataclass(frozen=True, slots=True)
class QuotaSet:
    """An admin set the quota of an account; it replaces the one that the account had."""

    quota: Quota
    by: str


@dataclass(frozen=True, slots=True)
class QuotaRemoved:
    """An admin removed the quota of an account."""

    account: Account
    by: str


@dataclass(frozen=True, slots=True)
class BookingMade:
    """A booking was committed to the record."""

    booking: Booking


@dataclass(frozen=True, slots=True)
class BookingCancelled:
    """An authorised user cancelled a booking."""

    booking: BookingId
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentNumbers:
    """What a worker measures of a running attempt at one moment; None for what it cannot measure.

    This is the one declaration of these numbers. A field that is added here and filled in `gpuq_workers.measuring.sample`
    reaches the dispatcher, the live view in Redis and the HTTP API without a change anywhere else.
    `blink`, `not_counted`, `step_processes` and `energy_joules` are as in `Measurement`; `rate` is in steps per second. `idle_s`:
    for how long it has used none of its devices, None where its use is not known. `slowed_s`: seconds lost to partners so
    far, `paused_s` those for which it stood still; None where that is not known. The peaks are those so far, that of memory None
    where only a bound is known; `level_s`: for how long its memory has not grown, None while that is too short to go by.
    `not_pausable`: why it could not be paused, once that was tried.
    """

    memory_bytes: int | None = None
    utilization_pct: float | None = None
    steps: int | None = None
    rate: float | None = None
    blink: str | None = None
    not_counted: str | None = None
    step_processes: int | None = None
    energy_joules: float | None = None
    idle_s: float | None = None
    slowed_s: float | None = None
    paused_s: float | None = None
    peak_memory_bytes: int | None = None
    peak_utilization_pct: float | None = None
    utilization_is_bound: bool = False
    level_s: float | None = None
    not_pausable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentReport(ResidentNumbers):
    """One attempt that a host reports as its own. `started_at` is None before its process runs.

    `rates`: its progress alone and beside the partners that it has now; None while it has none. `blinks`: in how many pauses of
    its partner it was measured so far, None from a worker that is older than this field.
    """

    attempt: AttemptId
    started_at: float | None
    rates: Rates | None = None
    blinks: int | None = None


@dataclass(frozen=True, slots=True)
class HostReported:
    """A host's full report: all its devices, all its residents. What is not in it is not there. `instance` is that of the worker
    service that sends it; `address` a name or an IP address at which other hosts reach it, None for its name. `no_starts`: why
    it starts no job for now, None where it does, and for a host of the previous release."""

    host: HostId
    boot_id: str
    at: float
    devices: tuple[Device, ...]
    readings: tuple[tuple[DeviceId, Reading], ...]
    residents: tuple[ResidentReport, ...]
    instance: str | None = None
    address: str | None = None
    no_starts: NoStarts | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """An attempt's process runs."""

    attempt: AttemptId
    at: float
    pid: int
    log_path: str


@dataclass(frozen=True, slots=True)
class Exited:
    """An attempt is over, and nothing of it is left. `exit_code` is 128+n for signal n, None when unknown; `memory_cause` is
    whose use left its device without memory, None where that is not how it ended, or not known. `instance` is that of the worker
    service that reports it, None if the dispatcher found it out."""

    attempt: AttemptId
    at: float
    ending: Ending
    exit_code: int | None
    reason: str
    measurement: Measurement
    memory_cause: MemoryCause | None = None
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class ModelPublished:
    """Another model serves forecasts from now on; None: no model, history alone."""

    version: str | None


@dataclass(frozen=True, slots=True)
class WentBack:
    """The record lacks commits that were made before. New attempts have numbers from `first_attempt` on, new to all hosts."""

    first_attempt: int


@dataclass(frozen=True, slots=True)
class Woke:
    """Nothing happened but that time has passed."""


Event = (
    Submitted
    | CancelRequested
    | HoldRequested
    | ReleaseRequested
    | JobEdited
    | HostDrained
    | HostResumed
    | HostForgotten
    | QuotaSet
    | QuotaRemoved
    | BookingMade
    | BookingCancelled
    | HostReported
    | Started
    | Exited
    | ModelPublished
    | WentBack
    | Woke
)
