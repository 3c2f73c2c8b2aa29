"""The live picture: devices, residents and readings as of now, for the API to serve. Lost and made again without harm."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from gpuq.core.admit import Place
from gpuq.core.attempt import AttemptId
from gpuq.core.device import Device, DeviceId
from gpuq.core.events import HostReported, ResidentReport
from gpuq.core.state import State
from gpuq.daemon.starts import Starts


class View:
    """Keeps the last report of each resident, which the core does not need."""

    def __init__(self, stale_after_s: float) -> None:
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
        starts: Starts | None = None,
    ) -> bytes:
        """The picture as JSON. `dispatcher`: what it says of itself beside its passes; `drift` is what `Drift.report` says."""
        self.forget_gone(state)
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
                "starts": starts.jobs if starts else {},
                "newcomer_start": starts.newcomer if starts else None,
                "devices": [self._device(state, device, now) for device in state.devices.values()],
            }
        )

    def _device(self, state: State, device: Device, now: float) -> dict[str, Any]:
        reading = state.readings.get(device.id)
        if reading is not None and now - reading.at > self._stale_after_s:
            reading = None
        place = Place(device, state.residents_of(device.id), reading)
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
            "promised_memory_bytes": sum(place.promised_here(attempt) for attempt in place.residents),
            "utilization_pct": reading.utilization_pct if reading else None,
            "unwell": reading.unwell if reading else None,
            "vitals": reading.vitals if reading else None,
            "processes_visible": reading.processes_visible if reading else None,
            "read_at": reading.at if reading else None,
            "residents": [self._resident(state, device.id, attempt) for attempt in state.residents.get(device.id, ())],
        }

    def _resident(self, state: State, device: DeviceId, attempt_id: AttemptId) -> dict[str, Any]:
        attempt = state.attempts[attempt_id]
        seen = self._reports.get(attempt_id)
        return {
            "job": attempt_id.job,
            "attempt": attempt_id.number,
            "memory_bytes": seen.memory_bytes if seen else None,
            "utilization_pct": seen.utilization_pct if seen else None,
            "steps": seen.steps if seen else None,
            "rate": seen.rate if seen else None,
            "blink": seen.blink if seen else None,
            "not_counted": seen.not_counted if seen else None,
            "step_processes": seen.step_processes if seen else None,
            "started_at": attempt.started_at,
            "partners": sorted(other.job for other in state.residents.get(device, ()) if other != attempt_id),
        }
