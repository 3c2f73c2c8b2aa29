"""Redis loses everything, stands still, or is written to by an attacker: it carries messages and decides nothing."""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from rq import Callback, Queue
from rq.serializers import JSONSerializer, PickleSerializer

from gpuq.adapters.redis.link import ANSWER_WITHIN_S
from gpuq.home import Home, key_of_this_host
from gpuq.messages import wire
from tests.support.site import Site, kill, wait_for

JOB = Path(__file__).with_name("ledger_job.py")
# Longer than two calls in a row wait for an answer.
FROZEN_S = 2 * ANSWER_WITHIN_S + 0.5
HOST = socket.gethostname()


@pytest.fixture
def client(site: Site) -> Iterator[redis.Redis]:
    with redis.Redis(unix_socket_path=str(site.home / "run" / "redis.sock")) as client:
        yield client


def submit(site: Site, ledger: Path, seconds: float = 0, **fields: Any) -> int:
    """A job that writes down its start and its end."""
    return site.submit(sys.executable, "-I", "-S", str(JOB), str(ledger), str(seconds), **fields)


def written(ledger: Path) -> list[str]:
    return sorted(ledger.read_text().splitlines()) if ledger.exists() else []


def ran_once(*jobs: int) -> list[str]:
    return sorted(f"{what} {job} 1" for job in jobs for what in ("start", "end"))


# --- lost ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", [signal.SIGCONT, signal.SIGKILL])
def test_everything_lost_between_a_jobs_exit_and_its_commit(
    site: Site, client: redis.Redis, then: signal.Signals
) -> None:
    """The event waits in the host's spool; the dispatcher that hears it again may be the same or the next one."""
    end = site.home / f"end of {then.name}"
    job = site.submit("/bin/sh", "-c", f"until [ -e '{end}' ]; do sleep 0.05; done; exit 3")
    site.wait(job, "RUNNING")
    [dispatcher] = site.pids("dispatcher")
    kill(dispatcher, signal.SIGSTOP)
    end.touch()
    exit_file = site.home / "attempts" / f"{job}-1" / "exit.json"
    wait_for(exit_file.exists, 20)
    wait_for(lambda: any(b"Exited" in path.read_bytes() for path in (site.home / "spool").glob("*.json")), 20)
    assert site.job(job)["state"] == "RUNNING"

    client.flushall()
    kill(dispatcher, then)

    found = site.wait(job)
    assert (found["state"], found["exit_code"], len(found["attempts"])) == ("FAILED", 3, 1)


def test_everything_lost_while_jobs_wait(site: Site, client: redis.Redis) -> None:
    running = [site.submit("/bin/sleep", "60") for _ in range(2)]
    for job in running:
        site.wait(job, "RUNNING")
    low, high, middle = (site.submit("/bin/true", priority=priority) for priority in (-5, 5, 0))
    in_order = {"waiting": [high, middle, low], "source": "redis"}
    wait_for(lambda: site.get("/api/v1/queue")[1] == in_order, 10, lambda: str(site.get("/api/v1/queue")))

    with client.pipeline(transaction=True) as at_once:
        assert at_once.flushall().exists(wire.WAITING).execute() == [True, 0]

    wait_for(lambda: client.exists(wire.WAITING), 10)
    assert site.get("/api/v1/queue")[1] == in_order
    for job in running:
        site.request("POST", f"/api/v1/jobs/{job}/cancel")
    for job in (low, high, middle):
        assert site.wait(job)["state"] == "COMPLETED"


def test_the_consumer_group_is_made_again(site: Site, client: redis.Redis) -> None:
    assert client.xgroup_destroy(wire.INBOX, wire.INBOX_GROUP) == 1

    job = site.submit("/bin/true")

    assert site.wait(job)["state"] == "COMPLETED"
    assert [group["name"] for group in client.xinfo_groups(wire.INBOX)] == [wire.INBOX_GROUP.encode()]


def test_every_key_gets_another_type(site: Site, client: redis.Redis) -> None:
    """Who could write to Redis once delays what waits there, and no job after that."""
    site.wait(site.submit("true"))
    orders = f"rq:queue:{wire.queue_name(HOST)}"
    for key in {*client.keys(), orders.encode(), wire.WAITING.encode(), wire.log_requests_key(HOST).encode()}:
        is_text = client.type(key) == b"string"
        with client.pipeline(transaction=True) as pipe:  # else gpuq could write the key again in between
            pipe.delete(key)
            (pipe.sadd if is_text else pipe.append)(key, "of another program")
            pipe.execute()
    assert site.wait(site.submit("true"))["state"] == "COMPLETED"


def test_redis_stands_still_for_longer_than_two_calls_wait(site: Site) -> None:
    """What runs goes on and what is submitted is acknowledged; afterwards everything has run, and once."""
    ledger = site.home / "frozen"
    frozen = site.home / "is frozen"
    first = site.submit(sys.executable, "-I", "-S", str(JOB), str(ledger), "0", str(frozen))
    before = [first, submit(site, ledger, 4), submit(site, ledger)]
    site.wait(before[0], "RUNNING")
    [server] = site.pids("redis")
    began = time.monotonic()
    kill(server, signal.SIGSTOP)
    frozen.touch()
    try:
        # Alone, because what runs is opened to partners once their kind is known.
        meanwhile = [submit(site, ledger, share="never") for _ in range(3)]
        wait_for(lambda: f"end {before[0]} 1" in written(ledger))
        wait_for(lambda: time.monotonic() - began > FROZEN_S)
        assert site.job(meanwhile[0])["state"] == "PENDING"
    finally:
        kill(server, signal.SIGCONT)

    for job in before + meanwhile:
        found = site.wait(job, within_s=30)
        assert (found["state"], len(found["attempts"])) == ("COMPLETED", 1)
    assert written(ledger) == ran_once(*before, *meanwhile)


