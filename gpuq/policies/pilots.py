"""How many pilots a pool requests, with how many devices each, and which of the waiting ones it takes back. Pure.

A pilot is a job of another scheduler (Slurm) that offers its devices to gpuq's jobs. Its device-hours are charged whether a job
uses them or not, from its start until it has been idle for a while. So a pilot for every job ends the jobs soonest, and one that
is requested for little work costs more than it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf


@dataclass(frozen=True, slots=True)
class Demand:
    """What a waiting job asks for, or one that runs still takes up of its device.

    `utilization_pct`: its predicted peak, None where it is unknown or the job does not share. `lasts_s` is the time that it is
    expected to take, `longest_s` the time in which it will have ended; None where unknown, and for `longest_s` also where it
    does not matter, because the job saves its work. A job over several hosts is one of these for each, all with its number as
    `gang`: no two of them are on one pilot.
    """

    devices: int = 1
    utilization_pct: float | None = None
    lasts_s: float | None = None
    longest_s: float | None = None
    gang: int | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """What was granted to a pilot, or is to be.

    `residents`: for each device the jobs on it, of which `lasts_s` is the time that they are expected to take yet. `left_s`: how
    long jobs may still start there. `started`: whether it has joined.
    """

    id: int
    residents: tuple[tuple[Demand, ...], ...]
    left_s: float
    started: bool


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Pilots have at most `devices` each, jobs start there for `time_s`, and there are at most `most` at once. `device_hours` may
    still be requested, None: any; a pilot takes them for `charged_s` at most. So many `residents` share a device at most."""

    devices: int
    most: int
    time_s: float
    charged_s: float
    device_hours: float | None = None
    residents: int = 2


@dataclass(frozen=True, slots=True)
class Requests:
    """Request a pilot of each of these sizes (devices), and take back these, which have not started. `wanted`: the pilots that
    waiting jobs could use; `left`: the jobs that need others."""

    request: tuple[int, ...] = ()
    cancel: tuple[int, ...] = ()
    wanted: frozenset[int] = frozenset()
    left: tuple[Demand, ...] = ()


@dataclass(frozen=True, slots=True)
class Horizon:
    """Work that the present devices can do within so many seconds requests no more of them. With `beside` jobs count as sharing
    a device, by their predicted use; else a device has room only after its last job: one that waits was refused beside it."""

    seconds: float
    beside: bool = False


def eager(idle_s: float, queue_wait_s: float, longest_s: float) -> Horizon:  # noqa: ARG001 - the interface of a scaling policy
    """Every job that waits is to start at once."""
    return Horizon(0.0)


def steady(idle_s: float, queue_wait_s: float, longest_s: float) -> Horizon:  # noqa: ARG001 - as above
    """Only as many pilots as have more work than they will be idle at their end, and than the others do until they start."""
    return Horizon(max(idle_s, queue_wait_s))


def thrifty(idle_s: float, queue_wait_s: float, longest_s: float) -> Horizon:
    """No pilot so that other jobs end sooner than the longest of them does anyway."""
    return Horizon(max(idle_s, queue_wait_s, longest_s), beside=True)


# The arguments are the time after which an idle pilot ends, the usual wait in the other scheduler's queue, and the longest time
# that any job there is expected to take yet. In seconds.
SCALING: dict[str, Callable[[float, float, float], Horizon]] = {"eager": eager, "steady": steady, "thrifty": thrifty}


def horizon(
    scaling: str, idle_s: float, queue_wait_s: float, waiting: Iterable[Demand], pilots: Iterable[Allocation]
) -> Horizon:
    """That of the policy of this name for these jobs and the jobs on these pilots."""
    running = chain.from_iterable(on for pilot in pilots for on in pilot.residents)
    lasts = [job.lasts_s for job in (*waiting, *running) if job.lasts_s is not None]
    return SCALING[scaling](idle_s, queue_wait_s, max(lasts, default=0.0))


