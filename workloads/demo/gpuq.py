"""A separate gpuq for the demo: started in a temporary home, used by command line and HTTP, and removed at the end.

Its settings are passed as environment variables, and answers are returned as parsed JSON. When gpuq refuses a request,
`DemoFailed` carries its message.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuq.adapters.process import started_with

Json = dict[str, Any]
COMMAND = Path(sys.executable).with_name("gpuq")
READY_WITHIN_S = 60.0
STOPPED_WITHIN_S = 45.0
GONE_WITHIN_S = 10.0
# Linux keeps 108 bytes for a socket's path; the longest name under the home needs 20 of them.
LONGEST_HOME = 80


class DemoFailed(Exception):
    """Something that the demo set out to show did not happen."""


class Gpuq:
    """One running gpuq. A context manager: whatever happens inside, nothing of it is left afterwards."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.home = _short_folder()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPUQ_")}
        # The scripts run in the environment that the demo runs in, whichever one is active in the shell.
        self.env = {**inherited, "VIRTUAL_ENV": sys.prefix, "GPUQ_HOME": str(self.home), **settings}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Gpuq:
        with (self.home / "up.log").open("wb") as log:
            # A session of its own: Ctrl-C reaches the demo alone, which then ends gpuq in order.
            self._process = subprocess.Popen(
                [COMMAND, "up", "--port", "0", "--stop-jobs"],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_ready(self) -> None:
        """Until the endpoint answers and a device is reported."""
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            try:
                if any(device["utilization_pct"] is not None for device in self.get("/api/v1/gpus")):
                    return
            except (OSError, http.client.HTTPException, DemoFailed):
                pass
            time.sleep(0.2)
        raise DemoFailed(f"gpuq did not get ready: {self._last_words()}")

    def get(self, path: str) -> Any:
        """The JSON that the HTTP endpoint answers."""
        connection = _OverSocket(self.home / "run" / "api.sock")
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise DemoFailed(f"GET {path} was answered {response.status}: {body[:500].decode('utf-8', 'replace')}")
        return json.loads(body)

    def job(self, number: int) -> Json:
        """What `gpuq show NUMBER --json` says."""
        found: Json = self.get(f"/api/v1/jobs/{number}")
        return found

    def run(self, *arguments: str) -> str:
        """What the command prints to stdout."""
        done = subprocess.run([COMMAND, *arguments], env=self.env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DemoFailed(f"`gpuq {' '.join(arguments)}` ended with {done.returncode}:\n{done.stderr.strip()}")
        return done.stdout

    def ask(self, *arguments: str) -> Any:
        """The JSON that the command prints."""
        return json.loads(self.run(*arguments))

    def stop(self) -> None:
        """End gpuq and its jobs, see that no process of this home is left, remove the home. Raises DemoFailed."""
        if self._process is not None:
            self._cancel_waiting()
            self._process.terminate()
            try:
                self._process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        left = {pid: _command_line(pid) for pid in self._wait_gone()}
        for pid in left:
            _kill(pid)
        shutil.rmtree(self.home, ignore_errors=True)
        if left:
            named = "\n".join(f"  {pid} {words}" for pid, words in left.items())
            raise DemoFailed(f"processes were left behind and had to be killed:\n{named}")

    def _cancel_waiting(self) -> None:
        """`gpuq up --stop-jobs` ends what runs; what waits must not start in its place meanwhile."""
        with suppress(OSError, http.client.HTTPException, DemoFailed):
            waiting = [
                str(job["id"]) for job in self.get("/api/v1/jobs")["jobs"] if job["state"] in ("PENDING", "HELD")
            ]
            if waiting:
                self.run("cancel", *waiting)

    def _wait_gone(self) -> list[int]:
        deadline = time.monotonic() + GONE_WITHIN_S
        while (left := list(processes_of(self.home))) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def _last_words(self) -> str:
        """What `gpuq up` said, and if that is nothing, the ends of the logs of its parts."""
        said = (self.home / "up.log").read_text(errors="replace").strip()
        logs = sorted((self.home / "logs").glob("*.log"))
        return (
            said
            or "\n".join(f"{log.name}: {log.read_text(errors='replace').strip()[-300:]}" for log in logs)
            or "no word"
        )


def processes_of(home: Path) -> Iterator[int]:
    """The processes, other than this one, that have `home` in their environment or on their command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                known = b"".join(started_with(int(entry.name)))
            except OSError:
                continue
            if os.fsencode(home) in known:
                yield int(entry.name)


class _OverSocket(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30.0)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _short_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="gpuq-demo-"))
    if len(str(folder)) <= LONGEST_HOME:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="gpuq-demo-", dir="/tmp"))


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return "(gone)"


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
