"""Changes of hosts and their devices. All return whether anything changed."""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.state.device import Host, HostId, NoStarts
from gpuq.core.state.events import HostReported
from gpuq.core.state.state import State, put_attempt

# As a host itself waits after a start that failed (`gpuq_workers.failed_starts`).
_FIRST_WAIT_S, _LONGEST_WAIT_S = 2.0, 60.0


def drain(state: State, host: HostId, why: str | None) -> bool:
    """Drain the host for this reason, or resume it for None."""
    if state.drained.get(host) == why:
        return False
    if why is None:
        del state.drained[host]
    else:
        state.drained[host] = why
    _touch_devices(state, host)
    return True


def forget_host(state: State, host: HostId) -> bool:
    """Remove the host and its devices, and the reservations there. Refused while it has an attempt."""
    devices = list(state.index.devices_of.get(host, ()))
    if any(attempt.host == host for attempt in state.attempts.values()):
        return False
    if not devices and host not in state.hosts and host not in state.drained:
        return False
    for reservation in list(state.reservations.values()):
        if not set(devices).isdisjoint(reservation.devices):
            del state.reservations[reservation.job]
    for device in devices:
        del state.devices[device]
        state.readings.pop(device, None)
    state.hosts.pop(host, None)
    state.drained.pop(host, None)
    state.index.host_forgotten(host)
    return True


def note_unanswered(state: State, host_id: HostId, now: float) -> None:
    """The host did not carry out an order: it starts no job for as long as it has carried out none, so that others do."""
    host = state.hosts.get(host_id)
    if host is None:
        return
    since_at = now if host.unanswered is None else host.unanswered.since_at
    wait_s = min(max(_FIRST_WAIT_S, now - since_at), _LONGEST_WAIT_S)
    unanswered = NoStarts("it reports, and did not carry out the last order to start a job", since_at, now + wait_s)
    state.hosts[host_id] = replace(host, no_starts=host.no_starts or unanswered, unanswered=unanswered)
    _touch_devices(state, host_id)


def note_answered(state: State, host_id: HostId) -> None:
    """The host has started a job. Its next report opens its devices again, if they were closed."""
    host = state.hosts.get(host_id)
    if host is not None and host.unanswered is not None:
        state.hosts[host_id] = replace(host, unanswered=None)


def _host_of(report: HostReported, before: Host | None, now: float) -> Host:
    unanswered = before.unanswered if before is not None and before.instance == report.instance else None
    waits = unanswered if unanswered is not None and (unanswered.again_at or 0.0) > now else None
    no_starts = report.no_starts or waits
    return Host(report.host, report.boot_id, now, report.instance, report.address, no_starts, unanswered)


def _touch_devices(state: State, host: HostId) -> None:
    for device in state.index.devices_of.get(host, ()):
        state.index.touch(device)


def record_report(state: State, report: HostReported, now: float) -> bool:
    """Replace what is known of the host: its devices, their readings, and the live numbers of its attempts."""
    state.hosts[report.host] = _host_of(report, state.hosts.get(report.host), now)
    for reported in report.devices:
        # A device that is said to have become smaller keeps what its residents were promised, until they end.
        promised = state.promised_on(reported.id)
        device = reported if reported.total_memory >= promised else replace(reported, total_memory=promised)
        state.index.device_changed(state.devices.get(device.id), device)
        state.devices[device.id] = device
    state.index.host_reported(report.host, now)
    for device_id in state.index.devices_of.get(report.host, ()):
        state.readings.pop(device_id, None)
    # The age of a reading counts from when its report was sent, as the caller gives it in `now`: hosts' clocks may differ.
    state.readings.update({device: replace(reading, at=now) for device, reading in report.readings})
    for resident in report.residents:
        attempt = state.attempts.get(resident.attempt)
        if attempt is not None and attempt.host == report.host:
            seen = replace(
                attempt,
                last_reported=now,
                live_memory=resident.memory_bytes,
                idle_s=resident.idle_s,
                slowed_s=resident.slowed_s,
                paused_s=resident.paused_s,
                not_pausable=resident.not_pausable,
                revoking=False,
            )
            put_attempt(state, seen)
    return True
