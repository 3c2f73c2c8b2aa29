"""The RQ worker of a host: `python -m gpuq_workers.serve_orders`. It reads messages from Redis and calls `run_job.run`.

Anyone who can write to Redis can put anything into an RQ job, and RQ itself would import whatever function, callback or pickle
it finds there. So messages are parsed here and not by RQ: JSON of one shape, one function name, no callbacks, bounded size.
Anything else is dropped without importing it. A message is deleted once it was followed; the database has the truth, and the
dispatcher sends a lost order again.

Orders are followed in this process and not in a forked one: RQ's forking worker takes three times as long from enqueueing to
the call (measured), and the task only starts a shim. A killed RQ worker loses at most the message that it was following.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import redis
from rq.job import Job
from rq.queue import Queue
from rq.serializers import JSONSerializer
from rq.timeouts import JobTimeoutException, UnixSignalDeathPenalty
from rq.utils import now
from rq.worker import SimpleWorker
from rq.worker.base import StopRequested
from rq.worker_registration import WORKERS_BY_QUEUE_KEY, clean_worker_registry

from gpuq.adapters.redis.link import blocking_client, delete_other_types
from gpuq.adapters.redis.queue import RefusedError, argument_in
from gpuq.adapters.store import open_store
from gpuq.errors import GpuqError
from gpuq.home import key_of_this_host
from gpuq.logs import report, start_log
from gpuq.messages import wire
from gpuq.settings import load
from gpuq_workers import run_job
from gpuq_workers.backend import open_backend
from gpuq_workers.host_lease import instance_of
from gpuq_workers.launcher import launcher_of

log = logging.getLogger(__name__)

ORDER_TIMEOUT_S = 20
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _HEALTHY_AFTER_S = 0.1, 2.0, 10.0
# RQ blocks in a read for this time less fifteen seconds; a connection that died silently is noticed after that.
_WORKER_TTL_S = 45


class Message(Job):  # type: ignore[misc]  # rq is not typed
    """An RQ job, parsed without RQ: `argument` is the signed order, or `refusal` says why there is none."""

    argument: Any = None
    refusal: str | None = "it was not read"

    @classmethod
    def fetch(cls, id: str, connection: redis.Redis | None = None, serializer: Any = None) -> Message:  # noqa: A002, ARG003
        """Read the message. A malformed one gets a `refusal`; this never raises for it."""
        message: Message = cls("unreadable", connection=connection, serializer=JSONSerializer)
        assert connection is not None
        try:
            message.id = id
            message.restore(connection.hgetall(message.key))
        except (ValueError, TypeError, redis.ResponseError) as error:
            message.refusal = f"it cannot be read: {error}"
        return message

    def restore(self, raw_data: dict[Any, Any]) -> None:
        """Take the call's argument from the hash in Redis and ignore the rest."""
        try:
            self.argument = argument_in(raw_data)
            self.refusal = None
        except RefusedError as refused:
            self.refusal = str(refused)


