"""One contract for RqOrderSender and the tests' sender in memory; then the behaviour of RQ that gpuq relies on."""

import json
import os
import subprocess
import sys
import time
import zlib

import pytest
import rq.job
from rq import Queue, Retry, SimpleWorker
from rq.exceptions import DuplicateJobError
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job
from rq.registry import FailedJobRegistry, StartedJobRegistry
from rq.serializers import JSONSerializer

from gpuq.adapters.redis.queue import ORDER_TTL_S, RqOrderSender
from gpuq.errors import Unreachable
from gpuq.messages import wire
from tests.support.orders import MemoryOrderSender

KEY = "the key of this gpuq"
HOST = "node-1.example"


def order(ring=1, job=42, host=HOST, verb=wire.Verb.LAUNCH):
    return wire.Order(host, job, 1, ring, verb)


class RealPlace:
    def __init__(self, server):
        self.server = server
        self.sender = RqOrderSender(server.url)

    def heard(self, host):
        """(RQ id, arguments) of what waits for a host, as an RQ worker would read it."""
        with self.server.client() as client:
            jobs = Queue(wire.queue_name(host), connection=client, serializer=JSONSerializer).jobs
            return [(job.id, job.func_name, list(job.args), job.kwargs) for job in jobs]

    def down(self):
        self.server.kill()

    def up(self):
        self.server.start()


class MemoryPlace:
    def __init__(self):
        self.sender = MemoryOrderSender()

    def heard(self, host):
        return [(rq_id, wire.TASK, [signed], {}) for rq_id, signed in self.sender.sent[host]]

    def down(self):
        self.sender.down = True

    def up(self):
        self.sender.down = False


@pytest.fixture(params=["rq", "memory"])
def place(request):
    made = MemoryPlace() if request.param == "memory" else RealPlace(request.getfixturevalue("redis_server"))
    yield made
    made.sender.close()


def test_the_host_gets_one_signed_order_and_nothing_else(place):
    place.sender.send(order(), KEY)
    [(rq_id, function, arguments, named)] = place.heard(HOST)
    assert (rq_id, function, named) == ("launch-42-1-1", wire.TASK, {})
    [signed] = arguments
    assert wire.verify(signed, KEY, HOST) == order()
    with pytest.raises(wire.BadOrderError):
        wire.verify(signed, "another key", HOST)


def test_each_host_gets_its_own_orders_in_order(place):
    for job in (1, 2, 3):
        place.sender.send(order(job=job, host="a"), KEY)
        place.sender.send(order(job=job, host="b", verb=wire.Verb.STOP), KEY)
    assert [rq_id for rq_id, *_ in place.heard("a")] == ["launch-1-1-1", "launch-2-1-1", "launch-3-1-1"]
    assert [rq_id for rq_id, *_ in place.heard("b")] == ["stop-1-1-1", "stop-2-1-1", "stop-3-1-1"]
    assert place.heard("c") == []


def test_send_raises_unreachable_while_redis_is_down_and_works_later(place):
    place.sender.send(order(1), KEY)
    place.down()
    with pytest.raises(Unreachable):
        place.sender.send(order(2), KEY)
    place.up()
    place.sender.send(order(3), KEY)
    assert [rq_id for rq_id, *_ in place.heard(HOST)] == ["launch-42-1-1", "launch-42-1-3"]


# --- RQ ---------------------------------------------------------------------------------------------------


@pytest.fixture
def client(redis_server):
    with redis_server.client() as one:
        yield one


@pytest.fixture
def sender(redis_server):
    one = RqOrderSender(redis_server.url)
    yield one
    one.close()


def queue(client, name="q"):
    return Queue(name, connection=client, serializer=JSONSerializer)


