"""Who grants pilots: Slurm, and each place on a Kubernetes cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from gpuq.errors import GpuqError
from gpuq.messages.pilot import Pilot
from gpuq.pools.pilots import PilotFolders

log = logging.getLogger("gpuq.pools")

Place = tuple[str, ...] | None
"""`Pilot.where`: the options of kubectl that name a cluster and a namespace; None: Slurm."""


class Grantors:
    """`slurm` has the functions of `gpuq.adapters.slurm`, and `pods` those of a place on Kubernetes."""

    def __init__(self, folders: PilotFolders, slurm: Any, pods: Callable[[Sequence[str]], Any]) -> None:
        self._folders, self._slurm, self._pods = folders, slurm, pods

    def of(self, place: Place) -> Any:
        """Who granted the pilots of this place."""
        return self._slurm if place is None else self._pods(place)

    def end(self, pilots: Sequence[Pilot], *, if_waiting: bool = False) -> None:
        """Cancel pilots, once; no job counts on them any more. One whose number is not known has its turn when it is."""
        ending = [pilot for pilot in pilots if not pilot.ended_by_us and pilot.slurm_job is not None]
        for place, there in by_place(ending).items():
            grantor = self.of(place)
            try:
                (grantor.take_back if if_waiting else grantor.cancel)([pilot.slurm_job for pilot in there])
            except GpuqError as error:  # a cluster that does not answer; the other places have their turn
                log.warning("%d pilots were not ended: %s", len(there), error)
                continue
            for pilot in there:
                self._folders.save(replace(pilot, ended_by_us=True))


def by_place(pilots: Sequence[Pilot]) -> dict[Place, list[Pilot]]:
    """These pilots by the place that granted them."""
    found: dict[Place, list[Pilot]] = {}
    for pilot in pilots:
        found.setdefault(pilot.where, []).append(pilot)
    return found


def kind(pilot: Pilot) -> str:
    """What a pilot is there, for people."""
    return "Slurm job" if pilot.where is None else "Pod"
