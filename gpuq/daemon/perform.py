"""Turn actions into orders, and send orders again until the state shows that they took effect.

Which orders are due follows from the state alone: a launch for an attempt that no host reports yet, a stop for one that is
stopping (or the order to save its work, if it makes room for another job and no cancel was requested), a void for one that is
voiding. So no order is lost when Redis drops it or is flushed, or the dispatcher restarts, and the fenced start makes an order
that arrives twice harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from gpuq.adapters.redis.queue import OrderSender
from gpuq.core.state.attempt import Attempt, AttemptId, StopReason
from gpuq.core.state.state import State
from gpuq.errors import Unreachable
from gpuq.messages.wire import Order, Verb

log = logging.getLogger(__name__)

_STOP_AGAIN_S = 2.0


class Performer:
    """Rings the hosts. `launch_again_s` is the time after which an unseen order is sent again."""

    def __init__(self, bell: OrderSender, key: str, launch_again_s: float) -> None:
        self._bell = bell
        self._key = key
        self._again_s = {Verb.LAUNCH: launch_again_s}
        self._rung: dict[tuple[AttemptId, Verb], tuple[int, float]] = {}

    def due(self, state: State, now: float) -> list[tuple[Attempt, Verb]]:
        """The orders that the state asks for and that were not sent lately."""
        attempts = state.attempts.values()
        wanted = [(a, verb) for a in attempts for verb in _wanted(a, state.jobs[a.id.job].cancel_requested)]
        alive = {(attempt.id, verb) for attempt, verb in wanted}
        self._rung = {key: value for key, value in self._rung.items() if key in alive}
        return [
            (a, v)
            for a, v in wanted
            if now - self._rung.get((a.id, v), (0, -1e9))[1] >= self._again_s.get(v, _STOP_AGAIN_S)
        ]

    def ring(self, orders: list[tuple[Attempt, Verb]], ring: int, now: float) -> None:
        """Send orders; `ring` makes their ids new. What cannot be sent now is due again soon. Blocks on Redis."""
        for attempt, verb in orders:
            order = Order(attempt.host, attempt.id.job, attempt.id.number, ring, verb)
            try:
                self._bell.send(order, self._key)
            except Unreachable as error:
                log.warning("order not sent: %s", error.message, extra={"action": "ring", "attempt": str(attempt.id)})
                return
            self._rung[attempt.id, verb] = (ring, now)


def _wanted(attempt: Attempt, cancelled: bool) -> Iterator[Verb]:
    if attempt.stopping is StopReason.PREEMPTED and not cancelled:
        yield Verb.PREEMPT
    elif attempt.stopping is not None:
        yield Verb.STOP
    elif attempt.revoking:
        yield Verb.VOID
    elif attempt.started_at is None and attempt.last_reported is None:
        yield Verb.LAUNCH