def fits(job: Demand, limits: PoolLimits) -> bool:
    """Whether a new pilot of the pool could run the job."""
    return job.devices <= limits.devices and (job.longest_s or 0.0) <= limits.time_s


def plan(limits: PoolLimits, waiting: Iterable[Demand], pilots: Sequence[Allocation], horizon: Horizon) -> Requests:
    """The pilots that the waiting jobs need beyond those that are there.

    The jobs are packed onto the devices that are there and onto those that were requested, the largest first; what is left needs
    more. A job that shares takes up the part of a device that it is predicted to use, and at least that of one of `residents`; a
    job shorter than the horizon takes up that part of it, so several follow each other on one device. A job that no pilot can run
    is not counted.
    """
    possible: list[Demand] = []
    impossible: list[Demand] = []
    for job in waiting:
        (possible if fits(job, limits) else impossible).append(job)
    jobs = sorted(possible, key=lambda job: (job.devices, _part(job, horizon.seconds, limits.residents)), reverse=True)
    wanted: set[int] = set()
    cancel: list[int] = []
    request: list[int] = []
    # Those requested last are taken back first: the others have waited longer in the queue.
    for pilot in sorted(pilots, key=lambda one: (not one.started, one.id)):
        jobs, used = _fill(pilot.residents, pilot.left_s, jobs, horizon, limits.residents)
        if used:
            wanted.add(pilot.id)
        elif not pilot.started:
            cancel.append(pilot.id)
    hours = inf if limits.device_hours is None else limits.device_hours
    while jobs and len(pilots) - len(cancel) + len(request) < limits.most:
        affordable = min(limits.devices, int(hours * 3600 / limits.charged_s)) if hours < inf else limits.devices
        jobs, used = _fill(((),) * affordable, limits.time_s, jobs, horizon, limits.residents)
        if not used:
            break
        request.append(used)
        hours -= used * limits.charged_s / 3600
    return Requests(tuple(request), tuple(cancel), frozenset(wanted), (*jobs, *impossible))


def _part(job: Demand, horizon_s: float, residents: int) -> float:
    """The part of a device within the horizon that the job takes up, or of each of its devices."""
    percent = None if job.devices > 1 else job.utilization_pct
    share = 1.0 if percent is None else min(1.0, max(percent / 100, 1 / residents))
    return share if job.lasts_s is None or job.lasts_s >= horizon_s else share * max(1.0, job.lasts_s) / horizon_s


def _room(on: Sequence[Demand], horizon: Horizon, residents: int) -> float:
    """The part of a device that is free within the horizon."""
    if not on:
        return 1.0
    if horizon.beside:
        return max(0.0, 1 - sum(_part(job, horizon.seconds, residents) for job in on))
    free_in_s = max(inf if job.lasts_s is None else job.lasts_s for job in on)
    return max(0.0, 1 - free_in_s / horizon.seconds) if horizon.seconds else 0.0


def _fill(
    devices: Sequence[Sequence[Demand]], left_s: float, jobs: Sequence[Demand], horizon: Horizon, residents: int
) -> tuple[list[Demand], int]:
    """Put jobs onto the devices of one pilot, first fit. Returns the jobs without room, and how many devices have one now."""
    room = [_room(on, horizon, residents) for on in devices]
    used: set[int] = set()
    gangs: set[int] = set()
    rest: list[Demand] = []
    for number, job in enumerate(jobs):
        if max(room, default=0.0) <= 0.0:
            return [*rest, *jobs[number:]], len(used)
        part = _part(job, horizon.seconds, residents)
        places = [place for place, left in enumerate(room) if part <= left + 1e-9][: job.devices]
        late = left_s <= 0 or (job.longest_s or 0.0) > left_s
        if len(places) < job.devices or late or job.gang in gangs:
            rest.append(job)
            continue
        if job.gang is not None:
            gangs.add(job.gang)
        for place in places:
            room[place] -= part
        used.update(places)
    return rest, len(used)
