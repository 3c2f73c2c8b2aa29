"""Python programs as processes of their own, without the time that an interpreter needs to start.

A helper process imports the modules that a program needs once, and forks for each run. So a run is a real process, with its own
arguments, environment, folder, standard streams, signals and exit status, and costs some 10 ms of processor time instead of the
200 ms of `gpuq` or the seconds of what imports numpy and SQLAlchemy. What a test says about the start of an interpreter (which
modules are imported, `python -P`) needs a start of its own.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import pickle
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import IO, Any, NoReturn

PROGRAM = str(Path(sys.executable).with_name("gpuq"))
_STATUS = struct.Struct("!i")
# In the helper's environment, so that those of its forks have room in its place: see `show_as`.
_ROOM = {"ROOM_FOR_FORKS": 4096 * "."}
_GPUQ = "import sys; from gpuq.cli.main import main; sys.exit(main())"


def gpuq(
    *words: str | bytes,
    env: Mapping[str, str],
    cwd: Path | str = "/",
    stdin: bytes | None = None,
    text: bool = False,
    timeout_s: float = 90.0,
) -> subprocess.CompletedProcess[Any]:
    """The `gpuq` command, run to its end as a user's shell would. What it prints is bytes, or with `text` decoded."""
    done = _with_verbs().run(_GPUQ, [PROGRAM, *words], env=env, cwd=cwd, stdin=stdin, timeout_s=timeout_s)
    if not text:
        return done
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@cache
def _with_verbs() -> Forks:
    """The verbs, and what they import where they need it."""
    import gpuq.cli
    import gpuq.script

    packages = (gpuq.cli, gpuq.script)
    found = (one.name for package in packages for one in walk_packages(package.__path__, f"{package.__name__}."))
    modules = (name for name in found if not name.startswith(("gpuq.cli.top", "gpuq.cli.dry_run.")))
    return Forks(*modules, "gpuq.services_environment", "gpuq.settings", "difflib", "importlib.metadata")


