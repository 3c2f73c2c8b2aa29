"""The live view: what the dispatcher writes to Redis twice a second, and the API reads.

The dispatcher builds a `LiveView`, `encode` makes it JSON, and the API decodes the same type. Every field but the identities has
a default, so that an API and a dispatcher of neighbouring versions understand each other. What is unknown is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import msgspec

from gpuq.core.measuring.account import SlowdownAccount
from gpuq.core.state.device import Device, NoStarts, Vitals
from gpuq.core.state.events import ResidentNumbers
from gpuq.core.state.forecast import Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNumbers(ResidentNumbers):
    """What a running job uses at this moment.

    `not_counted` says why no steps are counted; of several processes that count steps at the same time (`step_processes`),
    `steps` is the most that any of them counted. `slowdown` is what its present partners cost it so far, as measured, and
    `slowdown_basis` what that rests on, as in `AttemptOutcome`; `expected_slowdown` what was forecast for them. Slowdowns are
    time together / time alone, and null without a partner. `warned_of_idleness`: it was warned that it uses none of its
    devices, and has used none since. `slowdown_account`: what it has lost to partners and pauses, and may still lose within its
    budget; null before its start. `paused_for`: the job for which it stands still. `lent_cores`: idle cores of its host that it
    may use.
    """

    slowdown: float | None = None
    slowdown_basis: str | None = None
    warned_of_idleness: bool = False
    expected_slowdown: float | None = None
    slowdown_account: SlowdownAccount | None = None
    paused_for: int | None = None
    lent_cores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentStatus(LiveNumbers):
    """An attempt on a device: its live numbers, when it started, and the jobs that share the device with it. `promised_bytes` are
    promised to it there; `revised` is the forecast that others are admitted by where that was made since its launch."""

    job: int
    attempt: int
    started_at: float | None = None
    partners: tuple[int, ...] = ()
    promised_bytes: int | None = None
    revised: Forecast | None = None

    @property
    def numbers(self) -> LiveNumbers:
        """The live numbers alone."""
        return LiveNumbers(**{field.name: getattr(self, field.name) for field in fields(LiveNumbers)})


class DeviceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A device as last read, with the attempts on it. Memory in bytes; `read_at` is None where no fresh reading is known."""

    id: str
    host: str
    backend: str
    type: str
    total_memory_bytes: int
    sharing: str | None = None
    index: str | None = None
    features: tuple[str, ...] = ()
    until_at: float | None = None
    used_memory_bytes: int | None = None
    promised_memory_bytes: int | None = None
    foreign_memory_bytes: int | None = None
    foreign_utilization_pct: float | None = None
    utilization_pct: float | None = None
    unwell: str | None = None
    drained: str | None = None
    """Why an operator keeps new jobs off its host."""
    no_starts: NoStarts | None = None
    """Why its host starts no job for now."""
    reserved_for: int | None = None
    """The waiting job that it is kept free for."""
    vitals: Vitals | None = None
    processes_visible: bool | None = None
    read_at: float | None = None
    residents: tuple[ResidentStatus, ...] = ()

    @classmethod
    def of(cls, device: Device, **others: Any) -> DeviceStatus:
        """The status of this device, with these of the other fields."""
        return cls(
            id=device.id,
            host=device.host,
            backend=device.backend,
            type=device.type,
            total_memory_bytes=device.total_memory,
            sharing=device.sharing,
            index=device.index,
            features=device.features,
            until_at=device.until_at,
            **others,
        )


class HostStatus(msgspec.Struct, frozen=True):
    """A host: when it reported last (Unix seconds; None: not since the dispatcher began), and why it is drained, if it is. `lost`
    says what the record had lost of it since the dispatcher began, a sentence each; `unread` why its last report was dropped;
    `no_starts` why it starts no job for now; `clock_ahead_s` how far its clock is ahead of the dispatcher's, below 0 behind."""

    name: str
    reported_at: float | None = None
    drained: str | None = None
    lost: tuple[str, ...] = ()
    unread: str | None = None
    no_starts: NoStarts | None = None
    clock_ahead_s: float | None = None


