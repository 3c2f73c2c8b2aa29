"""The listening sockets. Apart from `server.py`, because `gpuq up` needs no HTTP server to see that the port is free."""

from __future__ import annotations

import contextlib
import errno
import http.client
import os
import socket
import stat
from pathlib import Path

from gpuq.errors import BadSettings, Failure
from gpuq.settings import Api

BACKLOG = 1024
_ANSWERS_WITHIN_S = 0.5
_LONGEST_ANSWER = 4096


def inherited_tcp(descriptor: int) -> socket.socket:
    """The listening TCP socket under this descriptor, which our parent keeps open too. Raises BadSettings.

    So the port is never free while this process is started again; whoever took it then would be sent the tokens of users.
    """
    with contextlib.suppress(OSError):
        held = socket.socket(fileno=descriptor)
        if held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and held.family in (
            socket.AF_INET,
            socket.AF_INET6,
        ):
            held.set_inheritable(False)
            return held
        held.close()
    raise BadSettings(
        f"Descriptor {descriptor} is no listening TCP socket.",
        fix="Leave out --tcp-fd, or start gpuq-api.socket, which passes it.",
    )


def open_tcp(settings: Api) -> socket.socket:
    """A listening TCP socket. Raises Failure if the port is taken, BadSettings for an invalid address."""
    if not 0 <= settings.port <= 65535:
        raise BadSettings(f"[api] port {settings.port} is no TCP port; it must be from 0 to 65535.")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except socket.gaierror as error:
        raise BadSettings(f"[api] host {settings.host!r} is no address of this machine.") from error
    except OSError as error:
        raise _cannot_listen(settings, error) from error


def _cannot_listen(settings: Api, error: OSError) -> Failure:
    if error.errno == errno.EADDRINUSE:
        holder = "another gpuq, with another home" if _answers_as_gpuq(settings) else "another program"
        return Failure(
            f"Port {settings.port} on {settings.host} is taken by {holder}.",
            fix="Choose another with `gpuq up --port N`, or 0 for a free one.",
        )
    return Failure(
        f"Cannot listen on {settings.host}:{settings.port}: {error.strerror}.",
        fix="Correct `host` and `port` under [api] in the settings.",
    )


def _answers_as_gpuq(settings: Api) -> bool:
    """Whether the program on this port refuses a caller without a token as gpuq does."""
    connection = http.client.HTTPConnection(settings.host, settings.port, timeout=_ANSWERS_WITHIN_S)
    try:
        connection.request("GET", "/version")
        return b'"urn:gpuq:' in connection.getresponse().read(_LONGEST_ANSWER)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def open_shared(path: Path) -> socket.socket:
    """A listening Unix socket for every user. Raises BadSettings in a folder where any of them could put another one."""
    with contextlib.suppress(OSError):  # `open_unix` says what is wrong with it
        if path.parent.stat().st_mode & stat.S_IWOTH:
            raise BadSettings(
                f"[api] shared_socket is in {path.parent}, where every user may make files: while gpuq is down, another could "
                "listen there and be sent the jobs of all.",
                fix="Use a folder that only root and gpuq may write to, such as /run/gpuq.",
            )
    return open_unix(path, 0o666)


def open_unix(path: Path, mode: int = 0o600) -> socket.socket:
    """A listening Unix socket, created with `mode`, replacing a stale one. Only for the holder of the lock."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)
    try:
        server.bind(str(path))
    except OSError as error:
        server.close()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Failure(
                f"Cannot listen on {path}: its disk has no room, or no inode, for one more file.",
                fix=f"Make room there: `df -h {path.parent}` and `df -i {path.parent}` show what is left.",
            ) from error
        raise Failure(
            f"Cannot listen on {path}: {error.strerror or error}.",
            fix="It must be on a local disk, in a folder that gpuq may write to, and have at most 107 characters: the home's "
            "is below GPUQ_HOME, the shared one is `shared_socket` under [api].",
        ) from error
    finally:
        os.umask(before)
    server.listen(BACKLOG)
    return server
