"""The lease of the host's name: one worker service at a time has it, even after the disk of a host was copied to another machine.

A copied home has every file of the original, so no file can tell the two apart. They differ in where the home is: its folder, and
the boot of the machine. Both together make the instance. The record holds which instance has the name. It renews its lease; once
it has not for `LEASE_S`, another instance may take over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import closing

from gpuq.adapters.process import boot_id
from gpuq.adapters.store.contract import Claims
from gpuq.adapters.store.row_types import LEASE_S, NameLease
from gpuq.core.state.device import NoStarts
from gpuq.errors import Conflict, GpuqError, Unreachable
from gpuq.home import Home, instance_id

log = logging.getLogger(__name__)

_RENEW_EVERY_S = 5.0
_TRY_EVERY_S = 1.0


def instance_of(home: Home) -> str:
    """The id of this home on this boot of this machine: one for all its processes, another for a copy and after a reboot."""
    return instance_id(home, boot_id())


class HostLease:
    """The lease of one host name for one instance. `open_claims` opens the record, and while it raises Unreachable, `take` waits.

    The record is closed again after each renewal: no connection to the database stays open for a statement every five seconds.
    """

    def __init__(
        self, open_claims: Callable[[], Claims], host: str, instance: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._open, self._host, self._instance, self._clock = open_claims, host, instance, clock
        self.unreachable: NoStarts | None = None
        """Why and since when the record cannot be reached: no attempt could be claimed meanwhile."""

    async def take(self) -> None:
        """Wait until the lease is ours. Raises Conflict as soon as another instance renews it, because that one is alive."""
        seen: NameLease | None = None
        while True:
            lease = await self._renew(Unreachable)
            if lease is not None and lease.instance == self._instance:
                return
            if lease is not None:
                if seen is not None and lease != seen:
                    raise self._conflict()
                if seen is None:
                    log.warning("another machine or home had the host name %s a moment ago; waiting", self._host)
                seen = lease
            await asyncio.sleep(_TRY_EVERY_S)

    async def keep(self) -> None:
        """Renew the lease until cancelled, whatever error the main host answers. Raises Conflict if another instance has it."""
        while True:
            await asyncio.sleep(_RENEW_EVERY_S)
            lease = await self._renew(GpuqError, OSError)
            if lease is not None and lease.instance != self._instance:
                raise self._conflict()

    async def _renew(self, *passing: type[Exception]) -> NameLease | None:
        """The lease after an attempt to renew it; None if that failed with one of these errors."""
        try:
            lease = await asyncio.to_thread(self._lease)
            self.unreachable = None
            return lease
        except passing as error:
            since = self._clock() if self.unreachable is None else self.unreachable.since_at
            self.unreachable = NoStarts(f"it cannot reach the record: {error}"[:600], since)
            log.warning("the lease of the host name could not be renewed: %s", error, extra={"action": "lease"})
            return None

    def _lease(self) -> NameLease:
        with closing(self._open()) as store:
            return store.lease_host(self._host, self._instance)

    def _conflict(self) -> Conflict:
        return Conflict(
            f"Another machine or home runs the worker service of host {self._host}.",
            fix=f"Set another `host` under [worker] here, or stop that one and wait {LEASE_S:.0f} s.",
        )
