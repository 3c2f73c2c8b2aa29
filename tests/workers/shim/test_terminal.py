"""The pseudo-terminal of a job, with real clients of the shim's socket."""

from __future__ import annotations

import os
import select
import signal
import socket
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuq_workers.shim import terminal as of_shim
from gpuq_workers.shim.log import BoundedLog

from gpuq.cli import terminal
from gpuq.cli.terminal import ATTACH, OFFSETS, RECENT, SIZE, framed, frames
from tests.workers.conftest import Attempt, gone, wait_for


class Client:
    """A connection to the shim's socket, and what came of it."""

    def __init__(self, attempt: Attempt) -> None:
        wait_for((attempt.folder / "started.json").exists, what="started.json")
        self.socket = socket.socket(socket.AF_UNIX)
        connect(self.socket, attempt.folder)
        self.socket.settimeout(60)
        self.received, self.output, self.offsets, self.refused = bytearray(), b"", [], b""

    def __del__(self) -> None:
        self.socket.close()

    def attach(self, offset: int = 0, rows: int = 40, columns: int = 100) -> Client:
        self.socket.sendall(framed(b"A", ATTACH.pack(offset, rows, columns)))
        return self

    def type(self, keys: str) -> Client:
        self.socket.sendall(framed(b"D", keys.encode()))
        return self

    def until(self, text: bytes) -> bytes:
        """The output, once it has this text; all of it if the connection ends before."""
        while text not in self.output and self.read():
            pass
        return self.output

    def read(self) -> bool:
        data = self.socket.recv(65536)
        self.received += data
        for letter, body in frames(self.received):
            if letter == b"O":
                self.offsets.append(OFFSETS.unpack(body))
            elif letter == b"E":
                self.refused = body
            else:
                self.output += body
        return bool(data)

    def to_the_end(self) -> bytes:
        while self.read():
            pass
        return self.output


def connect(client: socket.socket, folder: Path) -> None:
    """Connect to the terminal in this folder, whose path may be longer than the address of a socket."""
    descriptor = os.open(folder, os.O_PATH)
    client.connect(f"/proc/self/fd/{descriptor}/terminal")
    os.close(descriptor)


@contextmanager
def attached(attempt: Attempt, *command: str, offset: int = 0, **changes: object) -> Iterator[Client]:
    attempt.order(*command, interactive="terminal", **changes).start()
    client = Client(attempt)
    with client.socket:
        yield client.attach(offset)


def test_both_sides_have_the_same_frames() -> None:
    assert (of_shim._HEADER.format, of_shim._ATTACH.format) == (terminal.HEADER.format, ATTACH.format)
    assert (of_shim._SIZE.format, of_shim._OFFSETS.format) == (SIZE.format, OFFSETS.format)


def test_a_job_has_a_terminal_of_the_clients_size_and_its_output_is_in_the_log(attempt: Attempt) -> None:
    with attached(
        attempt, "sh", "-c", "read word; stty size; test -t 0 && test -t 2 && echo $word </dev/tty"
    ) as client:
        client.type("hello\r")
        output = client.to_the_end()
    assert b"40 100\r\nhello\r\n" in output
    assert attempt.end()["exit_code"] == 0
    assert attempt.log() == output
    assert client.offsets == [(0, client.offsets[0][1])]


def test_ctrl_c_interrupts_what_runs_in_front(attempt: Attempt) -> None:
    with attached(attempt, "sh", "-c", "trap 'echo interrupted; exit 9' INT; echo ready; sleep 60") as client:
        client.until(b"ready")
        client.type("\x03").until(b"interrupted")
    assert attempt.end()["exit_code"] == 9


def test_ctrl_z_stops_a_program_and_the_shell_goes_on(attempt: Attempt) -> None:
    with attached(attempt, "bash", "--norc", "-i") as client:
        client.type("sh -c 'echo in-front; exec sleep 60'\r").until(b"in-front\r\n")
        client.type("\x1a").until(b"Stopped")
        client.type("disown %1; exit 4\r").to_the_end()
    assert attempt.end()["exit_code"] == 4


def test_a_client_that_comes_back_goes_on_where_it_was(attempt: Attempt) -> None:
    with attached(attempt, "sh", "-c", "echo one; read word; echo two; read word") as client:
        seen = len(client.until(b"one\r\n"))
    second = Client(attempt).attach(seen)
    second.type("x\r").until(b"two\r\n")
    assert b"one" not in second.output
    third = Client(attempt).attach(RECENT)
    assert b"one\r\n" in third.until(b"two\r\n")
    start, before = third.offsets[0]
    assert (start, before > seen) == (0, True)
    third.type("x\r")
    assert attempt.end()["exit_code"] == 0


def test_a_new_size_reaches_the_program(attempt: Attempt) -> None:
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"
    with attached(attempt, "sh", "-c", f"stty size; sleep 0.2; {script}") as client:
        client.until(b"ready")
        client.socket.sendall(framed(b"R", SIZE.pack(11, 22)))
        assert b"11 22" in client.until(b"11 22")


