"""A worker service or a shim dies at the worst moment; two endpoints serve one record, with and without a dispatcher."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from gpuq.messages import wire
from tests.support import forked
from tests.support.site import MODULES, Site, kill, kill_all, wait_for


def gpuq(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    """The real command, as a user runs it."""
    return forked.gpuq(*words, env=site.env, text=True)


def attempt_file(site: Site, job: int, name: str) -> Path:
    return site.home / "attempts" / f"{job}-1" / name


def sleepers(site: Site, seconds: str) -> list[int]:
    """The `sleep SECONDS` processes of this site."""
    wanted = f"sleep\0{seconds}\0".encode()
    found = []
    for pid in site.processes():
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().endswith(wanted):
                found.append(pid)
        except OSError:
            continue
    return found


def test_the_worker_service_is_killed_while_a_job_ends(site: Site) -> None:
    """The exit status lies on the disk; whoever serves the host next finds it."""
    job = site.submit("/bin/sh", "-c", "until [ -e 'to its end' ]; do sleep 0.05; done; exit 3")
    site.wait(job, "RUNNING")
    for part in ("worker", "orders"):
        for pid in site.pids(part):
            kill(pid, signal.SIGSTOP)
    (site.home / "to its end").touch()
    wait_for(attempt_file(site, job, "exit.json").exists, 20)
    assert site.job(job)["state"] == "RUNNING"

    assert site.kill("worker")
    assert site.kill("orders")

    found = site.wait(job)
    assert (found["state"], found["exit_code"], len(found["attempts"])) == ("FAILED", 3, 1)


def test_a_killed_shim_takes_its_job_along_and_the_device_is_free_again(site: Site) -> None:
    job = site.submit("/bin/sh", "-c", "trap '' TERM; setsid sleep 8888 & (sleep 8888 &) ; sleep 8888 & wait")
    started = attempt_file(site, job, "started.json")
    wait_for(started.exists, 20)
    wait_for(lambda: len(sleepers(site, "8888")) == 3, 10)
    device = site.wait(job, "RUNNING")["device"]

    kill(json.loads(started.read_text())["shim_pid"])

    found = site.wait(job, within_s=20)
    assert (found["state"], found["exit_code"], len(found["attempts"])) == ("NODE_FAIL", None, 1)
    assert "gpuq's shim process, was killed" in found["attempts"][0]["reason"]
    assert sleepers(site, "8888") == []
    wait_for(lambda: all(not one["residents"] for one in site.get("/api/v1/gpus")[1]), 10)
    # Each has a device to itself: of one that the rest of this machine uses they would stay away, and share the other.
    both = [site.submit("/bin/sleep", "300", share="never") for _ in range(2)]
    assert device in {site.wait(one, "RUNNING")["device"] for one in both}


def test_commands_wait_for_an_endpoint_that_was_killed(site: Site) -> None:
    """As they come: the supervisor has not yet seen that it is gone."""
    for words in (("submit", "--parsable", "--", "/bin/true"), ("queue", "--json"), ("cancel", "--all")):
        assert site.kill("api")
        done = gpuq(site, *words)
        assert done.returncode == 0, done.stderr


def test_a_dispatcher_that_stands_still_is_said_by_every_command_that_shows_jobs(site: Site) -> None:
    dispatcher = stop_between_transactions(site)
    try:
        # What is left after a while: the last that it showed, a minute old.
        with closing(redis.Redis(unix_socket_path=str(site.home / "run" / "redis.sock"))) as server:
            server.set(wire.VIEW, json.dumps({"at": time.time() - 60}))
        wait_for(lambda: site.get("/readyz")[1]["dispatcher"] == "stale", 10)
        submitted = gpuq(site, "submit", "--json", "--", "/bin/true")
        job = json.loads(submitted.stdout)["id"]
        shown = [gpuq(site, *words) for words in (("queue",), ("show", str(job)), ("explain", str(job)))]
        for done in (submitted, *shown):
            assert done.returncode == 0
            assert done.stderr.count("the dispatcher gives no sign of life") == 1, done.stderr
        assert site.job(job)["dispatcher"] == "stale"
    finally:
        kill(dispatcher, signal.SIGCONT)
    assert site.wait(job)["state"] == "COMPLETED"
    wait_for(lambda: site.job(job)["dispatcher"] == "ok", 20)
    assert gpuq(site, "queue").stderr.count("dispatcher") == 0


def stop_between_transactions(site: Site) -> int:
    """Stop the dispatcher, and return its process. Within a transaction it would hold the record's only lock for writing."""
    [dispatcher] = site.pids("dispatcher")

    def stopped() -> bool:
        kill(dispatcher, signal.SIGSTOP)
        wait_for(lambda: stands_still(dispatcher), 10)
        with closing(sqlite3.connect(site.home / "gpuq.db", timeout=0.5)) as record:
            try:
                record.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                kill(dispatcher, signal.SIGCONT)
                return False
        return True

    wait_for(stopped, 20)
    return dispatcher


