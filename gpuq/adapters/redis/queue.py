"""The bell to the hosts, on RQ: it carries a signed order to the one queue of one host, and nothing else.

Arrives: an order and the key to sign it with. Leaves: an RQ job whose one JSON argument is the signed order. Nothing is
pickled, nothing is retried by RQ, and a lost or doubled ring is harmless: the record fences the start, and the
dispatcher rings again under a new id.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Protocol

from rq import Queue
from rq.serializers import JSONSerializer

from gpuq.adapters.redis.link import blocking_client, reaching
from gpuq.errors import Unreachable
from gpuq.messages import wire

# An order nobody fetched for this long was rung again, or given up, many times over.
ORDER_TTL_S = 600
# The record has the outcome; what RQ keeps is for a look with `rq info` only.
RESULT_TTL_S = 60
FAILURE_TTL_S = 600
# The task returns within a second; this only ends one that hangs.
TASK_TIMEOUT_S = 60


class Bell(Protocol):
    """Tells a host to look at an order. Blocks; daemons call it from a thread."""

    def ring(self, order: wire.Order, key: str) -> None:
        """Send the order, signed with `key`. Raises Unreachable; then it may or may not have been sent."""
        ...

    def close(self) -> None:
        """Let go of the connections."""
        ...


class RqBell:
    """The real one. Safe to share between threads."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = blocking_client(url)
        self._queues: dict[str, Any] = {}

    def ring(self, order: wire.Order, key: str) -> None:
        """See Bell. One round trip: RQ's own enqueue takes two, because it does not pipeline both of its steps."""
        with reaching(self._url), self._client.pipeline(transaction=True) as pipe:
            self._queue(order.host).enqueue_call(
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
        """See Bell."""
        self._client.close()

    def _queue(self, host: str) -> Any:
        if host not in self._queues:
            name = wire.queue_name(host)
            self._queues[host] = Queue(name, connection=self._client, serializer=JSONSerializer)
        return self._queues[host]


@dataclass
class MemoryBell:
    """The twin for tests: keeps what was rung, per host, as (RQ id, signed order). `down` makes every ring fail."""

    down: bool = False
    rung: dict[str, list[tuple[str, dict[str, Any]]]] = field(default_factory=lambda: defaultdict(list))

    def ring(self, order: wire.Order, key: str) -> None:
        """See Bell."""
        if self.down:
            raise Unreachable("Redis at memory: is not usable: it was switched off.")
        self.rung[order.host].append((order.rq_id, wire.sign(order, key)))

    def close(self) -> None:
        """See Bell."""
