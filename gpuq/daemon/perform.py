"""Send the orders that the state calls for, again and again until the state shows that they took effect.

Which orders are due follows from the state and the last reports alone: a launch for an attempt that its host does not report yet,
a stop for one that is to end or is not in the record (`unrecorded.py`), a `void` for one that is revoked. So no order is lost if
Redis loses it or the dispatcher restarts. An order that arrives twice is harmless, because a start is claimed in the record once.

Orders to a host that is away stay in its queue, and when it is back it takes one after the other: 40,000 a day, for one attempt
that is to end, would keep it from new orders for a minute. So they are repeated less often until its reports come again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from gpuq.adapters.redis.queue import OrderSender
from gpuq.core.state.attempt import Attempt, AttemptId, StopReason
from gpuq.core.state.device import HostId
from gpuq.core.state.state import State
from gpuq.daemon.credentials import Credentials
from gpuq.errors import Unreachable
from gpuq.messages.wire import HostKeys, Order, Verb

log = logging.getLogger(__name__)

_STOP_AGAIN_S = 2.0
_HEARD_WITHIN_S, _UNHEARD_AGAIN_S = 10.0, 60.0


class Performer:
    """Sends orders to the hosts, each signed with the key of its host. A launch is sent again after `launch_again_s`; with
    `credentials` it says as which user."""

    def __init__(
        self, sender: OrderSender, keys: HostKeys, launch_again_s: float, credentials: Credentials | None = None
    ) -> None:
        self._sender = sender
        self._keys = keys
        self._launch_again_s = launch_again_s
        self._credentials = credentials
        self._sent_at: dict[tuple[HostId, AttemptId, Verb], float] = {}
        self._revoking: set[AttemptId] = set()

    def due(
        self, state: State, unrecorded: Iterable[tuple[HostId, AttemptId]], number: int, epoch: int, now: float
    ) -> list[Order]:
        """The orders that the state calls for, and stops for `unrecorded` attempts, without those that were sent lately.

        Each is for the instance that reports for its host. With another `number` the orders have other ids. `epoch` is the one in
        which this dispatcher leads.
        """
        wanted = [
            (attempt.host, attempt.id, verb)
            for attempt in state.attempts.values()
            if (verb := _wanted_order(attempt, state.jobs[attempt.id.job].cancel_requested)) is not None
        ]
        wanted += [(host, attempt, Verb.STOP) for host, attempt in unrecorded]
        # Before an order about an attempt that is revoked is sent, the record says whether it was claimed: this need not wait.
        revoking = {attempt.id for attempt in state.attempts.values() if attempt.revoking}
        newly, self._revoking = revoking - self._revoking, revoking
        self._sent_at = {key: self._sent_at[key] for key in wanted if key in self._sent_at and key[1] not in newly}
        due = []
        for host_id, attempt, verb in wanted:
            host, sent_at = state.hosts.get(host_id), self._sent_at.get((host_id, attempt, verb))
            again_s = self._launch_again_s if verb is Verb.LAUNCH else _STOP_AGAIN_S
            if host is None or now - host.last_seen > _HEARD_WITHIN_S:
                again_s = _UNHEARD_AGAIN_S
            instance = None if host is None else host.instance
            # A credential names the instance, which a dispatcher that has just started does not know before the host's report;
            # without one, the host would end the job as one that it must not start.
            if verb is Verb.LAUNCH and instance is None and self._credentials is not None:
                continue
            if sent_at is None or now - sent_at >= again_s:
                due.append(Order(host_id, attempt.job, attempt.number, number, verb, instance, epoch))
        return due

    def send(self, orders: list[Order], now: float) -> None:
        """Send orders. What cannot be sent now stays due. Blocks on Redis, and with credentials on the record."""
        for order in orders:
            attempt = order.attempt_id
            if self._keys.is_of_previous_release(order.host):
                order = msgspec.structs.replace(order, epoch=0)  # noqa: PLW2901 - it could not verify another one
            try:
                if order.verb is Verb.LAUNCH and self._credentials is not None:
                    order = self._credentials.add_to(order)  # noqa: PLW2901 - the same order, signed for its user
                self._sender.send(order, self._keys.of(order.host))
            except Unreachable as error:
                log.warning(
                    "order not sent: %s", error.message, extra={"action": "send_order", "attempt": str(attempt)}
                )
                return
            self._sent_at[HostId(order.host), attempt, order.verb] = now


def _wanted_order(attempt: Attempt, cancelled: bool) -> Verb | None:
    # A job that makes room for another may save its work first; one whose cancel was requested need not.
    if attempt.stopping is StopReason.PREEMPTED and not cancelled:
        return Verb.PREEMPT
    if attempt.stopping is not None:
        return Verb.STOP
    if attempt.revoking:
        return Verb.VOID
    return Verb.LAUNCH if attempt.started_at is None and attempt.last_reported is None else None
