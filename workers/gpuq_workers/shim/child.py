"""Start the job's process as ordered: its arguments, working directory, environment and cores, and nothing else of ours.

A program that cannot be started raises StartFailed with the exit code that a shell would give: 127 not found, 126 not
executable; with none where the host lacks what any program needs. Uses posix_spawn, because forking even a small interpreter
takes longer than the rest of a start. `shim.unit` starts its job before it loads anything else, so this takes from `posix`,
which every interpreter has loaded, what others take from `os`: to load that takes two milliseconds. For the same reason
annotations are quoted instead of a future import.
"""

import errno
import fcntl
import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIPE_BYTES = 1 << 20
# Python ignores SIGPIPE and SIGXFSZ, and an ignored signal stays ignored across exec. These are all signals, but for SIGKILL,
# SIGSTOP and the two that the C library keeps for itself. The module `signal` takes longer to load than all of this.
_SIGNALS = [number for number in range(1, 65) if number not in (9, 19, 32, 33)]
_DEFAULT_PATH = "/bin:/usr/bin"  # os.defpath
_STDIN_FLAGS = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK


# No process, memory or descriptor is left.
_OF_HOST = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class StartFailed(Exception):
    """The process could not be started; none of it runs. `exit_code` is a shell's, None where its host is at fault; `reason` is a
    sentence, and `fault` an error number, if there is one."""

    def __init__(self, exit_code: int, reason: str, fault: "int | None" = None) -> None:
        super().__init__(reason)
        self.exit_code = None if fault in _OF_HOST else exit_code
        self.reason = reason


def pipe() -> tuple[int, int]:
    """(reading end, writing end) of a large pipe for the job's output; reading does not wait."""
    ours, theirs = posix.pipe2(posix.O_CLOEXEC)
    posix.set_blocking(ours, False)
    try:  # noqa: SIM105 - contextlib is not loaded yet
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        pass  # the user has too many pipes; then it is a small one
    return ours, theirs


def terminal() -> tuple[int, int]:
    """(master, slave) of a new pseudo-terminal for the job, with 24 rows of 80 columns; reading the master does not wait."""
    import struct
    import termios

    ours, theirs = posix.openpty()
    posix.set_blocking(ours, False)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    return ours, theirs


def children() -> frozenset[bytes] | None:
    """The pids of our children, zombies included; None if the kernel does not list them (CONFIG_PROC_CHILDREN)."""
    try:
        file = posix.open(f"/proc/self/task/{posix.getpid()}/children", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = b""
        while part := posix.read(file, 65536):
            found += part
        return frozenset(found.split())
    finally:
        posix.close(file)


def start(order: "dict[str, Any]", output: int) -> int:
    """Start the ordered command in a session of its own, stdout and stderr on descriptor `output`; if that is a terminal, stdin
    too, and it is the session's. Returns its pid; raises StartFailed.

    A child inherits working directory, cores and umask, so the shim changes its own for a moment.
    """
    _make_checkpoint_folder(order["env"])
    cwd, cores, own_cores = order["cwd"], order.get("cores"), posix.sched_getaffinity(0)
    own_umask = posix.umask(order.get("umask", 0o022))
    try:
        try:
            posix.chdir(cwd)
        except OSError as error:
            reason = f"its working directory {cwd} cannot be entered: {error.strerror}"
            raise StartFailed(126, reason, error.errno) from None
        try:
            if cores:
                posix.sched_setaffinity(0, cores)
        except OSError as error:
            reason = f"it could not be pinned to cores {cores}: {error.strerror}"
            raise StartFailed(126, reason, error.errno) from None
        return _spawn(order, output)
    finally:
        posix.chdir("/")
        posix.sched_setaffinity(0, own_cores)
        posix.umask(own_umask)


def _make_checkpoint_folder(env: dict[str, str]) -> None:
    """Make the folder that stays from one attempt to the next. Where that fails, as on a full disk, the job has none."""
    folder = env.get("GPUQ_CHECKPOINT_DIR")
    if folder is None:
        return
    try:
        try:
            posix.mkdir(folder, 0o700)
        except OSError:  # it is there, or those above it are not
            import os

            os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103 - pathlib is not loaded yet
    except OSError:
        del env["GPUQ_CHECKPOINT_DIR"]


def _spawn(order: "dict[str, Any]", output: int) -> int:
    # As execvp does: the first candidate that can be executed, and "permission denied" is reported before "not found".
    fault = errno.ENOENT
    # The leader of a session that has no terminal gets the one that it opens.
    stdin, flags = (
        (posix.ttyname(output), posix.O_RDWR)
        if posix.isatty(output)
        else (order.get("stdin", "/dev/null"), _STDIN_FLAGS)
    )
    program = order["command"][0]
    folders = order["env"].get("PATH", _DEFAULT_PATH).split(":") if program else []
    for path in [program] if "/" in program else [f"{folder or '.'}/{program}" for folder in folders]:
        try:
            return posix.posix_spawn(
                path,
                order["command"],
                order["env"],
                file_actions=[
                    # A pipe that another job has put there would block the shim.
                    (posix.POSIX_SPAWN_OPEN, 0, stdin, flags, 0),
                    (posix.POSIX_SPAWN_DUP2, output, 1),
                    (posix.POSIX_SPAWN_DUP2, output, 2),
                    # All other descriptors close at exec: Python opens them with O_CLOEXEC.
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=_SIGNALS,
            )
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                fault = error.errno or errno.EINVAL
                if fault in _OF_HOST:
                    break
            elif fault == errno.ENOENT and posix.access(path, posix.F_OK):
                reason = f"{path} exists, but the interpreter named in its first line does not"
                raise StartFailed(127, reason) from None
        except ValueError:
            fault = errno.EINVAL
    if fault == errno.ENOENT:
        raise StartFailed(127, f"{program or 'a program with an empty name'} was not found")
    if fault == errno.ENOEXEC:
        raise StartFailed(126, f"{program} is not a program: it lacks a first line such as #!/usr/bin/env python3")
    raise StartFailed(126, f"{program} cannot be executed: {posix.strerror(fault)}", fault)
