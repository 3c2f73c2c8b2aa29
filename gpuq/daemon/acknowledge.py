"""What the dispatcher sends to hosts: how far their events are recorded, which attempts stand still, which cores are lent."""

from __future__ import annotations

import asyncio
import logging

from gpuq.adapters.redis.stream import Stream
from gpuq.adapters.tasks import wait_for_event
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.pauses import may_stand_still
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.state import State
from gpuq.daemon.clock import SteadyClock
from gpuq.daemon.inbox import EventInbox
from gpuq.errors import Unreachable
from gpuq.messages.wire import HeldAttempt, LentCores

log = logging.getLogger(__name__)

# A host lets jobs go on when it has heard nothing for three times as long (`gpuq_workers/pauses.py`).
_PAUSES_EVERY_S = 0.2


class Acknowledger:
    """Sends acknowledgements, and pauses and loans as of the last commit."""

    def __init__(self, stream: Stream, inbox: EventInbox, state: State, limits: Limits, clock: SteadyClock) -> None:
        self._stream, self._inbox, self._state, self._limits, self._clock = stream, inbox, state, limits, clock
        self._paused: set[AttemptId] = set()
        self._lent: dict[str, tuple[LentCores, ...]] = {}
        self._loans_changed = asyncio.Event()
        # A message that was made before another must not be written after it.
        self._writing = asyncio.Lock()

    def committed(self) -> None:
        """The state is in the record now, so its pauses and loans may be sent."""
        self._paused = {attempt.id for attempt in self._state.attempts.values() if attempt.paused_for is not None}
        lent = _lent(self._state)
        if lent != self._lent:
            self._lent = lent
            self._loans_changed.set()

    async def acknowledge(self, epoch: int) -> None:
        """Acknowledge what was committed, to the hosts that were heard since the last call. Raises Unreachable."""
        async with self._writing:
            for host, message in self._inbox.acknowledgements(epoch).items():
                await self._stream.set_acknowledged(host, message)

    async def renew_pauses(self) -> None:
        """Tell hosts again and again which of their attempts are to stand still and which cores are lent, until cancelled: at
        once where a commit has changed what is lent. Accounts are looked at here too, because a cycle may take long."""
        while True:
            try:
                async with self._writing:
                    for host, message in self._inbox.with_pauses(self._held(self._clock()), dict(self._lent)).items():
                        await self._stream.set_acknowledged(host, message)
            except Unreachable as error:
                log.warning("redis: %s", error.message, extra={"action": "renew_pauses"})
            await wait_for_event(self._loans_changed, _PAUSES_EVERY_S)
            self._loans_changed.clear()

    def _held(self, now: float) -> dict[str, tuple[HeldAttempt, ...]]:
        """The attempts that are to stand still by the last commit, by host."""
        found: dict[str, tuple[HeldAttempt, ...]] = {}
        for attempt in self._state.attempts.values():
            other = attempt.paused_for
            if other is None or attempt.id not in self._paused or not may_stand_still(attempt, self._limits, now):
                continue
            held = HeldAttempt(attempt.id.job, attempt.id.number, other.job, other.number)
            found[attempt.host] = (*found.get(attempt.host, ()), held)
        return found


def _lent(state: State) -> dict[str, tuple[LentCores, ...]]:
    """The cores that are lent, by host."""
    found: dict[str, tuple[LentCores, ...]] = {}
    for attempt in state.attempts.values():
        if attempt.lent:
            one = LentCores(attempt.id.job, attempt.id.number, attempt.lent)
            found[attempt.host] = (*found.get(attempt.host, ()), one)
    return found
