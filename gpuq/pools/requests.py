"""Requests for pilots: the folder, the invitation to join this gpuq, and what Slurm or Kubernetes is asked for."""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpuq import __version__
from gpuq.cli.client import HttpClient
from gpuq.errors import BadInput, GpuqError
from gpuq.messages.pilot import Pilot, PilotOrder
from gpuq.pools.grantors import Grantors, kind
from gpuq.pools.pilots import PilotFolders
from gpuq.pools.pod import manifest, where
from gpuq.pools.pool import Pool
from gpuq.pools.sbatch_options import takes_whole_node
from gpuq.pools.slurm_job import options, script
from gpuq.settings import GROUPS, Settings, setting_fields

log = logging.getLogger("gpuq.pools")

# A pilot ends by itself if this process does not end it for so long.
_WITHOUT_US_S = 300.0

# The groups that a worker service reads, with what each pilot has of its own.
_OF_EACH_PILOT = {
    "worker": {"host", "address", "run_as"},
    "devices": {"backend", "only", "until_at"},
    "learning": set[str](),
}


class PilotRequests:
    """Of one home. The worker services of its pilots have these `settings`, by group."""

    def __init__(
        self,
        folders: PilotFolders,
        grantors: Grantors,
        client: HttpClient,
        clock: Callable[[], float],
        settings: Mapping[str, dict[str, Any]],
    ) -> None:
        self._folders, self._grantors, self._client, self._clock = folders, grantors, client, clock
        self._settings = settings

    def request(self, one: Pool, gpus: int) -> None:
        """Request a pilot. Raises GpuqError. Where it is not known then whether there is a new Slurm job, the pilot stays, and is
        looked for."""
        name, now = f"{one.name}-{secrets.token_hex(3)}", self._clock()
        folder, place = self._folders.make(name), None if one.pod is None else where(one.pod)
        pilot = Pilot(
            name=name, pool=one.name, slurm_job=None, gpus=gpus, requested_at=now, invited_at=now, where=place
        )
        try:
            self.invite(name, one, gpus)
            # Before it is submitted: this process may end before the answer comes, or the answer be lost.
            self._folders.save(pilot)
        except (GpuqError, OSError):
            shutil.rmtree(folder, ignore_errors=True)
            raise
        try:
            number = self._submit(one, gpus, folder)
        except BadInput:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._folders.save(replace(pilot, slurm_job=number))
        log.info("pool %s requested pilot %s, %s %d", one.name, name, kind(pilot), number, extra={"action": "request"})

    def _submit(self, one: Pool, gpus: int, folder: Path) -> int:
        """The number of the Slurm job or pod. Raises BadInput, and Unreachable where it is not known whether there is one."""
        if one.pod is None:
            number: int = self._grantors.of(None).submit(script(folder), options(one, gpus, folder))
            return number
        number = int(self._clock() * 1000) * 1000 + secrets.randbelow(1000)
        self._grantors.of(where(one.pod)).submit(manifest(one, one.pod, gpus, folder, number))
        return number

    def invite(self, name: str, one: Pool, gpus: int) -> None:
        """Order the pilot to join, with a new secret. Raises GpuqError."""
        invited = self._client.post(f"/api/v1/hosts/{name}/add")
        self._folders.order(
            PilotOrder(
                main=invited["main"],
                fingerprint=invited["fingerprint"],
                host=name,
                secret=invited["secret"],
                idle_s=one.idle_s + _WITHOUT_US_S,
                gpus=gpus,
                version=__version__,
                lasts_s=None if one.pod is None else one.time_limit_s,
                whole_node=takes_whole_node(one.sbatch),
                settings=dict(self._settings),
            )
        )


def settings_for(settings: Settings) -> dict[str, dict[str, Any]]:
    """What is set here for worker services, by group: pilots have the same."""
    found: dict[str, dict[str, Any]] = {}
    for group, own in _OF_EACH_PILOT.items():
        here, usual = getattr(settings, group), GROUPS[group]()
        values = {name: getattr(here, name) for name in setting_fields(group) if name not in own}
        found[group] = {name: value for name, value in values.items() if value != getattr(usual, name)}
    return found
