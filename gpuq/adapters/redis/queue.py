"""Send signed orders to hosts as RQ jobs: one queue per host, one JSON argument, nothing else.

Nothing is pickled and RQ retries nothing. A lost or repeated order is harmless: the database lets an attempt start only once, and
the dispatcher sends the order again under a new id.
"""

from __future__ import annotations

from typing import Protocol

from rq import Queue
from rq.serializers import JSONSerializer

from gpuq.adapters.redis.link import blocking_client, reaching
from gpuq.messages import wire

# An order that was not fetched for this long has been sent again, or given up, many times.
ORDER_TTL_S = 600
# The database has the outcome; what RQ keeps only serves `rq info`.
RESULT_TTL_S = 60
FAILURE_TTL_S = 600
# The task returns within a second; this only ends one that hangs.
TASK_TIMEOUT_S = 60


class OrderSender(Protocol):
    """Sends orders to hosts. Calls block, so daemons make them in a thread."""

    def send(self, order: wire.Order, key: str) -> None:
        """Send the order, signed with `key`. Raises Unreachable; then it may or may not have been sent."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class RqOrderSender:
    """An `OrderSender` through RQ. Safe to share between threads."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = blocking_client(url)

    def send(self, order: wire.Order, key: str) -> None:
        """See OrderSender. One round trip: RQ's own enqueue takes two, because it does not pipeline both of its steps."""
        with reaching(self._url), self._client.pipeline(transaction=True) as pipe:
            Queue(wire.queue_name(order.host), connection=self._client, serializer=JSONSerializer).enqueue_call(
                wire.TASK,
                args=(wire.sign(order, key),),
                job_id=order.rq_id,
                description=order.rq_id,
                timeout=TASK_TIMEOUT_S,
                ttl=ORDER_TTL_S,
                result_ttl=RESULT_TTL_S,
                failure_ttl=FAILURE_TTL_S,
                pipeline=pipe,
            )
            pipe.execute()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
