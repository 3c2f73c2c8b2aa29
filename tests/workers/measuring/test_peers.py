"""Real processes with and without peers: who may be paused by itself."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpuq_workers.measuring import peers
from gpuq_workers.measuring.peers import why_not_alone
from gpuq_workers.measuring.progress import hook_environment

from tests.workers.conftest import python, wait_for

# A line on stdout once it is ready; then it waits for its end.
WAITS = "import sys\nprint('ready', flush=True)\nsys.stdin.read()"
CHILD = "if os.fork() == 0: g.step(); os.write(done, b'.'); os.read(0, 1); os._exit(0)"
Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a shell with this script below it, as a shim has its job; the shell's pid."""
    running: list[subprocess.Popen[str]] = []

    def started(code: str = WAITS, **env: str) -> int:
        command = ["sh", "-c", '"$@"; true', "sh", *python(code)]
        environ = {"PATH": os.environ["PATH"], **env}
        child = subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child.pid

    yield started
    for child in running:
        child.communicate()


def test_an_ordinary_job_may_be_paused(start: Start, tmp_path: Path) -> None:
    assert why_not_alone(start(), tmp_path / "progress") is None
    assert why_not_alone(start(WORLD_SIZE="1", RANK="0", MASTER_ADDR="localhost"), tmp_path / "progress") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("WORLD_SIZE", "2"), ("RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4"), ("TF_CONFIG", "{}"), ("SLURM_NTASKS", "8")],
)
def test_a_rank_may_not(start: Start, tmp_path: Path, name: str, value: str) -> None:
    assert "one of several processes" in (why_not_alone(start(**{name: value}), tmp_path / "progress") or "")


def test_several_counting_processes_may_not(start: Start, tmp_path: Path) -> None:
    counts = f"import os, gpuq_progress as g\ngo, done = os.pipe()\n{CHILD}\ng.step(); os.read(go, 1)\n{WAITS}"
    file = tmp_path / "progress"
    assert why_not_alone(start(counts, **hook_environment({}, file)), file) is not None
    alone = tmp_path / "alone"
    assert (
        why_not_alone(start("import gpuq_progress as g\ng.step()\n" + WAITS, **hook_environment({}, alone)), alone)
        is None
    )


CONNECTS = (
    "import socket, sys\ns = socket.create_connection((sys.argv[1] if sys.argv[1:] else '127.0.0.1', PORT))\n" + WAITS
)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_connection_to_a_process_of_this_host_may_be_to_a_peer(start: Start, tmp_path: Path, family: int) -> None:
    """Over IPv4, and over IPv6 sockets that speak IPv4, as PyTorch's store does."""
    with socket.socket(family, socket.SOCK_STREAM) as server:
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("", 0))
        server.listen()
        root = start(CONNECTS.replace("PORT", str(server.getsockname()[1])))
        accepted, _ = server.accept()
        with accepted:
            found = why_not_alone(root, tmp_path / "progress")
    assert found == "it has a connection to a process of this host"


def test_a_listening_socket_is_no_connection_to_a_peer(start: Start, tmp_path: Path) -> None:
    listens = "import socket\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n" + WAITS
    assert why_not_alone(start(listens), tmp_path / "progress") is None


@pytest.mark.parametrize(("port", "refused"), [(443, False), (80, False), (29500, True)])
def test_a_connection_to_another_host_is_a_peer_unless_port_80_or_443(
    monkeypatch: pytest.MonkeyPatch, port: int, refused: bool
) -> None:
    """No other host is in reach of a test, so the kernel's tables are made up."""
    monkeypatch.setattr(peers, "_links", lambda _: iter(["socket:[77]", "/dev/null"]))
    monkeypatch.setattr(peers, "_connections", lambda _: iter([("77", ("0100000A:C350", f"0200000A:{port:04X}"))]))
    assert (peers._of_descriptors([1]) is not None) is refused


def test_infiniband_may_lead_to_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_links", lambda _: iter(["/dev/infiniband/uverbs0"]))
    assert peers._of_descriptors([1]) == "it uses InfiniBand"


def test_a_process_that_cannot_be_inspected_may_have_peers(
    monkeypatch: pytest.MonkeyPatch, start: Start, tmp_path: Path
) -> None:
    def forbidden(_: int) -> Iterator[str]:
        raise PermissionError

    root = start()
    wait_for(lambda: why_not_alone(root, tmp_path / "progress") is None)
    monkeypatch.setattr(peers, "_links", forbidden)
    assert why_not_alone(root, tmp_path / "progress") == "its processes cannot be inspected"