class Forks:
    """A helper that has these modules imported, until `close`.

    `env` is for what the dynamic linker reads at its start, as LD_LIBRARY_PATH; each run has an environment of its own.
    """

    def __init__(self, *modules: str, env: Mapping[str, str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gq-forks-")
        self._address = f"{self._folder.name}/socket"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._address)
        listener.listen(64)
        # Its standard input is a pipe from here: when this process ends, in whatever way, the helper reads the end and ends too.
        self._helper = subprocess.Popen(
            [sys.executable, "-P", __file__, str(listener.fileno()), *modules],
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
            env={**os.environ, "LANG": "C.UTF-8", **_ROOM, **(env or {})},
        )
        listener.close()
        atexit.register(self.close)

    def close(self) -> None:
        """End the helper. It is done at the end of this process too."""
        atexit.unregister(self.close)
        self._helper.communicate(timeout=60)
        self._folder.cleanup()

    def run(
        self,
        code: str,
        words: Sequence[str | bytes],
        *,
        env: Mapping[str, str],
        cwd: Path | str = "/",
        stdin: bytes | None = None,
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run Python code to its end in a process of its own; `words` are its `sys.argv`, `stdin` comes through a pipe.

        Raises subprocess.TimeoutExpired, and then the process was killed.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self.start(code, words, out, err, env=env, cwd=cwd, stdin=stdin)
            try:
                returncode = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)
                raise
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(list(words), returncode, out.read(), err.read())

    def start(
        self,
        code: str,
        words: Sequence[str | bytes],
        out: IO[Any],
        err: IO[Any],
        *,
        env: Mapping[str, str],
        cwd: Path | str = "/",
        stdin: bytes | None = None,
    ) -> Fork:
        """As `run`, but returns while the process runs; it writes to these files."""
        request = pickle.dumps((code, [os.fsdecode(word) for word in words], dict(env), os.fspath(cwd)))
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        with _input(stdin) as given:
            socket.send_fds(connection, [b"x"], [given.fileno(), out.fileno(), err.fileno()])
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return Fork(connection, words)


class Fork:
    """A started run, with the part of subprocess.Popen that tests use. `wait` must see its end."""

    def __init__(self, connection: socket.socket, words: Sequence[str | bytes]) -> None:
        self._connection = connection
        self._words = words
        self.pid = _STATUS.unpack(_receive(connection, 60.0))[0]
        self.returncode: int | None = None

    def wait(self, timeout_s: float) -> int:
        """The exit code, as of subprocess.Popen. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            try:
                status = _STATUS.unpack(_receive(self._connection, timeout_s))[0]
            except TimeoutError:
                raise subprocess.TimeoutExpired(list(self._words), timeout_s) from None
            self.returncode = os.waitstatus_to_exitcode(status)
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _input(stdin: bytes | None) -> Any:
    """A file to read standard input from: /dev/null, or a pipe that a thread fills."""
    if stdin is None:
        return Path(os.devnull).open("rb")
    reading, writing = os.pipe()

    def fill() -> None:
        with suppress(BrokenPipeError), os.fdopen(writing, "wb", buffering=0) as pipe:
            pipe.write(stdin)

    threading.Thread(target=fill, daemon=True).start()
    return os.fdopen(reading, "rb")


def _receive(connection: socket.socket, timeout_s: float) -> bytes:
    deadline, received = time.monotonic() + timeout_s, b""
    while len(received) < _STATUS.size:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(_STATUS.size - len(received))
        if not part:
            raise AssertionError("the helper that forks has ended")
        received += part
    return received


# --- the helper ------------------------------------------------------------------------------------------------------


def _wait_for_run(listener: socket.socket) -> str:
    """Serve runs until standard input ends. Returns in each forked child, with the code that it is to run."""
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == 0:
                    sys.exit(0)
                elif key.fileobj is listener:
                    connection, _ = listener.accept()
                    process = os.fork()
                    if process == 0:
                        listener.close()
                        return _become(connection)
                    with suppress(OSError):  # a client that gave up does not end the helper
                        connection.sendall(_STATUS.pack(process))
                    selector.register(os.pidfd_open(process), selectors.EVENT_READ, (process, connection))
                else:
                    process, connection = key.data
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    _, status = os.waitpid(process, 0)
                    with connection, suppress(OSError):
                        connection.sendall(_STATUS.pack(status))


def show_as(words: Sequence[str]) -> None:
    """Let /proc show these arguments of this process, and its environment. A fork has those of the helper there.

    The kernel reads both from the process's own memory, where they have as much room as the helper's had: the end of a longer
    text is not shown.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    words_at, words_end, environ_at, environ_end = map(int, fields[45:49])
    for at, end, lines in (
        (words_at, words_end, words),
        (environ_at, environ_end, [f"{name}={value}" for name, value in os.environ.items()]),
    ):
        text = b"".join(os.fsencode(line) + b"\0" for line in lines)
        ctypes.memmove(at, text[: end - at - 1].ljust(end - at, b"\0"), end - at)


def _become(connection: socket.socket) -> str:
    """Take on what the request says, and return its code."""
    with connection:
        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        with connection.makefile("rb") as request:
            code, words, env, cwd = pickle.loads(request.read())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = words
    show_as([sys.executable, *words])
    return str(code)


def _run(code: str) -> NoReturn:
    """Run the code, and end as an interpreter does, but without taking apart what is imported: that writes to each page of memory
    which is shared with the helper, and takes more time than most runs."""
    status: object = 0
    try:
        exec(compile(code, "<run>", "exec"), {"__name__": "__main__"})
    except SystemExit as ended:
        status = ended.code or 0
    if isinstance(status, int):
        threading._shutdown()
        atexit._run_exitfuncs()
        with suppress(OSError):  # then the interpreter says so
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status & 0xFF)
    sys.exit(status)


if __name__ == "__main__":
    for _name in sys.argv[2:]:
        import_module(_name)
    gc.freeze()  # what is imported is not looked through again at the end of each run
    _run(_wait_for_run(socket.socket(fileno=int(sys.argv[1]))))
