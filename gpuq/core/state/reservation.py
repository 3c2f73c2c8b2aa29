"""Devices that are set aside for one waiting job, as a reservation in Slurm.

A reservation is part of the state: `Reserve` makes it, `EndReservation` ends it, and it ends by itself when its job stops
waiting. Without reservations, small jobs could keep a device busy for ever and a large job would never find it free.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpuq.core.state.device import DeviceId
from gpuq.core.state.job import JobId


class ReservationReason(StrEnum):
    """Why devices are reserved, which also says when the reservation ends.

    `OVERDUE`: the job waited beyond its patience. Other devices are chosen when they will be free sooner, and the reservation
    ends when the policy no longer tries to start the job. `PREEMPTION`: running jobs are being stopped to make room for the
    job. The reservation ends once the devices are empty and the job has been tried on them.
    """

    OVERDUE = "overdue"
    PREEMPTION = "preemption"


@dataclass(frozen=True, slots=True)
class Reservation:
    """The devices, sorted by id, that are reserved for `job`; as many as the job needs, of as many hosts."""

    job: JobId
    devices: tuple[DeviceId, ...]
    reason: ReservationReason = ReservationReason.OVERDUE