@pytest.mark.parametrize("lost_by", ["a forged acknowledgement", "the loss of the spool"])
def test_an_end_that_was_lost_on_its_host_is_sent_again(site: Site, client: redis.Redis, lost_by: str) -> None:
    """The dispatcher stands still meanwhile, so that it can neither take the end nor write over what is forged."""
    end = site.home / f"end before {lost_by}"
    job = site.submit("/bin/sh", "-c", f"until [ -e '{end}' ]; do sleep 0.05; done; exit 3")
    site.wait(job, "RUNNING")
    [dispatcher] = site.pids("dispatcher")
    kill(dispatcher, signal.SIGSTOP)
    end.touch()
    try:
        client.set(wire.acknowledged_key(HOST), 10**9)
        marker, spool = site.home / "attempts" / f"{job}-1" / "spooled.json", site.home / "spool"
        wait_for(lambda: json.loads(marker.read_bytes()).get("exited"), 20)
        if lost_by == "a forged acknowledgement":
            read = client.info("commandstats")["cmdstat_get"]["calls"]
            wait_for(
                lambda: (
                    client.info("commandstats")["cmdstat_get"]["calls"] >= read + 3 or not list(spool.glob("*.json"))
                ),
                10,
            )
        else:
            site.kill("worker")
            # At once: the next worker service may start before all files of the folder are deleted one by one.
            spool.rename(site.home / "lost spool")
        client.flushall()
    finally:
        kill(dispatcher, signal.SIGCONT)

    found = site.wait(job)
    assert (found["state"], found["exit_code"], len(found["attempts"])) == ("FAILED", 3, 1)


def test_the_spool_is_removed_while_the_worker_service_runs(site: Site) -> None:
    end = site.home / "end without a spool"
    job = site.submit("/bin/sh", "-c", f"until [ -e '{end}' ]; do sleep 0.05; done; exit 3")
    site.wait(job, "RUNNING")
    (site.home / "spool").rename(site.home / "removed spool")
    end.touch()

    found = site.wait(job)
    assert (found["state"], found["exit_code"], len(found["attempts"])) == ("FAILED", 3, 1)


# --- forged --------------------------------------------------------------------------------------------------------


def test_who_can_write_to_redis_can_start_nothing(site: Site, client: redis.Redis) -> None:
    ledger, canary = site.home / "forged", site.home / "canary"
    done = submit(site, ledger)
    site.wait(done)
    held = site.submit(sys.executable, "-I", "-S", str(JOB), str(ledger), "0", hold=True)
    key = key_of_this_host(Home(site.home), HOST)
    orders = site.pids("orders")

    for function, argument in forgeries(done, held, key, f"touch {canary}"):
        for serializer in (JSONSerializer, PickleSerializer):
            queue = Queue(wire.queue_name(HOST), connection=client, serializer=serializer)
            queue.enqueue_call(function, args=(argument,))
            queue.enqueue_call("time.time", on_success=Callback("os.abort"), on_failure=Callback("os.abort"))
    client.hset("rq:job:torn", mapping={"data": b"\x80\x04\xff", "created_at": b"never"})
    client.rpush(f"rq:queue:{wire.queue_name(HOST)}", "torn", "not-there", b"\xff\xfe", "")
    for junk in (b"{", b'{"type":"event"}', b"\xff", b'{"type":"report","host":"x","last_seq":0,"body":{}}'):
        client.xadd(wire.INBOX, {"message": junk})
    client.xadd(wire.INBOX, {"other": b"field"})

    wait_for(lambda: client.llen(f"rq:queue:{wire.queue_name(HOST)}") == 0, 20)
    after = submit(site, ledger)
    assert site.wait(after)["state"] == "COMPLETED"
    assert site.pids("orders") == orders, "no message has brought the worker down"
    assert not canary.exists()
    assert written(ledger) == ran_once(done, after), "nothing ran but what was stored, and once"
    assert (site.job(done)["state"], len(site.job(done)["attempts"])) == ("COMPLETED", 1)
    assert (site.job(held)["state"], site.job(held)["attempts"]) == ("HELD", [])

    site.request("POST", f"/api/v1/jobs/{held}/release")
    assert site.wait(held)["state"] == "COMPLETED"
    assert written(ledger) == ran_once(done, after, held)


def forgeries(done: int, held: int, key: str, command: str) -> list[tuple[str, Any]]:
    """Messages of an attacker who knows everything but what is in the record; some are signed with the right key."""

    def launch(job: int, attempt: int = 1, host: str = HOST) -> wire.Order:
        return wire.Order(host, job, attempt, 1, wire.Verb.LAUNCH)

    unsigned = {"order": wire.sign(launch(held), key)["order"], "signature": ""}
    with_command = wire.sign(launch(held), key)
    with_command["order"] = {**with_command["order"], "command": ["/bin/sh", "-c", command]}
    return [
        ("os.system", command),
        ("subprocess.getoutput", command),
        ("gpuq_workers.order_file.environment", command),
        (wire.TASK, command),
        (wire.TASK, unsigned),
        (wire.TASK, with_command),
        (wire.TASK, wire.sign(launch(held), "another key")),
        (wire.TASK, wire.sign(launch(done), key)),
        (wire.TASK, wire.sign(launch(done, 2), key)),
        (wire.TASK, wire.sign(launch(held, 7), key)),
        (wire.TASK, wire.sign(launch(held), key)),
        (wire.TASK, wire.sign(launch(held, host="elsewhere"), key)),
        (wire.TASK, wire.sign(launch(10**12), key)),
        (wire.TASK, wire.sign(wire.Order(HOST, done, 1, 2, wire.Verb.STOP), key)),
    ]
