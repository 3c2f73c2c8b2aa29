"""Loans of idle cores: a job that was submitted with `--lend-cores` may use cores of its host's CPU devices that no job is on.

A device with lent cores is free to every job. Its cores are reclaimed in the pass that launches one there, or that sets it
aside; so they are back before the job's process starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.actions import Lend, Reclaim
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.core_loans import idle_cores, lent_cores
from gpuq.core.state.device import DeviceId
from gpuq.core.state.state import State


def reclaims(state: State, devices: Iterable[DeviceId]) -> Iterator[Reclaim]:
    """Take back the cores of these devices."""
    wanted = {(state.devices[device].host, core) for device in devices for core in state.devices[device].cores}
    for attempt in state.attempts.values() if wanted else ():
        back = tuple(core for core in attempt.lent if (attempt.host, core) in wanted)
        if back:
            yield Reclaim(attempt.id, back)


def loan_actions(context: SchedulingContext) -> Iterator[Lend | Reclaim]:
    """Reclaim what is set aside, and lend what is idle, to the attempts that were launched first."""
    state = context.state
    borrowers = [attempt for attempt in state.attempts.values() if state.jobs[attempt.id.job].lend_cores]
    if not borrowers:
        return
    aside = {device for reservation in state.reservations.values() for device in reservation.devices}
    aside |= {device for one in state.bookings.values() if one.from_at <= context.now for device in one.devices}
    aside |= {device.id for device in state.devices.values() if device.host in state.drained}
    # The cores of devices that this pass has given were reclaimed before the launch.
    yield from reclaims(state, (device for device in aside & state.devices.keys() if not context.given(device)))
    taken = {core for id_ in state.devices if id_ in aside or context.given(id_) for core in _cores(state, id_)}
    for host in dict.fromkeys(attempt.host for attempt in borrowers):
        idle = {core for core in idle_cores(state, host) - lent_cores(state, host) if (host, core) not in taken}
        free = sorted(idle)
        for attempt in borrowers:
            if attempt.host != host or not _may_borrow(context, attempt):
                continue
            kept = tuple(core for core in attempt.lent if (host, core) not in taken)
            wanted = state.jobs[attempt.id.job].lend_cores - len(kept)
            more, free = free[:wanted], free[wanted:]
            if more:
                yield Lend(attempt.id, (*kept, *more))


def _may_borrow(context: SchedulingContext, attempt: Attempt) -> bool:
    """Whether it runs and nothing is about to end it."""
    if attempt.started_at is None or attempt.stopping is not None or attempt.id in context.evicted:
        return False
    return not context.state.jobs[attempt.id.job].cancel_requested


def _cores(state: State, device: DeviceId) -> Iterator[tuple[str, int]]:
    at = state.devices[device]
    return ((at.host, core) for core in at.cores)
