"""The shim of an attempt that runs as its submitter: the main process of its systemd unit.

    python -I -S shim/start_unit.py

No shim can be started ahead for a user who is not known yet, and loading all of it takes longer than the rest of a start. So the
job is started first, with what a bare interpreter has (see `shim.child`), and the rest is loaded while it runs.

The order comes on stdin: text that the broker wrote, fields that end with a NUL, then JSON for the rest of the shim. The fields
are the umask (octal), the cores with commas between (empty: all), the working directory, `=` and the standard input (or nothing),
seconds and path of the lease (or nothing), how its user works in it (or nothing), the numbers of arguments and of variables, the
arguments, the variables as NAME=value.

The shim writes into the one folder of gpuq that the job can write to. It exits with the job's exit code, which PID 1 passes on to
`unit_end.py`; what the shim writes itself is only believed as far as that goes. SIGTERM comes from PID 1, to every process of the
unit at once; SIGUSR1 asks for the checkpoint signal. Standard library only, as all of the shim.
"""

import posix
import sys

from gpuq_workers.shim import child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "/run/gpuq-job"
"""`gpuq.messages.launch.JOB_FOLDER`, which the shim cannot import."""
_MOST_BYTES = 1 << 26
_ENCODING = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())  # of os.fsdecode


def main(arguments: list[str]) -> int:
    """Serve the attempt. Returns the job's exit code. An argument names another folder, for tests."""
    folder = arguments[0] if arguments else FOLDER
    order, rest = _read_order(folder)
    strangers = child.children()  # PAM's process, which closes the session after us
    null = posix.open("/dev/null", posix.O_RDWR)
    posix.dup2(null, 0)
    output, theirs = child.terminal() if order["interactive"] == "terminal" else child.pipe()
    begun: int | child.StartFailed | None = None
    if _may_begin(order):
        try:
            begun = child.start(order, theirs)
        except child.StartFailed as failure:
            begun = failure
    posix.close(theirs)

    import json

    from gpuq_workers.shim.serve_unit import UnitShim

    return UnitShim(folder, {**order, **json.loads(rest)}, begun, output, strangers).serve()


def _read_order(folder: str) -> "tuple[dict[str, Any], str]":
    """The part of the order that a process is started from, and the JSON of the rest."""
    text = posix.pread(0, _MOST_BYTES, 0).decode(*_ENCODING)
    umask, cores, cwd, stdin, lease, interactive, arguments, variables, rest = text.split("\0", 8)
    fields = rest.split("\0", int(arguments) + int(variables))
    order: dict[str, Any] = {
        "umask": int(umask, 8),
        "cores": [int(core) for core in cores.split(",")] if cores else None,
        "cwd": cwd,
        "interactive": interactive or None,
        "command": fields[: int(arguments)],
        "env": dict(one.split("=", 1) for one in fields[int(arguments) : -1]),
    }
    if stdin:
        order["stdin"] = f"{folder}/stdin"
        file = posix.open(order["stdin"], posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o600)
        content = stdin[1:].encode(*_ENCODING)
        while content:
            content = content[posix.write(file, content) :]
        posix.close(file)
    if lease:
        seconds, _, order["lease"] = lease.partition(" ")
        order["lease_s"] = float(seconds)
    return order, fields[-1]


def _may_begin(order: "dict[str, Any]") -> bool:
    if "lease" not in order:
        return True
    from gpuq_workers.shim.lease import JobLease

    return JobLease(order).has_begun()