class PolicyReplacement(msgspec.Struct, frozen=True):
    """Why the chosen policy was replaced by the default; `at` (Unix seconds) is None where it never served."""

    reason: str
    at: float | None = None


class PolicyStatus(msgspec.Struct, frozen=True):
    """The policy that the settings name, and the one that proposes now."""

    chosen: str
    serving: str
    fault: PolicyReplacement | None = None


class DispatcherStatus(msgspec.Struct, frozen=True):
    """The dispatcher about itself. `pass_seconds` is how long its last scheduling pass took."""

    pid: int | None = None
    passes: int | None = None
    pass_seconds: float | None = None
    model_version: str | None = None
    policy: PolicyStatus | None = None
    epoch: int | None = None
    """The epoch in which it leads."""
    shares_redis: bool = False
    """Whether another gpuq was seen to use the same database of Redis."""


class KindDrift(msgspec.Struct, frozen=True):
    """Whether forecasts still hold, of one kind on one type of device or (both blank) of all. Shares from 0 to 1, percent."""

    kind: str = ""
    device_type: str = ""
    attempts: int = 0
    memory_coverage: float | None = None
    memory_error: float | None = None
    utilization_error_pct: float | None = None
    slowdown_error: float | None = None
    slowdown_coverage: float | None = None
    alarm: bool = False
    widened: float = 1.0


class DriftStatus(msgspec.Struct, frozen=True):
    """Drift over all attempts, and the kinds that deviate most. `promised` is the share of jobs that the bounds are made for."""

    promised: float
    overall: KindDrift
    kinds_watched: int = 0
    kinds_in_alarm: int = 0
    kinds: tuple[KindDrift, ...] = ()


class StartAccuracy(msgspec.Struct, frozen=True):
    """Of the latest `starts`, how many came before the median of the job's first estimate, and before its 90th percentile."""

    starts: int
    before_half: int
    before_most: int


class AccountUse(msgspec.Struct, frozen=True):
    """What a user or a project, which has a quota, uses: devices now, and device-hours within the quota's window."""

    scope: str
    name: str
    devices: int
    device_hours: float


class LiveView(msgspec.Struct, frozen=True, dict=True):
    """Everything the dispatcher shows, and when it wrote it (Unix seconds)."""

    at: float
    dispatcher: DispatcherStatus = DispatcherStatus()
    devices: tuple[DeviceStatus, ...] = ()
    hosts: tuple[HostStatus, ...] = ()
    drift: DriftStatus | None = None
    starts: dict[int, tuple[float, float]] = {}
    """Of waiting jobs: unix times of the expected start, the median and the 90th percentile."""
    starts_checked: bool = True
    """Whether enough earlier ones were compared with the starts that followed."""
    newcomer_start: tuple[float, float] | None = None
    """The same of a job that would be submitted now and ask for one device."""
    start_accuracy: StartAccuracy | None = None
    """None where no start with an estimate is known."""
    uses: tuple[AccountUse, ...] = ()
    """Of the accounts with a quota that have used devices within its window."""

    @property
    def reported(self) -> list[str]:
        """The ids of the devices that a worker reports on now."""
        return [device.id for device in self.devices if device.read_at is not None]

    def resident(self, job: int, attempt: int | None = None) -> ResidentStatus | None:
        """The status of a job, or of one of its attempts, on its first device; None if it is on none."""
        residents = self._by_job.get(job, ())
        return next((one for one in residents if attempt in {None, one.attempt}), None)

    @cached_property
    def _by_job(self) -> dict[int, list[ResidentStatus]]:
        found: dict[int, list[ResidentStatus]] = {}
        for device in self.devices:
            for resident in device.residents:
                found.setdefault(resident.job, []).append(resident)
        return found


_decoder = msgspec.json.Decoder(LiveView)


def encode(view: LiveView) -> bytes:
    """The view as JSON."""
    return msgspec.json.encode(view)


def decode(raw: bytes) -> LiveView:
    """The view in `raw`. Raises msgspec.MsgspecError or UnicodeDecodeError for anything else."""
    return _decoder.decode(raw)