def stands_still(pid: int) -> bool:
    """Whether each thread of the process is stopped."""
    try:
        threads = [(thread / "stat").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:  # one has just ended
        return False
    return all(thread.rpartition(")")[2].split()[0] == "T" for thread in threads)


# --- two endpoints -------------------------------------------------------------------------------------------------


@contextmanager
def second_endpoint(site: Site) -> Iterator[int]:
    """Another API process for the same home; its port."""
    log = site.home / "second.log"
    process = site.start(MODULES["api"], log, "--port", "0")
    try:
        found = wait_for(lambda: re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text()), 30, log.read_text)
        assert "Another API process holds the Unix socket" in log.read_text()
        yield int(found[1])
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def over_tcp(site: Site, port: int, *command: str) -> int:
    """The id of a job submitted through that endpoint."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    token = (site.home / "token").read_text().strip()
    body: dict[str, Any] = {"command": command, "cwd": str(site.home), "env": {"PATH": os.environ["PATH"]}}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    connection.request("POST", "/api/v1/jobs", json.dumps(body), headers)
    answer = connection.getresponse()
    given = json.loads(answer.read())
    connection.close()
    assert answer.status == 201, given
    return int(given["id"])


def through_both(site: Site, port: int, count: int) -> list[int]:
    """So many jobs through each, at the same time."""
    with ThreadPoolExecutor(8) as threads:
        one = [threads.submit(site.submit, "/bin/true") for _ in range(count)]
        other = [threads.submit(over_tcp, site, port, "/bin/true") for _ in range(count)]
        return [each.result() for each in one + other]


def test_two_endpoints_take_submissions_for_one_record_also_without_a_dispatcher(site: Site) -> None:
    with second_endpoint(site) as port:
        jobs = through_both(site, port, 8)
        [supervisor] = site.pids("up")
        kill(supervisor, signal.SIGSTOP)
        try:
            assert site.kill("dispatcher")
            wait_for(lambda: not site.pids("dispatcher"), 10)
            jobs += through_both(site, port, 8)
            first = site.pids("api")
            # The process that holds the Unix socket dies, and the stopped supervisor cannot restart it: the other one takes
            # the socket over.
            kill_all([json.loads((site.home / "run" / "http.json").read_text())["pid"]])
            jobs.append(site.submit("/bin/true"))
            assert len(site.pids("api")) == len(first) - 1 == 1
            assert site.job(jobs[-1])["state"] == "PENDING"
        finally:
            kill(supervisor, signal.SIGCONT)
        assert len(set(jobs)) == len(jobs) == 33
        for job in jobs:
            found = site.wait(job, within_s=40)
            assert (found["state"], len(found["attempts"])) == ("COMPLETED", 1)
        wait_for(lambda: len(site.pids("api")) == 2, 20)
    wait_for(lambda: site.get("/livez")[0] == 200, 20)


def test_no_other_program_can_take_the_port_while_the_endpoint_is_started_again(site: Site) -> None:
    """It would be sent the tokens of users. A submission that comes meanwhile waits in the supervisor's socket."""
    note = json.loads((site.home / "run" / "http.json").read_text())
    [supervisor] = site.pids("up")
    kill(supervisor, signal.SIGSTOP)
    try:
        kill_all([note["pid"]])
        with pytest.raises(OSError, match="Address already in use"):
            socket.create_server(("127.0.0.1", note["port"]))
        with ThreadPoolExecutor(1) as thread:
            submitted = thread.submit(over_tcp, site, note["port"], "/bin/true")
            kill(supervisor, signal.SIGCONT)
            assert site.wait(submitted.result(), within_s=40)["state"] == "COMPLETED"
    finally:
        kill(supervisor, signal.SIGCONT)
    assert json.loads((site.home / "run" / "http.json").read_text())["port"] == note["port"]
