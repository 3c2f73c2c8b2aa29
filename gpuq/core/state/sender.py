"""What a host may report: its own devices and attempts, and nothing of other hosts.

Each host signs with a key of its own, so the sender of a message is certain. What it claims of other hosts is left out here,
before the event is applied.
"""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, HostId
from gpuq.core.state.events import Exited, HostReported, Started
from gpuq.core.state.state import State

# A host that has been silent for so long loses its devices to a host that reports them: it was renamed, or the devices were
# moved. A restart of its worker service takes seconds.
KEEPS_DEVICES_S = 60.0

MOST_DEVICES = 1024
"""Of one host, those included that it does not report any more. Each report could name others, and each is kept in the record."""

HostEvent = Started | Exited | HostReported


def own_part(
    state: State, sender: HostId, event: HostEvent, *, now: float, listening_since: float
) -> tuple[HostEvent | None, list[str]]:
    """The part of `event` that is about `sender` itself, None if there is none; and the claims that were left out, in words.

    `listening_since`: since when reports have been received. A host that has not reported yet counts as heard then.
    """
    if not isinstance(event, HostReported):
        foreign = _is_foreign(state, sender, event.attempt)
        return (None, [f"attempt {event.attempt}"]) if foreign else (event, [])
    if event.host != sender:
        return None, [f"a report of host {event.host}"]
    own = {device.id for device in event.devices if _may_report(state, sender, device, now, listening_since)}
    known = state.index.devices_of.get(sender, {})
    own -= set(sorted(own - known.keys())[max(0, MOST_DEVICES - len(known)) :])
    foreign_attempts = [r.attempt for r in event.residents if _is_foreign(state, sender, r.attempt)]
    # A reading may be of a device that the report does not name.
    foreign_devices = {*(device.id for device in event.devices), *(device for device, _ in event.readings)} - own
    if not foreign_devices and not foreign_attempts:
        return event, []
    part = replace(
        event,
        devices=tuple(device for device in event.devices if device.id in own),
        readings=tuple((device, reading) for device, reading in event.readings if device in own),
        residents=tuple(resident for resident in event.residents if resident.attempt not in foreign_attempts),
    )
    return part, [
        *(f"device {device}" for device in sorted(foreign_devices)),
        *(f"attempt {a}" for a in foreign_attempts),
    ]


def _is_foreign(state: State, sender: HostId, attempt_id: AttemptId) -> bool:
    attempt = state.attempts.get(attempt_id)
    return attempt is not None and attempt.host != sender


def _may_report(state: State, sender: HostId, device: Device, now: float, listening_since: float) -> bool:
    registered = state.devices.get(device.id)
    if device.host != sender:
        return False
    if registered is None or registered.host == sender:
        return True
    owner = state.hosts.get(registered.host)
    last_heard = listening_since if owner is None else owner.last_seen
    # While an attempt of the silent host is on it, the job may still run there.
    return now - last_heard > KEEPS_DEVICES_S and device.id not in state.residents
