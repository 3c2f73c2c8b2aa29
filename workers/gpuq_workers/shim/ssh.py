"""An SSH server inside a job: OpenSSH's `sshd -i`, for one connection, as the user of the job and with its environment.

It is a process of the job, so it sees the job's devices only and ends with it. It accepts the one key that came with the
connection, whose sender the API has identified. Its files are in the attempt's folder. Standard library only, as all of the shim.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import Any

from gpuq_workers.shim.record import replace

FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/bin")
_KEY = re.compile(rb"(ssh-ed25519|ecdsa-sha2-nistp(256|384|521)|ssh-rsa) [A-Za-z0-9+/]{20,1500}={0,2}")
_LARGEST_VALUE = 4096
# $0 is sshd, $1 the folder, $2 the configuration. Two connections may come at once: `ln` makes the host's key once, and whole.
_SCRIPT = """
key="$1/ssh_host_key"
if [ ! -e "$key" ]; then
    ssh-keygen -q -t ed25519 -N '' -f "$key.$$" </dev/null >/dev/null 2>&1 && ln "$key.$$" "$key" 2>/dev/null
    rm -f "$key.$$" "$key.$$.pub"
fi
exec "$0" -i -e -f "$2" -h "$key"
"""


def why_not(key: bytes) -> str | None:
    """Why no server can be started for this public key; None if one can."""
    if not _KEY.fullmatch(key):
        return "this is no public key of OpenSSH."
    if _program() is None:
        return "its host has no sshd; install openssh-server there."
    return None


def start(folder: str, order: dict[str, Any], key: bytes, connection: int) -> None:
    """Start the server on this connection. It is a child of the shim, which waits for it. Raises OSError."""
    program = _program()
    assert program is not None
    name = f"{folder}/ssh-{zlib.crc32(key):08x}"
    _write(f"{name}.keys", key + b"\n")
    _write(f"{name}.conf", config(order["env"], f"{name}.keys").encode("utf-8", "surrogateescape"))
    os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", _SCRIPT, program, folder, f"{name}.conf"],
        {**order["env"], "PATH": f"{order['env'].get('PATH', os.defpath)}:/usr/bin:/bin"},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, connection, 0),
            (os.POSIX_SPAWN_DUP2, connection, 1),
            (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=range(1, 32),
    )


def config(env: dict[str, str], keys: str) -> str:
    """The server's configuration: one key, no other way in, and the job's variables in each session."""
    variables = [_quoted(f"{name}={value}") for name, value in env.items() if _fits(name, value)]
    lines = [
        f"AuthorizedKeysFile {keys}",
        "AuthenticationMethods publickey",
        "PermitRootLogin prohibit-password",
        "StrictModes no",
        "UsePAM no",
        "PidFile none",
        "PrintMotd no",
        "Subsystem sftp internal-sftp",
        f"SetEnv {' '.join(variables)}" if variables else "",  # only the first such line counts
    ]
    return "\n".join(lines) + "\n"


def _fits(name: str, value: str) -> bool:
    return re.fullmatch(r"\w+", name) is not None and value.isprintable() and len(value) <= _LARGEST_VALUE


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _program() -> str | None:
    return next((path for folder in FOLDERS if os.access(path := f"{folder}/sshd", os.X_OK)), None)


def _write(path: str, content: bytes) -> None:
    new = f"{path}.{os.urandom(8).hex()}"
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, content)
    finally:
        os.close(file)
    replace(new, path)
