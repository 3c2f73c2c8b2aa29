"""Nouns with sane defaults, so that a test names only what it is about."""

from __future__ import annotations

from typing import Any

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.events import Exited, HostReported, ResidentReport, Started
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import Job, JobId, KindId

GIB = 2**30


def a_job(number: int = 1, **changes: Any) -> Job:
    kind = changes.pop("kind", "kind")
    values: dict[str, Any] = {
        "id": JobId(number),
        "kind": KindId(kind),
        "signature": changes.pop("signature", kind),
        "owner": "ada",
        "submitted_at": float(number),
        **changes,
    }
    return Job(**values)


def a_device(
    name: str = "gpu0",
    gib: float = 24,
    host: str = "host",
    type: str = "A",  # noqa: A002
    sharing: str | None = None,
    index: str | None = None,
) -> Device:
    return Device(DeviceId(name), HostId(host), "sim", type, int(gib * GIB), sharing, index)


def a_forecast(utilization: float | None = 40.0, gib: float | None = 4.0, **changes: Any) -> Forecast:
    memory = None if gib is None else int(gib * GIB)
    values = {
        "peak_utilization_pct": utilization,
        "peak_memory_bytes": memory,
        "upper_memory_bytes": memory,
        "evidence": "own history, 3 runs",
        **changes,
    }
    return Forecast(**values)


def a_reading(at: float = 0.0, **changes: Any) -> Reading:
    values = {"used_memory": 0, "utilization_pct": 0.0, "foreign_memory": 0, "foreign_utilization_pct": 0.0, **changes}
    return Reading(at=at, **values)


def a_report(
    *devices: Device,
    residents: tuple[ResidentReport, ...] = (),
    readings: dict[str, Reading] | None = None,
    host: str = "host",
    boot: str = "boot-1",
) -> HostReported:
    given = {DeviceId(name): reading for name, reading in (readings or {}).items()}
    seen = tuple((device.id, given.get(device.id, a_reading())) for device in devices)
    return HostReported(HostId(host), boot, 0.0, devices, seen, residents)


def a_resident(job: int, attempt: int = 1, gib: float | None = None) -> ResidentReport:
    memory = None if gib is None else int(gib * GIB)
    return ResidentReport(attempt=AttemptId(JobId(job), attempt), memory_bytes=memory, started_at=0.0)


def a_start(job: int, attempt: int = 1, at: float = 0.0) -> Started:
    return Started(AttemptId(JobId(job), attempt), at, 4242, "/log")


def an_exit(job: int, ending: Ending = Ending.EXITED, code: int | None = 0, attempt: int = 1) -> Exited:
    return Exited(AttemptId(JobId(job), attempt), 0.0, ending, code, "", Measurement())
