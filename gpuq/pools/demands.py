"""What jobs need of pilots, as the API shows it: those that wait, and those that are on the devices already."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpuq.cli.client import HttpClient
from gpuq.policies.pilots import Demand

# Jobs that wait by these rules would not start if there were more devices.
_NOT_FOR_A_DEVICE = {
    *("Dependency", "Singleton", "BeginTime", "Backoff", "ArrayLimit", "DeviceQuota", "DeviceHoursQuota"),
    *("Postponed", "WaitLimit"),
}
# What a verdict of NeverFits names where the hosts of now are too few or have too few devices, which other pilots may mend.
_TOO_FEW = {"wanted_devices", "wanted_hosts"}
_LEFT_OF_OVERDUE = 0.1
_PAGE = 1000


def waiting(client: HttpClient) -> list[Demand]:
    """What the oldest waiting jobs need, until there are more than any pool could serve."""
    found: list[Demand] = []
    after = None
    while len(found) < _PAGE:
        where = {"state": "pending", "owner": "all", "order": "oldest"}
        page = client.get("/api/v1/jobs", limit=_PAGE, after=after, **where)
        found += [part for job in page["jobs"] if _waits_for_devices(job["verdict"]) for part in _demands(job)]
        after = page["next"]
        if after is None:
            break
    return found


def _waits_for_devices(verdict: Mapping[str, Any] | None) -> bool:
    """Whether a job with this verdict would start if there were more devices, or more of them in one place."""
    if verdict is None:
        return True
    if verdict["rule"] == "NeverFits":
        return not _TOO_FEW.isdisjoint(verdict["numbers"])
    return verdict["rule"] not in _NOT_FOR_A_DEVICE


def _demands(job: dict[str, Any]) -> list[Demand]:
    """What a waiting job asks for on each of its hosts, as the API shows it."""
    forecast, limit_s = job["forecast"] or {}, job["time_limit_s"]
    usual_s = forecast.get("duration_p50_s")
    longest_s = forecast.get("duration_p90_s") if limit_s is None else limit_s
    hosts = job["wanted_hosts"]
    part = Demand(
        devices=job["gpus"] // hosts,
        utilization_pct=forecast.get("peak_utilization_pct") if job["share"] == "auto" else None,
        lasts_s=min((one for one in (usual_s, limit_s) if one is not None), default=None),
        longest_s=None if job["preemptible"] else longest_s,
        gang=job["id"] if hosts > 1 else None,
    )
    return [part] * hosts


def on_device(device: dict[str, Any], now: float) -> tuple[Demand, ...]:
    """What the jobs on a device still take up of it."""
    return tuple(_resident(one, device["total_memory_bytes"], now) for one in device["residents"])


def _resident(resident: dict[str, Any], total_bytes: int, now: float) -> Demand:
    forecast = resident["forecast"] or {}
    shares = resident["promised_bytes"] is not None and resident["promised_bytes"] < total_bytes
    percent, usual_s = forecast.get("peak_utilization_pct") if shares else None, forecast.get("duration_p50_s")
    if usual_s is None or resident["started_at"] is None:
        return Demand(utilization_pct=percent)
    began = datetime.fromisoformat(resident["started_at"]).timestamp()
    # One that takes longer than usual may take a while yet.
    return Demand(utilization_pct=percent, lasts_s=max(began + usual_s - now, _LEFT_OF_OVERDUE * usual_s))
