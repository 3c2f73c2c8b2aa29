"""The live view: devices, residents and readings as of now, for the API to serve.

The dispatcher writes it to Redis after its cycles. It follows from the state and the last reports alone, so a lost view is
simply written again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import msgspec

from gpuq.core.measuring.slowdown import Rate, slowdowns_of
from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.pauses import account_of
from gpuq.core.scheduling.quotas import QuotaPass
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import Device, HostId
from gpuq.core.state.events import HostReported, ResidentNumbers, ResidentReport
from gpuq.core.state.job import JobId, KindId
from gpuq.core.state.quota import HOUR_S, quota_of
from gpuq.core.state.state import State
from gpuq.daemon.start_estimates import StartEstimates
from gpuq.messages.live import (
    AccountUse,
    DeviceStatus,
    DispatcherStatus,
    DriftStatus,
    HostStatus,
    LiveView,
    ResidentStatus,
    encode,
)

_NUMBERS = tuple(field.name for field in fields(ResidentNumbers))


class View:
    """Keeps the last report of each resident, which the core does not need, and how long the last pass took."""

    def __init__(
        self,
        limits: Limits,
        kind_alone: Callable[[KindId, str], Rate | None],
        lost: Callable[[HostId], tuple[str, ...]] = lambda _: (),
        unread: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`kind_alone`: the usual rate of a kind with no partner on a type of device. `lost`: what the record lost of a host;
        `unread`: why the last report of a host could not be read."""
        self._lost, self._unread = lost, unread
        self._kind_alone = kind_alone
        self._limits = limits
        self._reports: dict[AttemptId, ResidentReport] = {}
        self._ahead_s: dict[HostId, float] = {}
        self.passes = 0
        self.pass_seconds = 0.0

    def note(self, report: HostReported, sent_at: float) -> None:
        """Keep what a host reported of its residents, and how far its wall clock is ahead of ours: the report was sent at
        `sent_at` by ours."""
        self._ahead_s[report.host] = report.at - sent_at
        self._reports.update({resident.attempt: resident for resident in report.residents})

    def draw(
        self,
        state: State,
        now: float,
        dispatcher: DispatcherStatus,
        drift: Mapping[str, Any] | None = None,
        starts: StartEstimates | None = None,
        wall_offset: float = 0.0,
    ) -> bytes:
        """The view as JSON. `dispatcher` has the policy and the model that serve; `drift` is what `Drift.report` returns.
        `wall_offset` brings the times of the state to wall time."""
        self._reports = {attempt: report for attempt, report in self._reports.items() if attempt in state.attempts}
        reserved = {
            device: reservation.job for reservation in state.reservations.values() for device in reservation.devices
        }
        devices = state.devices.values()
        jobs, newcomer = starts.shown() if starts else ({}, None)
        return encode(
            LiveView(
                at=now + wall_offset,
                dispatcher=msgspec.structs.replace(
                    dispatcher, pid=os.getpid(), passes=self.passes, pass_seconds=self.pass_seconds
                ),
                devices=tuple(
                    self._device(state, device, now, wall_offset, reserved.get(device.id)) for device in devices
                ),
                hosts=tuple(self._hosts(state, wall_offset)),
                drift=None if drift is None else msgspec.convert(drift, DriftStatus),
                starts={int(job): (p50 + wall_offset, p90 + wall_offset) for job, (p50, p90) in jobs.items()},
                starts_checked=starts is None or starts.are_checked,
                uses=tuple(_uses(state, now)),
                start_accuracy=starts.accuracy() if starts else None,
                newcomer_start=newcomer and (newcomer[0] + wall_offset, newcomer[1] + wall_offset),
            )
        )

    def _hosts(self, state: State, wall_offset: float) -> Iterator[HostStatus]:
        """Every host that has devices, has reported, or is drained, by name."""
        for name in sorted({*state.index.devices_of, *state.hosts, *state.drained}):
            host = state.hosts.get(name)
            reported_at = None if host is None else host.last_seen + wall_offset
            drained, lost = state.drained.get(name), self._lost(name)
            no_starts = None if host is None else host.no_starts
            unread, ahead_s = self._unread.get(name), self._ahead_s.get(name)
            yield HostStatus(name, reported_at, drained, lost, unread, no_starts, ahead_s)

    def _device(
        self, state: State, device: Device, now: float, wall_offset: float, reserved_for: JobId | None
    ) -> DeviceStatus:
        reading = state.readings.get(device.id)
        if reading is not None and now - reading.at > self._limits.stale_after_s:
            reading = None
        snapshot = DeviceSnapshot(device, state.residents_of(device.id), reading)
        host = state.hosts.get(device.host)
        status = DeviceStatus.of(
            device,
            promised_memory_bytes=sum(snapshot.promised_here(attempt) for attempt in snapshot.residents),
            reserved_for=reserved_for,
            drained=state.drained.get(device.host),
            no_starts=None if host is None else host.no_starts,
            residents=tuple(
                self._resident(state, device, attempt, now, wall_offset)
                for attempt in state.residents.get(device.id, ())
            ),
        )
        if reading is None:
            return status
        return msgspec.structs.replace(
            status,
            used_memory_bytes=reading.used_memory,
            foreign_memory_bytes=reading.foreign_memory,
            foreign_utilization_pct=reading.foreign_utilization_pct,
            utilization_pct=reading.utilization_pct,
            unwell=reading.unwell,
            vitals=reading.vitals,
            processes_visible=reading.processes_visible,
            read_at=reading.at + wall_offset,
        )

    def _resident(
        self, state: State, device: Device, attempt_id: AttemptId, now: float, wall_offset: float
    ) -> ResidentStatus:
        attempt = state.attempts[attempt_id]
        report = self._reports.get(attempt_id)
        partners = [state.attempts[other] for other in state.residents.get(device.id, ()) if other != attempt_id]
        cost = None
        if partners and report is not None and report.rates is not None:
            # What the present partners cost it so far. None before there is a window with them and a rate alone.
            cost = next(slowdowns_of(report.rates, self._kind_alone(attempt.kind, device.type)), None)
        return ResidentStatus(
            **({name: getattr(report, name) for name in _NUMBERS} if report else {}),
            job=attempt_id.job,
            attempt=attempt_id.number,
            slowdown=cost.value if cost else None,
            slowdown_basis=cost.basis if cost else None,
            expected_slowdown=_expected_slowdown(attempt, partners),
            slowdown_account=account_of(attempt, self._limits, now),
            paused_for=None if attempt.paused_for is None else attempt.paused_for.job,
            lent_cores=attempt.lent,
            warned_of_idleness=_is_warned(attempt),
            started_at=None if attempt.started_at is None else attempt.started_at + wall_offset,
            partners=tuple(sorted(partner.id.job for partner in partners)),
            promised_bytes=attempt.promised[attempt.devices.index(device.id)],
            revised=attempt.forecast if attempt.revised else None,
        )