def test_an_order_in_redis_is_json_that_expires(sender, client):
    sender.send(order(), KEY)
    stored = client.hgetall("rq:job:launch-42-1-1")
    assert json.loads(zlib.decompress(stored[b"data"])) == [wire.TASK, None, [wire.sign(order(), KEY)], {}]
    assert KEY.encode() not in b"".join(stored.values())
    assert stored[b"description"] == b"launch-42-1-1"  # the default spells the arguments out
    assert b"retries_left" not in stored
    assert 0 < client.ttl("rq:job:launch-42-1-1") <= ORDER_TTL_S
    assert int(stored[b"result_ttl"]) <= 60
    assert int(stored[b"failure_ttl"]) <= 600


@pytest.mark.parametrize("key", ["rq:queues", "rq:job:launch-42-1-1", f"rq:queue:{wire.queue_name(HOST)}"])
def test_a_key_of_another_type_keeps_no_order_from_its_host(sender, client, key):
    """Whoever could write to Redis once would else stop all starts there for good."""
    client.set(key, "of another program")
    sender.send(order(), KEY)
    found = queue(client, wire.queue_name(HOST)).jobs[0]
    assert (found.id, list(found.args)) == ("launch-42-1-1", [wire.sign(order(), KEY)])
    sender.send(order(2), KEY)
    assert queue(client, wire.queue_name(HOST)).job_ids[-1] == "launch-42-1-2"


def test_orders_that_wait_are_not_lost_to_a_key_of_another_type(sender, client):
    sender.send(order(1), KEY)
    client.delete("rq:queues")
    client.set("rq:queues", "of another program")
    sender.send(order(2), KEY)
    assert {"launch-42-1-1", "launch-42-1-2"} <= set(queue(client, wire.queue_name(HOST)).job_ids)


def test_send_takes_one_round_trip(sender, client):
    sender.send(order(1), KEY)
    before = client.info("commandstats")["cmdstat_exec"]["calls"]
    packets = []
    connection = sender._client.connection_pool.get_connection()
    send = connection.send_packed_command
    connection.send_packed_command = lambda *a, **k: (packets.append(1), send(*a, **k))[1]
    sender._client.connection_pool.release(connection)
    sender.send(order(2), KEY)
    assert (len(packets), client.info("commandstats")["cmdstat_exec"]["calls"] - before) == (1, 1)


def test_a_worker_takes_the_order_from_the_queue(sender, client, monkeypatch):
    """RQ's own worker, its own dequeue, our task name: the message arrives whole."""
    followed = []
    monkeypatch.setattr(rq.job, "import_attribute", lambda name: lambda signed: followed.append((name, signed)))
    sender.send(order(), KEY)
    SimpleWorker([queue(client, wire.queue_name(HOST))], connection=client, serializer=JSONSerializer).work(burst=True)
    assert followed == [(wire.TASK, wire.sign(order(), KEY))]


# --- RQ's own ways, each the reason for something here ----------------------------------------------------------------


@pytest.mark.parametrize(("queues", "kept"), [(["q"], [b"the-job"]), (["q", "r"], [])])
def test_a_worker_killed_in_the_pop_loses_nothing_unless_it_has_two_queues(client, queues, kept):
    """Hence one queue per host. Killed between the pop and the first look at the job, which is where `fetch` is called."""
    queue(client).enqueue(wire.TASK, job_id="the-job")

    class KilledHere(BaseException):
        pass

    class DyingJob(Job):
        @classmethod
        def fetch(cls, *args, **kwargs):
            raise KilledHere

    listening = [queue(client, name) for name in queues]
    with pytest.raises(KilledHere):
        Queue.dequeue_any(listening, None, client, job_class=DyingJob, serializer=JSONSerializer)
    found = [
        *client.lrange(queue(client).key, 0, -1),
        *client.lrange(IntermediateQueue.get_intermediate_queue_key(queue(client).key), 0, -1),
        *(one.encode() for one in StartedJobRegistry("q", connection=client).get_job_ids()),
        *(one.encode() for one in FailedJobRegistry("q", connection=client).get_job_ids()),
    ]
    assert found == kept
    assert Job.fetch("the-job", connection=client, serializer=JSONSerializer).get_status() == "queued"


