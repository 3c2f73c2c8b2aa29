"""A whole gpuq for one test: the real `gpuq up` with real processes in a home of its own, and ways to look and to kill.

Everything started under the home carries GPUQ_HOME or GPUQ_JOB_ID in its environment, so `close` can make sure that nothing
is left behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support import services, unix_http
from tests.support.forked import Fork
from tests.support.patience import WITHIN_S, wait_for
from tests.support.sqlite_record import make_record

MODULES = {
    "dispatcher": "gpuq.daemon",
    "api": "gpuq.api",
    "worker": "gpuq_workers",
    "orders": "gpuq_workers.serve_orders",
    "redis": "redis-server",
    "up": "gpuq.programs.up",
}


class Site:
    """`with Site() as site:` starts it; the end of the block leaves nothing running.

    Its processes are forks, see tests/support/services.py; with `interpreters` each is started as by a user. What a job does is
    measured in windows of `window_s`; None: as long as for a user.
    """

    def __init__(self, *, interpreters: bool = False, window_s: float | None = None, **settings: object) -> None:
        assert window_s is None or not interpreters, "only forks can have another window"
        # Not pytest's tmp_path: a Unix socket's path may not be longer than 107 bytes.
        self.home = Path(tempfile.mkdtemp(prefix="gq-"))
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GPUQ_")},
            "GPUQ_HOME": str(self.home),
            "GPUQ_DEVICES_BACKEND": "cpu",
            "XDG_CONFIG_HOME": str(self.home / "config"),
            **{f"GPUQ_{name}".upper(): str(value) for name, value in settings.items()},
        }
        if window_s is not None:
            self.env[services.WINDOW] = str(window_s)
        self.interpreters = interpreters
        self.output = self.home / "up.log"
        self.process: subprocess.Popen[bytes] | Fork | None = None

    def __enter__(self) -> Site:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def up(self, *arguments: str) -> None:
        """Start, and wait until it takes submissions and a job can start.

        Before that, `gpuq up` takes a service that ends for one that cannot start, and ends too.
        """
        if self.process is not None:
            self.process.wait(60)
        elif "GPUQ_DATABASE_URL" not in self.env:
            # As after an earlier start. The first start in an empty home is in tests/programs/test_up.py.
            make_record(self.home / "gpuq.db")
        said = self.output.stat().st_size if self.output.exists() else 0
        self.process = self.start(MODULES["up"], self.output, "--port", "0", *arguments)
        wait_for(lambda: b"gpuq is up" in self.output.read_bytes()[said:], story=self.output.read_text)

    def start(self, module: str, output: Path, *arguments: str) -> subprocess.Popen[bytes] | Fork:
        """Start one of our programs; what it says is appended to `output`."""
        if not self.interpreters:
            return services.started(module, output, *arguments, env=self.env)
        with output.open("ab") as file:
            argv = [sys.executable, "-P", "-m", module, *arguments]
            return subprocess.Popen(
                argv, env=self.env, stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def mend(self) -> None:
        """Make it whole for the next test, whatever the one before left: every part runs, and no job runs or waits."""
        for pid in self.processes():
            kill(pid, signal.SIGCONT)
        if not self.is_up():
            self.up()
        wait_for(self.is_whole, story=self.output.read_text)
        left = [job["id"] for job in self.get("/api/v1/jobs?state=waiting&state=active")[1]["jobs"]]
        for job in left:
            self.request("POST", f"/api/v1/jobs/{job}/cancel")
        for job in left:
            self.wait(job)

    def is_whole(self) -> bool:
        """Whether all parts run, and the record, Redis and the dispatcher answer."""
        commands = [words for _, words in self._commands()]
        runs = (any(_is_of(name, words) for words in commands) for name in MODULES.values())
        return all(runs) and self.get("/readyz")[0] == 200

    def is_up(self) -> bool:
        """Whether `gpuq up` runs, perhaps still starting."""
        return self.process is not None and self.process.poll() is None

    def down(self, number: signal.Signals = signal.SIGINT) -> int:
        """Ctrl-C, and wait for the end."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def close(self) -> None:
        """Kill all that runs here and remove the home. `down` is the orderly end; its seconds would be spent in each test."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)
        wait_for(lambda: not self._kill_all())
        shutil.rmtree(self.home, ignore_errors=True)

    def _kill_all(self) -> list[int]:
        """The processes that were there."""
        pids = list(self.processes())
        for pid in pids:
            kill(pid)
        return pids

    # --- HTTP over the Unix socket ---------------------------------------------------------------------------------

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """(status, JSON). Status 0 if no process answers."""
        return unix_http.request(self.home / "run" / "api.sock", method, path, body, headers)

    def get(self, path: str) -> tuple[int, Any]:
        return self.request("GET", path)

    def submit(self, *command: str, key: str | None = None, **fields: Any) -> int:
        """The id of a submission; tries again until it is acknowledged, as a careful client does."""
        body = {"command": list(command), "cwd": str(self.home), "env": {"PATH": os.environ["PATH"]}, **fields}
        headers = {"Idempotency-Key": key} if key else {}

        def acknowledged() -> int | None:
            status, answer = self.request("POST", "/api/v1/jobs", body, headers)
            assert status in {0, 201, 503}, (status, answer)
            return answer["id"] if status == 201 else None

        return wait_for(acknowledged)

    def job(self, job: int) -> dict[str, Any]:
        status, answer = self.get(f"/api/v1/jobs/{job}")
        return answer if status == 200 else {}

    def wait(self, job: int, *states: str, within_s: float = WITHIN_S) -> dict[str, Any]:
        """The job, once it is in one of `states` (default: any end)."""
        wanted = states or ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")
        return wait_for(
            lambda: found if (found := self.job(job)).get("state") in wanted else None,
            within_s,
            lambda: str(self.job(job)),
        )

    # --- processes -------------------------------------------------------------------------------------------------

    def pids(self, part: str) -> list[int]:
        """The processes of one part of this site."""
        name = MODULES[part]
        return [pid for pid, words in self._commands() if _is_of(name, words)]

    def kill(self, part: str) -> bool:
        """SIGKILL one part, and wait until it answers no connection any more; whether it was there."""
        pids = self.pids(part)
        kill_all(pids)
        return bool(pids)

    def processes(self) -> Iterator[int]:
        """All processes that belong to this site, jobs included."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if self._owns(entry) and not _is_dead(int(entry.name)):
                        yield int(entry.name)
                except OSError:
                    continue

    def _owns(self, process: Path) -> bool:
        # Redis writes its title over its environment; it is known by its working folder.
        in_redis = (process / "cwd").readlink() == self.home / "redis"
        return in_redis or f"{self.home}".encode() in (process / "environ").read_bytes()

    def _commands(self) -> Iterator[tuple[int, list[str]]]:
        for pid in self.processes():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            yield pid, [word for word in words if word not in {"-P", "-m"}]


def _is_of(name: str, words: list[str]) -> bool:
    return name in words[1:3] or f"/{name}" in words[0]


def _is_dead(pid: int) -> bool:
    """Whether the process has ended, with all its threads: the last of them closes its files and sockets."""
    process = Path(f"/proc/{pid}")
    try:
        is_zombie = (process / "stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
        # A first thread that has ended is a zombie while the others, killed by the same signal, still have to end.
        return is_zombie and len(list((process / "task").iterdir())) == 1
    except OSError:
        return True


def kill_all(pids: Collection[int]) -> None:
    """SIGKILL these processes, and wait for their ends."""
    for pid in pids:
        kill(pid)
    wait_for(lambda: all(_is_dead(pid) for pid in pids))


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