class OrderWorker(SimpleWorker):  # type: ignore[misc]  # rq is not typed
    """RQ's loop and registration with our parsing of messages, without RQ's commands, suspension and registries."""

    job_class = Message
    log_job_description = False
    max_connection_wait_time = _LONGEST_PAUSE_S
    _following = False
    _renewed_at = float("-inf")

    def __init__(self, queue: str, connection: redis.Redis, follow: Callable[[Any], None], name: str) -> None:
        super().__init__(
            [queue],
            name=name,
            connection=connection,
            serializer=JSONSerializer,
            log_job_description=False,
            worker_ttl=_WORKER_TTL_S,
        )
        self._follow = follow

    def execute_job(self, job: Message, queue: Queue) -> None:
        """Follow one message, then delete it."""
        self._following = True
        try:
            if job.refusal is not None:
                log.warning("message %.100s was refused: %s", job.id, job.refusal)
            else:
                try:
                    with UnixSignalDeathPenalty(ORDER_TIMEOUT_S, JobTimeoutException):
                        self._follow(job.argument)
                except JobTimeoutException:
                    log.error("message %s took longer than %s s and was given up", job.id, ORDER_TIMEOUT_S)
                except Exception:
                    log.exception("message %s failed", job.id)
            with self.connection.pipeline(transaction=False) as pipe:
                pipe.delete(job.key)
                pipe.lrem(queue.intermediate_queue_key, 1, job.id)
                pipe.execute()
        finally:
            self._following = False

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Renew the worker's registration. RQ asks for it before and after each wait, so also between a message's arrival and
        the call; it lasts for a minute longer than the worker's TTL, and once within that is enough."""
        if time.monotonic() - self._renewed_at >= _WORKER_TTL_S or pipeline is not None:
            super().heartbeat(timeout, pipeline)
            self._renewed_at = time.monotonic()

    def request_stop(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is RQ's
        """Finish the current message, then end."""
        self._stop_requested = True
        if not self._following:
            raise StopRequested

    def run_maintenance_tasks(self) -> None:
        """Delete the message that a killed predecessor was following, which the dispatcher sends again, and dead workers."""
        for queue in self.queues:
            self.connection.delete(queue.intermediate_queue_key)
            clean_worker_registry(queue)
        self.last_cleaned_at = now()

    def delete_other_types(self) -> None:
        """Delete keys of this worker on which RQ would fail for ever."""
        for queue in self.queues:
            lists = (queue.key, queue.intermediate_queue_key)
            sets = (self.redis_workers_keys, WORKERS_BY_QUEUE_KEY % queue.name)
            delete_other_types(self.connection, {**dict.fromkeys(lists, "list"), **dict.fromkeys(sets, "set")})

    def check_for_suspension(self, burst: bool) -> None:
        """Ignore `rq suspend`: only the dispatcher decides what starts."""

    def subscribe(self) -> None:
        """Take no remote commands of RQ: they could stop or kill this worker."""

    def _install_signal_handlers(self) -> None:
        """OrderService installs its own."""


class OrderService:
    """Runs an OrderWorker until SIGTERM, and again after each loss of Redis."""

    def __init__(self, url: str, host: str, follow: Callable[[Any], None]) -> None:
        self._url, self._host, self._follow = url, host, follow
        self._worker: OrderWorker | None = None
        self._stopping = False

    def run(self) -> None:
        """Follow orders until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        pause = _FIRST_PAUSE_S
        while not self._stopping:
            began = time.monotonic()
            try:
                self._work()
                if not self._stopping:
                    pause = _FIRST_PAUSE_S if time.monotonic() - began > _HEALTHY_AFTER_S else pause * 2
                    time.sleep(min(pause, _LONGEST_PAUSE_S))
            except StopRequested:
                break

    def _work(self) -> None:
        try:
            connection = blocking_client(self._url)
            name = f"{self._host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
            self._worker = OrderWorker(wire.queue_name(self._host), connection, self._follow, name)
            self._worker.delete_other_types()
            self._worker.work(logging_level="WARNING")
        except (redis.RedisError, OSError) as error:
            log.warning("Redis is not usable, orders wait: %s", error, extra={"action": "orders"})
        finally:
            self._worker = None

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        if self._stopping:
            return  # it ends already, and is not to be interrupted in closing what it has
        self._stopping = True
        if self._worker is None:
            raise StopRequested
        self._worker.request_stop(signum, frame)


def main() -> int:
    """Serve this host's orders until SIGTERM; returns the exit code."""
    gc.freeze()  # modules stay to the end; otherwise the last collection looks through them, most of what a stop takes
    start_log()
    try:
        settings = load()
        settings.home.create()
        context = run_job.OrderContext(
            settings=settings,
            key=key_of_this_host(settings.home, settings.worker.host),
            store=open_store(settings.database_url),
            backend=open_backend(settings),
            launcher=launcher_of(settings),
            instance=instance_of(settings.home),
        )
        context.launcher.warm()
        OrderService(settings.effective_redis_url, settings.worker.host, partial(run_job.run, context)).run()
        context.launcher.close()
    except GpuqError as error:
        return report(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
