"""Connect to a Unix socket in the folder of an attempt: its shim's, or one that the job itself listens on.

The job may put anything there. So no link is followed, only a socket is connected to, nothing waits for it for long, and who
listens on it must be the user to whom the folder belongs.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

from gpuq.adapters.job_log import attempt_folder

_PEER = struct.Struct("3i")
_CONNECTED_WITHIN_S = 2.0


def connect(attempts: Path, job: int, number: int, name: str) -> socket.socket | None:
    """A connection to the socket `name` of an attempt on this host; None if nothing listens there that is the job's own."""
    with attempt_folder(attempts, job, number) as folder:
        if folder is None:
            return None
        try:
            place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            return None
        owner = os.fstat(folder).st_uid
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if stat.S_ISSOCK(os.fstat(place).st_mode):
            connection.settimeout(_CONNECTED_WITHIN_S)
            with suppress(OSError):
                connection.connect(f"/proc/self/fd/{place}")
                _, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
                if uid == owner:
                    return connection
    finally:
        os.close(place)
    connection.close()
    return None
