"""Whether two jobs would have been put on one device, by the dispatcher's own admission and forecasts alone.

The device is empty but for the two and has memory for both, so utilisation and slowdown decide.
"""

from __future__ import annotations

from gpuq.core.scheduling.admit import DeviceSnapshot, admit
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import Job, JobId, KindId

_DEVICE = Device(id=DeviceId("h/0"), host=HostId("h"), backend="", type="", total_memory=2**60)
_IDLE = Reading(at=0.0, used_memory=0, utilization_pct=0.0, foreign_memory=0)


def would_share(kind: str, newcomer: Forecast, beside: str, resident: Forecast, limits: Limits) -> bool:
    """Whether `admit` lets the newcomer in beside the resident."""
    there = Attempt(
        id=AttemptId(JobId(1), 1),
        kind=KindId(beside),
        host=_DEVICE.host,
        devices=(_DEVICE.id,),
        promised=(resident.upper_memory_bytes or 0,),
        shares=resident.known,
        launched_at=0.0,
        forecast=resident,
    )
    job = Job(id=JobId(2), kind=KindId(kind), signature=kind, owner="", submitted_at=0.0)
    return admit(job, newcomer, DeviceSnapshot(_DEVICE, (there,), _IDLE), limits).admitted
