"""Cores that a host's CPU devices do not need: which are idle, and their loans to attempts that can use them.

A core is idle while no attempt is on the device that it belongs to. A loan never keeps a job waiting: the cores of a device are
reclaimed before an attempt is launched on it.
"""

from __future__ import annotations

from dataclasses import replace

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import HostId
from gpuq.core.state.state import State, put_attempt


def idle_cores(state: State, host: HostId) -> set[int]:
    """The cores of the host's devices that no attempt is on, lent or not."""
    devices = [state.devices[device] for device in state.index.devices_of.get(host, ())]
    # A core may be of several devices: those from before the host's cores were divided otherwise stay known.
    busy = {core for device in devices if state.residents.get(device.id) for core in device.cores}
    return {core for device in devices for core in device.cores} - busy


def lent_cores(state: State, host: HostId, *, but: AttemptId | None = None) -> set[int]:
    """The cores of the host that are lent, without those of `but`."""
    return {
        core
        for attempt in state.attempts.values()
        if attempt.lent and attempt.host == host and attempt.id != but
        for core in attempt.lent
    }


def lend(state: State, attempt_id: AttemptId, cores: tuple[int, ...]) -> bool:
    """Refused are cores that are not idle or lent to another, more than the job can use, and an attempt that is to end."""
    attempt = state.attempts.get(attempt_id)
    if attempt is None or attempt.stopping is not None or attempt.started_at is None or attempt.lent == cores:
        return False
    free = idle_cores(state, attempt.host) - lent_cores(state, attempt.host, but=attempt_id)
    if len(cores) > state.jobs[attempt_id.job].lend_cores or not free.issuperset(cores):
        return False
    put_attempt(state, replace(attempt, lent=cores))
    return True


def reclaim(state: State, attempt_id: AttemptId, cores: tuple[int, ...]) -> bool:
    """Refused where it has none of these."""
    attempt = state.attempts.get(attempt_id)
    if attempt is None or set(attempt.lent).isdisjoint(cores):
        return False
    put_attempt(state, replace(attempt, lent=tuple(core for core in attempt.lent if core not in cores)))
    return True
