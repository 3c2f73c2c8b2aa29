"""Notices at once that a shim has ended, through its pidfd. Files alone are looked at ten times a second, and until then the
device of a job that has ended would stand idle.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Set as AbstractSet
from contextlib import suppress

from gpuq.adapters.process import Identity
from gpuq.adapters.tasks import wait_for_event


class ShimEnds:
    """The shims that are watched. For one event loop."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        # None: it has ended. It is kept until it is not asked for any more, because a zombie's pidfd stays readable.
        self._pidfds: dict[Identity, int | None] = {}

    def watch(self, shims: AbstractSet[Identity]) -> None:
        """Watch these shims and no others. One that cannot be watched is passed over."""
        for gone in self._pidfds.keys() - shims:
            self._close(gone)
            del self._pidfds[gone]
        for shim in shims - self._pidfds.keys():
            with suppress(OSError):
                pidfd = self._pidfds[shim] = os.pidfd_open(shim.pid)
                asyncio.get_running_loop().add_reader(pidfd, self._note, shim)

    async def wait(self, at_most_s: float) -> None:
        """Return when one of them has ended since the last call, or after this time."""
        await wait_for_event(self._ended, at_most_s)
        self._ended.clear()

    def close(self) -> None:
        """Watch none any more."""
        self.watch(frozenset())

    def _note(self, shim: Identity) -> None:
        self._close(shim)
        self._ended.set()

    def _close(self, shim: Identity) -> None:
        pidfd, self._pidfds[shim] = self._pidfds[shim], None
        if pidfd is not None:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)
