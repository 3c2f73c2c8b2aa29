"""Signed orders to hosts as RQ jobs: one queue per host, one JSON argument, nothing else.

Nothing is pickled and RQ retries nothing. A lost or repeated order is harmless: the database lets an attempt start only once, and
the dispatcher sends the order again under a new id. `argument_in` parses one without RQ, which would import what it names.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Protocol

from redis.exceptions import ResponseError
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from gpuq.adapters.redis.link import blocking_client, delete_other_types, is_of_another_type, reaching
from gpuq.messages import wire

# An order that was not fetched for this long has been sent again, or given up, many times.
ORDER_TTL_S = 600
# The database has the outcome; what RQ keeps only serves `rq info`.
RESULT_TTL_S = 60
FAILURE_TTL_S = 600
# The task returns within a second; this only ends one that hangs.
TASK_TIMEOUT_S = 60
LARGEST_MESSAGE = 65_536
_FORBIDDEN = ("success_callback_name", "failure_callback_name", "stopped_callback_name", "webhooks", "dependency_ids")


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
        """See OrderSender."""
        queue = Queue(wire.queue_name(order.host), connection=self._client, serializer=JSONSerializer)
        with reaching(self._url):
            try:
                self._enqueue(queue, order, key)
            except ResponseError as error:
                if not is_of_another_type(error):
                    raise
                types = {queue.redis_queues_keys: "set", Job.key_for(order.rq_id): "hash", queue.key: "list"}
                delete_other_types(self._client, types)
                self._enqueue(queue, order, key)

    def _enqueue(self, queue: Queue, order: wire.Order, key: str) -> None:
        """One round trip: RQ's own enqueue takes two, because it does not pipeline both of its steps."""
        with self._client.pipeline(transaction=True) as pipe:
            queue.enqueue_call(
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


class RefusedError(Exception):
    """The message is not a call of our task."""


def argument_in(raw: dict[Any, Any]) -> Any:
    """The argument of the one call that an order may be, from the hash of its RQ job. Raises RefusedError."""
    for field in _FORBIDDEN:
        if raw.get(field.encode(), b"") not in (b"", b"[]"):
            raise RefusedError(f"it has a field {field}")
    try:
        call = json.loads(_unpacked(raw.get(b"data", b"")))
    except (ValueError, RecursionError) as error:
        raise RefusedError("its data is not JSON") from error
    match call:
        case [wire.TASK | wire.FORMER_TASK, None, [argument], {}] if not call[3]:  # the pattern alone takes any mapping
            return argument
        case [str(name), *_]:
            raise RefusedError(f"it calls {name[:100]!r}")
    raise RefusedError("it is not a call")


def _unpacked(data: bytes) -> bytes:
    if len(data) > LARGEST_MESSAGE:
        raise RefusedError(f"it has {len(data)} bytes")
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(data, LARGEST_MESSAGE)
    except zlib.error:
        return data
    if unpacker.unconsumed_tail:
        raise RefusedError(f"it unpacks to more than {LARGEST_MESSAGE} bytes")
    return plain