def _is_warned(attempt: Attempt) -> bool:
    """Whether it was warned that it uses no device, and has used none since."""
    idle_s, heard_at, warned_at = attempt.idle_s, attempt.last_reported, attempt.warned_at
    if idle_s is None or heard_at is None or warned_at is None:
        return False
    return warned_at >= heard_at - idle_s


def _uses(state: State, now: float) -> Iterator[AccountUse]:
    """What each account with a quota uses, by name."""
    use = QuotaPass(state, now)
    for account in sorted({*state.served, *state.index.running_of}) if state.quotas else ():
        if (quota := quota_of(account, state.quotas)) is not None:
            hours = use.device_s(account, quota.window_s) / HOUR_S
            yield AccountUse(account.scope.value, account.name, use.devices(account), hours)


def _expected_slowdown(attempt: Attempt, partners: Sequence[Attempt]) -> float | None:
    """The slowdown that was forecast when the later of two attempts was launched.

    Of three or more only the last has one: its forecast was made beside all the others, theirs were not.
    """
    if not partners:
        return None
    if all(partner.launched_at <= attempt.launched_at for partner in partners):
        return attempt.forecast.expected_slowdown
    if len(partners) > 1:
        return None
    return next((cost.resident for cost in partners[0].forecast.pairs if cost.beside == attempt.kind), None)
