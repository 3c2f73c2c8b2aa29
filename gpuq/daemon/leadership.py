"""Waits until this dispatcher may lead, and keeps its lease afterwards.

One dispatcher leads, and the others of the same record wait as standbys. The leader renews its lease with each commit, and with
an empty one when it has nothing to commit. A standby takes over when the leader releases the lease at its end, or `LEASE_S` after
the last renewal. The epoch of its commits is the fence: `gpuq/adapters/store/leadership.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from gpuq.adapters.process import boot_id
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.leadership import overtaken
from gpuq.adapters.store.row_types import Claim, Commit
from gpuq.adapters.tasks import wait_for_event
from gpuq.core.state.attempt import AttemptId
from gpuq.errors import Unreachable

log = logging.getLogger(__name__)
T = TypeVar("T")

LEASE_S: Final = 6.0
"""A standby takes over so long after the last renewal. Three renewals fit in: one slow commit does not cost the leadership."""
RENEW_S: Final = 2.0
"""An idle leader renews its lease so often."""
POLL_S: Final = 0.5
"""A standby tries so often to take over."""


class Lease:
    """The leadership of this dispatcher, `holder`, in one epoch, and all that it writes to the record: each call is fenced by the
    epoch and renews the lease. `clock` gives seconds for intervals. The calls block, and raise Conflict if another dispatcher has
    taken over."""

    def __init__(self, store: Store, holder: str, epoch: int, clock: Callable[[], float]) -> None:
        self.store = store
        self.holder = holder
        self.epoch = epoch
        self._clock = clock
        self._renewed_at = clock()

    def is_due(self) -> bool:
        """Whether the lease is to be renewed, by an empty commit if there is nothing to write."""
        return self._clock() - self._renewed_at >= RENEW_S

    def commit(self, commit: Commit) -> None:
        """Commit in this epoch."""
        commit.epoch = self.epoch
        self._renewing(lambda: self.store.commit(commit))

    def revoke(self, attempt: AttemptId, at: float) -> Claim | None:
        """See `Store.revoke`."""
        return self._renewing(lambda: self.store.revoke(attempt, at, epoch=self.epoch))

    def prune_journal(self, before: int) -> None:
        """See `Store.prune_journal`."""
        self._renewing(lambda: self.store.prune_journal(before, epoch=self.epoch))

    def raise_above(self, epoch: int) -> None:
        """Lead in an epoch above this one: hosts have seen it, and the record, an earlier copy of itself, has not."""
        raised = self.store.take_leadership(self.holder, LEASE_S, above=epoch)
        if raised is None:
            raise overtaken(self.epoch, self.store.leader())
        log.warning("leads in epoch %d: hosts have seen epoch %d, which the record lacks", raised, epoch)
        self.epoch = raised

    def _renewing(self, write: Callable[[], T]) -> T:
        began = self._clock()
        result = write()
        self._renewed_at = began
        return result

    def release(self) -> None:
        """Let a standby take over at once. Without a database it takes over when the lease has expired. Blocks."""
        with suppress(Unreachable):
            self.store.release_leadership(self.epoch)


async def renew_during(lease: Lease, work: Awaitable[T]) -> T:
    """The result of `work`, such as the restore of a long queue; the lease is renewed from a thread of its own until then.

    Raises Conflict if another dispatcher takes over meanwhile.
    """
    task = asyncio.ensure_future(work)
    while not (await asyncio.wait({task}, timeout=RENEW_S))[0]:
        with suppress(Unreachable):
            await asyncio.to_thread(lease.commit, Commit())
    return task.result()


def holder_name(host: str, lock: Path) -> str:
    """The name under which the process that holds this lock file leads.

    Only one process can hold the file, so the next one with the same name need not wait until the lease of the former, which has
    ended, expires. A copy of the folder on another machine is another file.
    """
    found = lock.stat()
    return f"{host} ({boot_id()}/{found.st_dev}/{found.st_ino})"


async def stand_by(
    store: Store, holder: str, run_blocking: Callable[..., Any], stop: asyncio.Event, waiting: Callable[[], None]
) -> int | None:
    """Wait until `holder` leads: the epoch, or None if `stop` was set before. `waiting` is called after each poll until then.

    While the database is away, this waits too.
    """
    announced = False
    while not stop.is_set():
        try:
            epoch: int | None = await run_blocking(store.take_leadership, holder, LEASE_S)
            if epoch is not None:
                log.info("leads in epoch %d", epoch)
                return epoch
            if not announced:
                leader = await run_blocking(store.leader)
                log.info("standby: %s leads, epoch %d", leader.holder, leader.epoch)
                announced = True
        except Unreachable as error:
            log.warning("record: %s", error.message, extra={"action": "retry"})
        waiting()
        await wait_for_event(stop, POLL_S)
    return None
