"""The live picture: devices, residents and readings as of now, for the API to serve. Lost and made again without harm."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from gpuq.core.measuring.slowdown import Rate, Slowdown, slowdowns_of
from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.events import HostReported, ResidentReport
from gpuq.core.state.job import KindId
from gpuq.core.state.state import State
from gpuq.daemon.start_estimates import StartEstimates


class View:
    """Keeps the last report of each resident, which the core does not need."""

    def __init__(self, stale_after_s: float, kind_alone: Callable[[KindId, str], Rate | None]) -> None:
        """`kind_alone`: the usual rate of a kind with no partner on a type of device."""
        self._kind_alone = kind_alone
        self._stale_after_s = stale_after_s
        self._reports: dict[AttemptId, ResidentReport] = {}
        self.passes = 0
        self.pass_seconds = 0.0

    def note(self, report: HostReported) -> None:
        """Take up what a host said of its residents."""
        self._reports.update({resident.attempt: resident for resident in report.residents})

    def forget_gone(self, state: State) -> None:
        """Drop what belongs to attempts that have ended."""
        self._reports = {attempt: r for attempt, r in self._reports.items() if attempt in state.attempts}

    def draw(
        self,
        state: State,
        now: float,
        dispatcher: Mapping[str, Any],
        drift: dict[str, Any] | None = None,
        starts: StartEstimates | None = None,
        kept: Collection[DeviceId] = (),
    ) -> bytes:
        """The picture as JSON. `dispatcher`: what it says of itself beside its passes; `drift` is what `Drift.report` says;
        `kept` are devices kept free for a job that has waited long."""
        self.forget_gone(state)
        jobs, newcomer = starts.calibrated() if starts else ({}, None)
        return msgspec.json.encode(
            {
                "at": now,
                "dispatcher": {
                    "pid": os.getpid(),
                    "passes": self.passes,
                    "pass_seconds": self.pass_seconds,
                    **dispatcher,
                },
                "drift": drift,
                "starts": jobs,
                "newcomer_start": newcomer,
                "devices": [self._device(state, device, now, device.id in kept) for device in state.devices.values()],
            }
        )

    def _device(self, state: State, device: Device, now: float, reserved: bool) -> dict[str, Any]:
        reading = state.readings.get(device.id)
        if reading is not None and now - reading.at > self._stale_after_s:
            reading = None
        snapshot = DeviceSnapshot(device, state.residents_of(device.id), reading)
        return {
            "id": device.id,
            "host": device.host,
            "backend": device.backend,
            "type": device.type,
            "total_memory_bytes": device.total_memory,
            "sharing": device.sharing,
            "index": device.index,
            "used_memory_bytes": reading.used_memory if reading else None,
            "foreign_memory_bytes": reading.foreign_memory if reading else None,
            "foreign_utilization_pct": reading.foreign_utilization_pct if reading else None,
            "promised_memory_bytes": sum(snapshot.promised_here(attempt) for attempt in snapshot.residents),
            "utilization_pct": reading.utilization_pct if reading else None,
            "unwell": reading.unwell if reading else None,
            "reserved": reserved,
            "vitals": reading.vitals if reading else None,
            "processes_visible": reading.processes_visible if reading else None,
            "read_at": reading.at if reading else None,
            "residents": [self._resident(state, device, attempt) for attempt in state.residents.get(device.id, ())],
        }

    def _resident(self, state: State, device: Device, attempt_id: AttemptId) -> dict[str, Any]:
        attempt = state.attempts[attempt_id]
        seen = self._reports.get(attempt_id)
        partners = [state.attempts[other] for other in state.residents.get(device.id, ()) if other != attempt_id]
        cost = self._slowdown(attempt, device, seen) if partners else None
        return {
            "job": attempt_id.job,
            "attempt": attempt_id.number,
            "memory_bytes": seen.memory_bytes if seen else None,
            "utilization_pct": seen.utilization_pct if seen else None,
            "steps": seen.steps if seen else None,
            "rate": seen.rate if seen else None,
            "slowdown": cost.value if cost else None,
            "slowdown_basis": cost.basis if cost else None,
            "expected_slowdown": _expected_slowdown(attempt, partners),
            "blink": seen.blink if seen else None,
            "not_counted": seen.not_counted if seen else None,
            "step_processes": seen.step_processes if seen else None,
            "started_at": attempt.started_at,
            "partners": sorted(partner.id.job for partner in partners),
        }

    def _slowdown(self, attempt: Attempt, device: Device, seen: ResidentReport | None) -> Slowdown | None:
        """What its present partners cost it so far, as measured; None before there is a window with them and a rate alone."""
        if seen is None or seen.rates is None:
            return None
        return next(slowdowns_of(seen.rates, self._kind_alone(attempt.kind, device.type)), None)


def _expected_slowdown(attempt: Attempt, partners: Sequence[Attempt]) -> float | None:
    """What was forecast when the later of two came; of three together nothing was, except of the one who came last."""
    if not partners:
        return None
    if all(partner.launched_at <= attempt.launched_at for partner in partners):
        return attempt.forecast.expected_slowdown
    if len(partners) > 1:
        return None
    return next((cost.resident for cost in partners[0].forecast.pairs if cost.beside == attempt.kind), None)
