"""A throw-away PostgreSQL server from the machine's own binaries: a Unix socket in a folder of its own, no TCP, no root."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

_USER = "postgres"
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def find_binaries() -> Path | None:
    """The folder with `initdb` and `postgres`, the newest version if there are several."""
    places = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    places.sort(key=lambda place: float(place.parent.name))
    on_path = shutil.which("initdb")
    return places[-1] if places else Path(on_path).resolve().parent if on_path else None


def why_not() -> str | None:
    """Why no server can be started here; None if one can."""
    if find_binaries() is None:
        return "no PostgreSQL here: install Debian's `postgresql` to run these tests on it too"
    if os.geteuid() == 0 and _USER not in {user.pw_name for user in pwd.getpwall()}:
        return f"PostgreSQL refuses to run as root, and there is no user `{_USER}`"
    return None


def _end_with_parent() -> None:
    """Between fork and exec: a test run that is killed takes its server along."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


class Server:
    """One running server. Its data is not synced to disk: it does not outlive the tests."""

    def __init__(self) -> None:
        self._binaries = find_binaries() or Path()
        self._as_user = {"user": _USER, "group": _USER, "extra_groups": []} if os.geteuid() == 0 else {}
        self.folder = Path(tempfile.mkdtemp(prefix="gpuq-pg-"))
        if self._as_user:
            shutil.chown(self.folder, _USER, _USER)
        self._data = self.folder / "data"
        self._databases = 0
        self._initialise()
        self.start()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    @property
    def socket(self) -> Path:
        """The Unix socket that it listens on."""
        return self.folder / ".s.PGSQL.5432"

    def create_database(self) -> str:
        """A new empty database; its address."""
        self._databases += 1
        name = f"gpuq_{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def start(self) -> None:
        settings = ("listen_addresses=", f"unix_socket_directories={self.folder}", "fsync=off", "full_page_writes=off")
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binaries / "postgres",
                    "-D",
                    self._data,
                    *(word for value in settings for word in ("-c", value)),
                ],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - one call into libc, no Python locks taken
                **self._as_user,
            )
        self._wait_until_it_answers(deadline=time.monotonic() + 30)

    def stop(self) -> None:
        """An immediate stop: connections break off, nothing is written any more."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(timeout=60)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initialise(self) -> None:
        subprocess.run(
            [self._binaries / "initdb", "-D", self._data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync"],
            cwd=self.folder,
            check=True,
            capture_output=True,
            env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]},
            **self._as_user,
        )

    def _wait_until_it_answers(self, deadline: float) -> None:
        while True:
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError((self.folder / "log").read_text()) from None
                time.sleep(0.02)
            else:
                return
