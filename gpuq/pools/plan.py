"""How many pilots a pool requests, and which of the waiting ones it takes back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from gpuq.pools.pool import Pool


@dataclass(frozen=True)
class Waiting:
    """What a waiting job asks for. `utilization_pct`: its predicted peak, None if it is unknown or the job does not share."""

    devices: int
    utilization_pct: float | None = None

    @property
    def share(self) -> float:
        """The part of a device, or the number of devices, that it takes up."""
        if self.devices > 1 or self.utilization_pct is None:
            return float(self.devices)
        return min(1.0, max(self.utilization_pct / 100, 1 / RESIDENTS_PER_DEVICE))


@dataclass(frozen=True)
class Allocation:
    """What Slurm gave to a pilot, or is to give. `idle_devices`: those without a job; None while it has not joined."""

    slurm_job: int
    name: str
    idle_devices: int | None = None


@dataclass(frozen=True)
class Requests:
    """Request so many pilots, and take back these, which Slurm has not started."""

    request: int
    cancel: tuple[int, ...] = ()


RESIDENTS_PER_DEVICE = 2
"""So many jobs share a device at most, unless a policy allows more."""


def plan(pool: Pool, waiting: Iterable[Waiting], pilots: Sequence[Allocation], hours_used: float) -> Requests:
    """The pilots that the waiting jobs need beyond the devices that are idle or on their way.

    Jobs that share take up the part of a device that they are expected to use, so several are counted for one device. A job that
    needs more devices than a pilot has is not counted: no pilot of this pool will ever run it.
    """
    size = max(1, pool.gpus)
    needed = sum(demand.share for demand in waiting if demand.devices <= size)
    coming = [pilot for pilot in pilots if pilot.idle_devices is None]
    idle = sum(pilot.idle_devices or 0 for pilot in pilots)
    wanted = ceil(max(0.0, needed - idle) / size)
    # Those requested last are taken back first: the others have waited longer in Slurm's queue.
    surplus = sorted(coming, key=lambda pilot: pilot.slurm_job)[wanted:]
    room = pool.most - len(pilots)
    if pool.most_hours is not None:
        hours_of_one = size * pool.time_limit_s / 3600
        room = min(room, int((pool.most_hours - hours_used - len(pilots) * hours_of_one) / hours_of_one))
    return Requests(max(0, min(wanted - len(coming), room)), tuple(pilot.slurm_job for pilot in surplus))