def test_a_client_that_does_not_read_misses_output_and_the_job_does_not_wait(attempt: Attempt) -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' x; touch written; read word; echo done"
    with attached(attempt, "sh", "-c", script, cwd=str(attempt.folder), log_limit_bytes=8 << 20) as client:
        wait_for((attempt.folder / "written").exists, what="the job's output")
        client.type("go\r")
        assert client.until(b"done\r\n").endswith(b"done\r\n")
    assert attempt.end()["exit_code"] == 0
    assert len(client.output) < 1_000_000, "not all that was printed meanwhile is kept for it"
    assert len(client.offsets) > 1, "it is sent the offset at which it goes on"
    assert attempt.log().count(b"x") == 3_000_000


def test_a_client_that_hangs_up_while_the_job_reads_nothing_takes_no_time_and_loses_nothing(tmp_path: Path) -> None:
    master, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    poller = select.poll()
    ours = of_shim.Terminal(str(tmp_path), {}, BoundedLog(str(tmp_path), 1 << 20), poller, master)

    def serve() -> list[tuple[int, int]]:
        ready = poller.poll(0)
        for descriptor, events in ready:
            ours.serve(descriptor, events)
        return ready

    with socket.socket(socket.AF_UNIX) as client:
        connect(client, tmp_path)
        client.sendall(framed(b"A", ATTACH.pack(0, 24, 80)))
        client.setblocking(False)
        typed = 0
        with suppress(BlockingIOError):
            while True:
                client.sendall(framed(b"D", b"x" * 1000))
                typed += 1000
                while serve():
                    pass
    serve()
    assert typed > 65_536
    assert serve() == [], "the shim waits"

    read = 0
    while read < typed:
        read += len(os.read(slave, 65_536))
        serve()
    while serve():
        pass
    assert ours._clients == {}
    ours.close()
    os.close(master)
    os.close(slave)


def test_without_clients_output_is_kept_and_the_job_ends(attempt: Attempt) -> None:
    end = attempt.run("sh", "-c", "echo alone; exit 3", interactive="terminal")
    assert (end["ending"], end["exit_code"]) == ("exited", 3)
    assert attempt.log() == b"alone\r\n"
    assert not (attempt.folder / "terminal").exists()


def test_a_shell_ends_at_once_when_its_job_is_stopped(attempt: Attempt) -> None:
    """An interactive bash ignores SIGTERM."""
    with attached(attempt, "bash", "--norc", "-i", grace_s=100) as client:
        client.type("echo $((40+2)); sleep 100 &\r").until(b"42")
        attempt.stop()
        client.to_the_end()
    end = attempt.end()
    assert end["ending"] == "stopped"
    assert "was killed" not in end["reason"]


def test_what_is_no_frame_ends_the_connection_and_not_the_job(attempt: Attempt) -> None:
    with attached(attempt, "sh", "-c", "read word; exit 5") as client:
        for garbage in (b"GET / HTTP/1.1\r\n\r\n" + bytes(20_000), framed(b"D", b"before"), framed(b"A", b"short")):
            stranger = Client(attempt)
            stranger.socket.sendall(garbage)
            with suppress(ConnectionResetError):
                stranger.to_the_end()
            assert (stranger.output, stranger.offsets) == (b"", [])
        client.type("x\r")
    assert attempt.end()["exit_code"] == 5


def test_a_job_without_a_terminal_refuses_to_be_attached(attempt: Attempt) -> None:
    attempt.order("sleep", "60", interactive="notebook").start()
    client = Client(attempt).attach()
    client.to_the_end()
    assert client.refused == b"it has no terminal."
    attempt.stop()
    attempt.end()


def test_a_ninth_client_is_refused(attempt: Attempt) -> None:
    attempt.order("sh", "-c", "read word", interactive="terminal").start()
    clients = [Client(attempt).attach() for _ in range(9)]
    for client in clients[:8]:
        client.read()
    clients[8].to_the_end()
    assert b"8 clients" in clients[8].refused
    clients[0].type("x\r")
    assert attempt.end()["exit_code"] == 0


def test_the_shims_end_hangs_up(attempt: Attempt) -> None:
    with attached(attempt, "sh", "-c", "echo $$; sleep 100") as client:
        pid = int(client.until(b"\n").split()[0])
        assert attempt.shim is not None
        attempt.shim.send_signal(signal.SIGKILL)
        client.to_the_end()
        wait_for(lambda: gone(pid), what="the end of the job")


def test_a_unit_has_a_terminal_too(tmp_path: Path) -> None:
    from tests.workers.shim.test_unit import Job

    folder = tmp_path / "job"
    folder.mkdir()
    job = Job(folder).start("sh", "-c", "tty; read word; echo got-$word; exit 6", interactive="terminal")
    client = Client(Attempt(folder)).attach()
    assert b"/dev/pts/" in client.until(b"\n")
    assert b"got-it" in client.type("it\r").to_the_end()
    code, end = job.end()
    assert (code, end["ending"]) == (6, "exited")