def test_a_lost_unique_id_blocks_its_order_and_a_new_id_does_not(sender, client):
    """Hence the ring number in the RQ id."""
    name = wire.queue_name(HOST)
    sender.send(order(1), KEY)
    client.lpop(queue(client, name).key)  # lost after the pop: the hash stays
    with pytest.raises(DuplicateJobError):
        queue(client, name).enqueue_call(wire.TASK, job_id=order(1).rq_id, unique=True)
    assert client.llen(queue(client, name).key) == 0
    sender.send(order(2), KEY)
    assert client.lrange(queue(client, name).key, 0, -1) == [b"launch-42-1-2"]


def test_rq_never_redelivers_an_order_lost_in_the_pop(sender, client):
    """Hence the dispatcher's sweep: RQ fails such a job after a minute, it does not put it back."""
    name = wire.queue_name(HOST)
    sender.send(order(1), KEY)
    ours = queue(client, name)
    client.lmove(ours.key, IntermediateQueue.get_intermediate_queue_key(ours.key))
    worker = SimpleWorker([ours], connection=client, serializer=JSONSerializer)
    stuck = IntermediateQueue(ours.key, client)
    stuck.cleanup(worker, ours)
    client.set(stuck.get_first_seen_key(order(1).rq_id), time.time() - 61)
    stuck.cleanup(worker, ours)
    assert (client.llen(ours.key), stuck.get_job_ids()) == (0, [])
    assert FailedJobRegistry(name, connection=client, serializer=JSONSerializer).get_job_ids() == [order(1).rq_id]
    sender.send(order(2), KEY)
    assert client.llen(ours.key) == 1


def test_json_does_not_keep_rq_from_running_any_function(client):
    """Hence the signed order and the worker that follows one task only. `os.getppid` stands for `os.system`."""
    evil = queue(client).enqueue(wire.TASK, {"order": "forged"})
    client.hset(evil.key, "data", zlib.compress(json.dumps(["os.getppid", None, [], {}]).encode()))
    SimpleWorker([queue(client)], connection=client, serializer=JSONSerializer).work(burst=True)
    assert Job.fetch(evil.id, connection=client, serializer=JSONSerializer).return_value() == os.getppid()


def test_a_job_starts_again_while_its_first_run_is_alive(client):
    """Hence the fenced start in the record: RQ's own clean-up starts a second run beside the first."""
    retried = queue(client).enqueue("os.getppid", retry=Retry(max=1))
    ours = [queue(client)]
    job, _ = Queue.dequeue_any(ours, None, client, serializer=JSONSerializer)
    worker = SimpleWorker(ours, connection=client, serializer=JSONSerializer)
    worker.prepare_execution(job)  # the first run is now alive, and its worker is killed
    registry = StartedJobRegistry("q", connection=client, serializer=JSONSerializer)
    client.zadd(registry.key, {member: time.time() - 1 for member in client.zrange(registry.key, 0, -1)})
    registry.cleanup()  # another worker's maintenance: it looks at the clock, not at the process
    assert client.lrange(queue(client).key, 0, -1) == [retried.id.encode()]


def test_spawn_worker_fails_over_a_unix_socket(redis_server, client):
    """Hence the forking worker."""
    code = (
        "import sys; from redis import Redis; from rq import Queue, SpawnWorker, Worker;"
        "from rq.serializers import JSONSerializer as Json;"
        "kind, url = sys.argv[1:]; client = Redis.from_url(url);"
        "queue = Queue('q', connection=client, serializer=Json);"
        "{'spawn': SpawnWorker, 'fork': Worker}[kind]([queue], connection=client, serializer=Json).work(burst=True)"
    )
    status = {}
    for kind in ("spawn", "fork"):
        queue(client).enqueue("os.getppid", job_id=kind)
        subprocess.run(
            [sys.executable, "-c", code, kind, redis_server.url], check=False, capture_output=True, timeout=60
        )
        status[kind] = str(Job.fetch(kind, connection=client, serializer=JSONSerializer).get_status())
    assert status == {"spawn": "JobStatus.FAILED", "fork": "JobStatus.FINISHED"}
