"""A job as the core sees it: what it needs, what its submitter allows, and its state.

The command, directory and environment stay in the record: no decision depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.dependency import Dependency
from gpuq.core.state.device import Device
from gpuq.core.state.quota import Account, accounts
from gpuq.core.state.retry import RetryRule
from gpuq.states import ACTIVE, ENDED, WAITING, JobState

__all__ = ["ACTIVE", "ENDED", "WAITING", "Job", "JobId", "JobState", "KindId", "Sharing"]

JobId = NewType("JobId", int)
KindId = NewType("KindId", str)


class Sharing(StrEnum):
    """What the submitter allows."""

    AUTO = "auto"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Job:
    """One submission.

    `signature` is the kind plus the features that forecasts depend on: jobs of one signature get one forecast.
    `attempt` is the number of the last attempt, of a gang over hosts that of its first one; 0 before the first start. It is the
    epoch that fences a start.
    `alone` is set after the job ran out of memory beside a partner: it gets a device to itself from then on.
    `had_partner`: whether the last attempt shared a device. `device_count` is the fewest devices it runs on, equally many of
    `host_count` hosts; with `most_devices` it may be given more. `preemptible`: it saves its work on its checkpoint signal, so
    that a policy may stop it and start it again. `served_s` counts the device-seconds of its ended attempts. `constraints`: which
    devices it may have; None for all. `time_limit_s`: it is ended so long after its start; None: it may run on. `array` is the
    array that it is a task of, of which at most `most_at_once` tasks have devices at a time (None: any number). `idle_ok`: it is
    not stopped because it does not use its devices. `pausable`: it may be paused so that others run; `failed_after_pause`: its
    last attempt failed soon after a pause. `lost_early`: so many of its attempts in a row lost their host or device within a
    minute of their start. `tried`: an attempt of it was a trial. `lend_cores`: so many idle cores of its host it can use besides
    its devices.

    While it is not `eligible`, passes do not look at it: it waits for the jobs in `after`, as `singleton` for the earlier jobs of
    its owner that have its name, and until `not_before`. `eligible_at` is when such a wait ended; None if it had none.

    `retried` has how often each rule of `retry` was followed; it is empty while none was. `exit_code` and `ran_out_of` are of its
    last end: the latter the memory in bytes that it had on a device, None unless that was too little. A retry after that raises
    `declared_memory`.
    """

    id: JobId
    kind: KindId
    signature: str
    owner: str
    submitted_at: float
    priority: int = 0
    sharing: Sharing = Sharing.AUTO
    max_slowdown: float | None = None
    declared_memory: int | None = None
    device_count: int = 1
    most_devices: int | None = None
    deadline_at: float | None = None
    preemptible: bool = False
    requeue_on_node_fail: bool = False
    state: JobState = JobState.PENDING
    since: float = 0.0
    attempt: int = 0
    alone: bool = False
    had_partner: bool = False
    cancel_requested: bool = False
    served_s: float = 0.0
    project: str | None = None
    host_count: int = 1
    constraints: DeviceConstraints | None = None
    array: JobId | None = None
    most_at_once: int | None = None
    time_limit_s: float | None = None
    name: str | None = None
    after: tuple[Dependency, ...] = ()
    singleton: bool = False
    not_before: float | None = None
    eligible: bool = True
    eligible_at: float | None = None
    retry: tuple[RetryRule, ...] = ()
    retried: tuple[int, ...] = ()
    exit_code: int | None = None
    ran_out_of: int | None = None
    idle_ok: bool = False
    pausable: bool = True
    failed_after_pause: bool = False
    lost_early: int = 0
    lend_cores: int = 0
    tried: bool = False

    @property
    def accounts(self) -> tuple[Account, ...]:
        """Whose quotas it counts for."""
        return accounts(self.owner, self.project)

    @property
    def waits_since(self) -> float:
        """Since when it could have started, if there had been a device for it."""
        return self.submitted_at if self.eligible_at is None else self.eligible_at

    def times_retried(self, rule: RetryRule) -> int:
        """How often this rule of its own was followed."""
        return self.retried[self.retry.index(rule)] if self.retried else 0

    @property
    def counts(self) -> range:
        """How many devices it may be given."""
        return range(self.device_count, max(self.device_count, self.most_devices or 0) + 1)

    @property
    def per_host(self) -> int:
        """The fewest devices of each host that it runs on."""
        return self.device_count // self.host_count

    def spreads(self, devices: Iterable[Device]) -> bool:
        """Whether these devices are of as many hosts as it runs on, equally many of each."""
        hosts = [device.host for device in devices]
        different = set(hosts)
        return len(different) == self.host_count and len({hosts.count(host) for host in different}) == 1
