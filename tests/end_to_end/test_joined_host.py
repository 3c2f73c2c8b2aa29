"""A host that joined with the printed command: a second home without a password, through one TLS port of the main host."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import ssl as tls
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuq.adapters.main_host import Link, joined
from gpuq.cli.channel import Channel
from gpuq.cli.client import HttpClient
from gpuq.cli.terminal import ATTACH, framed
from gpuq.errors import Conflict, NotPermitted
from gpuq.home import Home
from tests.support import forked, services
from tests.support.forked import Fork
from tests.support.patience import Stopwatch
from tests.support.site import Site, wait_for


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class JoinedHost:
    """The home of a host that joined `site` as `name` by the printed command, and its worker service."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name
        self.home = Path(tempfile.mkdtemp(prefix="gq-"))
        self.process: subprocess.Popen[bytes] | Fork | None = None
        self.command = ""
        # What a new host has: no variable of the main host's. `gpuq` stands for an installed package.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPUQ_")}
        self.env = {
            **inherited,
            "GPUQ_HOME": str(self.home),
            "GPUQ_DEVICES_BACKEND": "cpu",
            "GPUQ_DEVICES_CPU_CORES": "1",
        }
        self.prefix = self.home / "prefix"
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "bin" / "python").symlink_to(sys.executable)
        (self.prefix / "bin" / "gpuq").touch()

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run the printed command there."""
        env = {**self.env, "GPUQ_PREFIX": str(self.prefix), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.run(["sh", "-c", command], env=env, check=False, capture_output=True, text=True, timeout=60)

    def start(self) -> None:
        self.process = services.started("gpuq_workers", self.site.home / f"{self.name}.log", env=self.env)

    def log(self) -> str:
        return (self.site.home / f"{self.name}.log").read_text()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code, self.process = self.process.wait(60), None
        return code

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)
        shutil.rmtree(self.home)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site(
        devices_cpu_count=1,
        devices_cpu_cores=1,
        admission_stale_after_s=3,
        admission_utilization_pct=400,
        admission_memory_headroom=0.95,
    )
    (site.home / "config.toml").write_text(f'[api]\nhosts_at = ["127.0.0.1:{free_port()}"]\n')
    with site:
        wait_for(
            lambda: "Listening for hosts" in (site.home / "logs" / "hosts.log").read_text(),
            20,
            (site.home / "logs" / "hosts.log").read_text,
        )
        yield site


def invite(site: Site, name: str) -> str:
    status, answer = site.request("POST", f"/api/v1/hosts/{name}/add")
    assert status == 201, answer
    return answer["command"]


@pytest.fixture(scope="module")
def node2(site: Site) -> Iterator[JoinedHost]:
    host = JoinedHost(site, "node2")
    try:
        host.command = invite(site, "node2")
        done = host.run(host.command)
        assert done.returncode == 0, done.stderr
        host.start()
        wait_for(lambda: len(site.get("/api/v1/gpus")[1]) == 2, 20, host.log)
        yield host
    finally:
        host.close()


def test_the_terminal_of_a_job_there_is_reached_through_the_main_host(site: Site, node2: JoinedHost) -> None:
    command = ("/bin/sh", "-c", "read word; echo got-$word")
    jobs = [site.submit(*command, share="never", interactive="terminal") for _ in range(2)]
    placed = {site.wait(job, "RUNNING")["host"]: job for job in jobs}
    client = HttpClient(f"unix://{site.home}/run/api.sock", {})
    channel = Channel(client, placed["node2"], "terminal")
    channel.send(framed(b"A", ATTACH.pack(0, 24, 80)) + framed(b"D", b"it\r"))
    shown = b""
    while (data := channel.receive()) is not None:
        shown += data
    channel.close()
    assert b"got-it" in shown
    assert site.wait(placed["node2"])["state"] == "COMPLETED"
    with pytest.raises(Conflict, match="has ended"):
        Channel(client, placed["node2"], "terminal")
    client.close()
    for job in jobs:
        site.request("POST", f"/api/v1/jobs/{job}/cancel")
        site.wait(job)


def test_a_host_that_joined_runs_a_job_and_holds_no_password(site: Site, node2: JoinedHost) -> None:
    until = f"echo began; until [ -e {site.home}/placed ]; do sleep 0.1; done; sleep 1; echo ended"
    jobs = [site.submit("/bin/sh", "-c", until, share="never") for _ in range(2)]
    placed = {site.wait(job, "RUNNING")["host"]: job for job in jobs}
    job = placed["node2"]
    (site.home / "placed").touch()
    # One request that stays open until the job has ended: its log comes through the main host.
    assert site.get(f"/api/v1/jobs/{job}/logs?follow=1") == (200, b"began\nended\n")
    assert site.wait(job)["state"] == "COMPLETED"
    held = {path.relative_to(node2.home).as_posix() for path in node2.home.rglob("*") if path.is_file()}
    assert {"joined.json", "host.key", "tls/ca.pem", "tls/host.pem"} <= held
    assert {"order.key", "gpuq.db", "token", "tls/ca.key"}.isdisjoint(held)
    assert all((node2.home / name).stat().st_mode & 0o77 == 0 for name in held if name.startswith(("tls/", "host.key")))


def test_files_that_were_sent_reach_a_job_there_and_what_it_made_comes_back(
    site: Site, node2: JoinedHost, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/run.sh").write_text("#!/bin/sh\nmkdir out\necho $GPUQ_JOB_ID on $PWD >out/made\nsleep 1\n")
    (tmp_path / "project/run.sh").chmod(0o755)
    (tmp_path / "project/weights").write_bytes(os.urandom(3_000_000))
    words = ("submit", "--sync", "--array", "1-2", "--exclusive", "run.sh")
    done = forked.gpuq(*words, env=site.env, cwd=tmp_path / "project", text=True)
    assert done.returncode == 0, done.stderr
    first = int(done.stdout)
    placed = {site.wait(first + task)["host"]: first + task for task in range(2)}
    job = placed["node2"]
    assert site.job(job)["exit_code"] == 0
    assert not (node2.home / "synced").exists(), "the main host alone has them"
    fetched = forked.gpuq("fetch", f"{first}_{job - first + 1}", "--to", "back", env=site.env, cwd=tmp_path, text=True)
    assert (fetched.returncode, fetched.stdout) == (0, "out/made\n"), fetched.stderr
    assert (tmp_path / "back/out/made").read_text() == f"{job} on {node2.home}/attempts/{job}-1/files\n"
    # The files of an attempt are for its own host, and only while it runs.
    link = Link(Home(node2.home), joined(Home(node2.home)))
    for asked in (
        {"job": job, "attempt": 1},
        {"job": placed[socket.gethostname()], "attempt": 1},
        {"job": 999, "attempt": 1},
    ):
        with pytest.raises(NotPermitted, match="has no such attempt"):
            list(link.stream("/tree", asked))


def test_a_used_command_and_a_taken_name_are_refused_at_once(site: Site, node2: JoinedHost) -> None:
    other = JoinedHost(site, "other")
    try:
        watch = Stopwatch()
        done = other.run(node2.command)
        assert (done.returncode, done.stderr.count("Traceback")) == (1, 0)
        assert "The command for host node2 was used." in done.stderr
        assert "`gpuq host forget node2`" in done.stderr
        assert watch.seconds < 2
        assert not (other.home / "joined.json").exists()
    finally:
        other.close()
    for name in ("node2", socket.gethostname()):
        status, problem = site.request("POST", f"/api/v1/hosts/{name}/add")
        assert (status, f"`gpuq host forget {name}`" in problem["hint"]) == (409, True)


def test_a_certificate_is_replaced_under_load(site: Site, node2: JoinedHost) -> None:
    pem = node2.home / "tls" / "host.pem"
    before, running = pem.read_text(), site.submit("/bin/sh", "-c", "sleep 4; echo done", share="never")
    jobs = [running, *(site.submit("/bin/true", share="never") for _ in range(6))]
    assert site.request("POST", "/api/v1/hosts/node2/rotate")[0] == 202
    wait_for(lambda: pem.read_text() != before, 15, node2.log)

    assert [site.wait(job)["state"] for job in jobs] == ["COMPLETED"] * len(jobs)
    assert "node2" in {site.job(job)["host"] for job in jobs}
    old = tls.create_default_context(cafile=str(node2.home / "tls" / "ca.pem"))
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(before)
        file.flush()
        old.load_cert_chain(file.name)
    address = json.loads((node2.home / "joined.json").read_text())["main"][0]

    def status_of_the_former() -> int:
        connection = http.client.HTTPSConnection(address, context=old)
        try:
            connection.request("POST", "/host/v1/acknowledgement")
            return connection.getresponse().status
        finally:
            connection.close()

    wait_for(lambda: status_of_the_former() == 401, 5)


def test_a_forgotten_host_is_on_no_screen_and_cannot_come_back(site: Site, node2: JoinedHost) -> None:
    """The last one: node2 is gone then."""
    status, problem = site.request("POST", "/api/v1/hosts/node2/forget")
    assert (status, problem["detail"]) == (409, "Host node2 reports.")
    assert node2.stop() == 0
    wait_for(lambda: site.request("POST", "/api/v1/hosts/node2/forget")[0] == 202, 15)
    wait_for(lambda: [host["name"] for host in site.get("/api/v1/hosts")[1]] == [socket.gethostname()], 10)
    assert len(site.get("/api/v1/gpus")[1]) == 1
    assert b"node2" not in site.get("/metrics")[1]

    node2.start()
    assert node2.process is not None
    assert node2.process.wait(60) == 5
    assert "Host node2 was forgotten." in node2.log()
    assert len(site.get("/api/v1/gpus")[1]) == 1


@pytest.mark.soak
def test_a_host_without_gpuq_gets_it_from_the_main_host() -> None:
    """What is installed on the main host, and nothing from a registry. With real units: docs/operations.md."""
    site = Site(devices_cpu_count=1, devices_cpu_cores=1)
    (site.home / "config.toml").write_text(f'[api]\nhosts_at = ["127.0.0.1:{free_port()}"]\n')
    with site:
        wait_for(lambda: "Listening for hosts" in (site.home / "logs" / "hosts.log").read_text(), 20)
        bare = JoinedHost(site, "bare")
        try:
            shutil.rmtree(bare.prefix)
            env = {**bare.env, "GPUQ_PREFIX": str(bare.prefix)}
            command = ["sh", "-c", invite(site, "bare")]
            done = subprocess.run(command, env=env, check=False, capture_output=True, text=True, timeout=300, cwd="/")
            assert done.returncode == 0, done.stderr
            words = [str(bare.prefix / "bin" / "python"), "-P", "-m", "gpuq_workers"]
            with (site.home / "bare.log").open("ab") as log:
                bare.process = subprocess.Popen(words, env=bare.env, stdout=log, stderr=log, cwd="/")
            wait_for(lambda: len(site.get("/api/v1/gpus")[1]) == 2, 60, bare.log)
            jobs = [site.submit("/bin/sleep", "3", share="never") for _ in range(2)]
            assert {site.wait(job)["host"] for job in jobs} == {"bare", socket.gethostname()}
        finally:
            bare.close()
