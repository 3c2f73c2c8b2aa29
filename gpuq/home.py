"""The folders and files of one gpuq. Standard library only, because the command and the shim start through here.

The home is `$GPUQ_HOME`, else `$XDG_STATE_HOME/gpuq`, else `~/.local/state/gpuq`. Everything in it is private to its owner.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from gpuq.errors import BadSettings

SHARED_SOCKET = Path("/run/gpuq/api.sock")
"""Where a gpuq that several users share has its Unix socket, if the administrator chose the usual place."""
LARGEST_FILE_BYTES = 64 * 1024
"""The most that is read of a small file which other programs may have written."""
_SHORTEST_SECRET = 16


class Home:
    """The paths below one root. Not a dataclass, because importing dataclasses would double the start of the command."""

    __slots__ = ("root",)

    def __init__(self, root: Path) -> None:
        self.root = root

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Home) and other.root == self.root

    def __hash__(self) -> int:
        return hash((Home, self.root))

    def __repr__(self) -> str:
        return f"Home({self.root!r})"

    @classmethod
    def from_environment(cls, environ: dict[str, str] | None = None) -> Home:
        """The home that `environ` (default: this process's environment) names."""
        values = os.environ if environ is None else environ
        if values.get("GPUQ_HOME"):
            return cls(Path(values["GPUQ_HOME"]).expanduser().absolute())
        state = values.get("XDG_STATE_HOME")
        return cls(Path(state) / "gpuq") if state else cls.of_user(str(Path.home()))

    @classmethod
    def of_user(cls, folder: str) -> Home:
        """The usual home of a user whose own folder this is."""
        return cls(Path(folder, ".local", "state", "gpuq"))

    @property
    def settings_file(self) -> Path:
        """The settings as TOML; without the file, all are defaults."""
        return self.root / "config.toml"

    @property
    def database(self) -> Path:
        """The database, if it is SQLite."""
        return self.root / "gpuq.db"

    @property
    def token_file(self) -> Path:
        """The bearer token for callers over TCP."""
        return self.root / "token"

    @property
    def checkpoints(self) -> Path:
        """What jobs keep from one attempt to the next, a folder for each; gpuq removes those that are empty."""
        return self.root / "checkpoints"

    @property
    def synced(self) -> Path:
        """What users sent with `--sync`, a folder for each."""
        return self.root / "synced"

    @property
    def order_key_file(self) -> Path:
        """The dispatcher's master key, on the main host only: the key of each host is derived from it."""
        return self.root / "order.key"

    @property
    def host_key_file(self) -> Path:
        """The key of this host, on every host but the main one."""
        return self.root / "host.key"

    @property
    def tls(self) -> Path:
        """Certificates and their keys: on the main host of the authority and the listener, on a joined host its own."""
        return self.root / "tls"

    @property
    def authority_file(self) -> Path:
        """The certificate of the authority that both sides trust."""
        return self.tls / "ca.pem"

    @property
    def host_certificate_file(self) -> Path:
        """The private key and the certificate of a host that joined."""
        return self.tls / "host.pem"

    @property
    def joined_file(self) -> Path:
        """On a host that joined: under which name, and the addresses of the main host."""
        return self.root / "joined.json"

    @property
    def dispatcher_key_file(self) -> Path:
        """The dispatcher's Ed25519 key, on the main host only: it signs who may start a job as which user."""
        return self.root / "dispatcher.key"

    @property
    def jobs(self) -> Path:
        """Beside the home: one folder per attempt that runs as its submitter, and belongs to that user. Root's."""
        return self.root.with_name(f"{self.root.name}-jobs")

    @property
    def is_in_use(self) -> bool:
        """Whether a gpuq was ever started here. The folder alone is also made by snapshots, and by jobs for their checkpoints."""
        return self.run.exists()

    @property
    def run(self) -> Path:
        """Sockets, locks and notes of running processes, without meaning after a reboot."""
        return self.root / "run"

    @property
    def mps_pipes(self) -> Path:
        """The pipes of NVIDIA's MPS control daemon."""
        return self.run / "mps"

    @property
    def mps_logs(self) -> Path:
        """The logs of the MPS daemon and its servers."""
        return self.root / "logs" / "mps"

    @property
    def api_socket(self) -> Path:
        """The HTTP endpoint's Unix socket."""
        return self.run / "api.sock"

    @property
    def redis_socket(self) -> Path:
        """The embedded Redis server's Unix socket."""
        return self.run / "redis.sock"

    @property
    def redis_data(self) -> Path:
        """The embedded Redis server's append-only file."""
        return self.root / "redis"

    @property
    def models(self) -> Path:
        """The prediction models by version."""
        return self.root / "models"

    @property
    def starts(self) -> Path:
        """The calibration of estimated start times; learnt again if it is missing."""
        return self.root / "starts.json"

    @property
    def profiles(self) -> Path:
        """Op profiles from `gpuq profile`, for the trainer."""
        return self.root / "profiles"

    @property
    def attempts(self) -> Path:
        """One folder per attempt on this host: order, log, progress, exit status."""
        return self.root / "attempts"

    @property
    def series(self) -> Path:
        """What attempts used over time, one file each, for people to look at."""
        return self.root / "series"

    @property
    def spool(self) -> Path:
        """Worker events that are not known to be committed."""
        return self.root / "spool"

    @property
    def host_file(self) -> Path:
        """The name under which the worker service of this home ran last."""
        return self.root / "host"

    @property
    def gpus_file(self) -> Path:
        """Empty; there once this host has had NVIDIA GPUs."""
        return self.root / "gpus"

    @property
    def pools_file(self) -> Path:
        """The pools of Slurm jobs that this gpuq may request."""
        return self.root / "pools.json"

    @property
    def main_job_file(self) -> Path:
        """In which Slurm job gpuq itself runs, and where, if it was started in one."""
        return self.root / "slurm.json"

    @property
    def pilots(self) -> Path:
        """One folder per pilot that was requested: what it is to do, its output, and its home."""
        return self.root / "pilots"

    def attempts_of_pilot(self, host: str) -> Path:
        """The folders of the attempts on a host that is a pilot. They are kept for a while after its end."""
        return self.pilots / host / "gpuq" / "attempts"

    @property
    def epoch_file(self) -> Path:
        """The highest epoch of a dispatcher that this host has seen."""
        return self.root / "epoch"

    @property
    def logs(self) -> Path:
        """The logs of gpuq's own processes."""
        return self.root / "logs"

    def attempt(self, job: int, number: int) -> Path:
        """The folder of attempt `number` of a job."""
        return self.attempts / f"{job}-{number}"

    @property
    def is_open_to_others(self) -> bool:
        """Whether other users may enter, list or write to the folder."""
        return bool(stat.S_IMODE(self.root.stat().st_mode) & 0o077)

    def create(self) -> None:
        """Create the folders with mode 0700, which an empty one of ours gets too. Raises BadSettings if one cannot be created or
        written."""
        inner = (self.run, self.redis_data, self.models, self.profiles, self.attempts, self.spool, self.logs)
        for folder in (self.root, *inner):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if folder == self.root and folder.stat().st_uid == os.geteuid() and not any(folder.iterdir()):
                    folder.chmod(0o700)
            except OSError as error:
                raise _unusable(folder, error.strerror or str(error)) from error
            if not os.access(folder, os.W_OK | os.X_OK):
                raise _unusable(folder, "it may not be written to")


def _unusable(folder: Path, why: str) -> BadSettings:
    return BadSettings(f"{folder} cannot be part of gpuq's home: {why}.", fix="Set GPUQ_HOME to a folder of your own.")


def private_secret(path: Path) -> str:
    """The secret in `path`: 256 random bits as text in a file of mode 0600, created at the first call.

    The file appears atomically, so several processes may call this at once and all get the same secret. Raises BadSettings if
    the file holds less.
    """
    import contextlib
    import secrets

    if not path.exists():
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink()
    secret = path.read_text(errors="replace").strip()
    if not _is_secret(secret):  # a disk has lost it, or an editor
        raise BadSettings(f"{path} holds no usable secret.", fix=f"Remove {path}; the next start makes a new one.")
    return secret


def _is_secret(text: str) -> bool:
    """Whether gpuq can have made it. What a power cut leaves, nothing or zero bytes, anyone can guess."""
    return len(text) >= _SHORTEST_SECRET and text.isascii() and text.isprintable()


def host_key(master: str, host: str) -> str:
    """The key that messages to and from `host` are signed with: HMAC-SHA256(master, "host" + name), in hex."""
    import hmac

    return hmac.digest(master.encode(), b"host" + host.encode(), "sha256").hex()


def key_of_this_host(home: Home, host: str) -> str:
    """The key of the host that this home is on: what `host.key` holds, else derived from `order.key`. Raises BadSettings."""
    try:
        key = home.host_key_file.read_text(errors="replace").strip()
    except FileNotFoundError:
        return host_key(private_secret(home.order_key_file), host)
    if not _is_secret(key):
        raise BadSettings(
            f"{home.host_key_file} holds no usable key.", fix=f"Run `gpuq host add {host}` on the main host again."
        )
    return key


def instance_id(home: Home, boot_id: str) -> str:
    """The id of the instance: this home on this boot of this machine, and no copy of it."""
    import hashlib

    folder = home.root.stat()
    return hashlib.sha256(f"{boot_id} {folder.st_dev} {folder.st_ino}".encode()).hexdigest()[:16]


# --- files in folders that jobs may write to -----------------------------------------------------------------------
# `gpuq_workers.shim.record` does the same for the shim, which imports nothing of gpuq.


class NotAFile(OSError):
    """What has this name is not a regular file, or is larger than a file of gpuq can be."""


def open_regular(path: str | Path, flags: int = os.O_RDONLY, *, folder: int | None = None) -> int:
    """A descriptor of a regular file; a relative path begins at the descriptor `folder`, and a new file gets mode 0600.

    Follows no link, and waits neither for the other end of a pipe nor for the holder of a lease. Raises FileNotFoundError,
    NotAFile, or another OSError for a file that cannot be opened now.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a socket or a pipe, a folder
            raise _not_a_file(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_a_file(path)
    return descriptor


def read_regular(path: Path, most_bytes: int = LARGEST_FILE_BYTES) -> bytes:
    """The content of a regular file of at most `most_bytes`. Raises as `open_regular`."""
    with os.fdopen(open_regular(path), "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise NotAFile(errno.EFBIG, f"it has more than {most_bytes} bytes", str(path))
        return file.read(size)


def free_name(path: Path) -> None:
    """Make the name free without following it: a folder is renamed, because a job may have filled it; all else is removed.

    Raises OSError.
    """
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        import time

        path.rename(path.with_name(f"{path.name}.{time.time_ns()}.aside"))


def is_folder(path: Path) -> bool:
    """Whether this is a folder, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _not_a_file(path: str | Path) -> NotAFile:
    return NotAFile(errno.EINVAL, "it is not a regular file", str(path))


def write_private(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file of mode 0600 atomically. With `durable` it is synced to disk before this returns. Raises OSError.

    Whatever had this name is replaced, even a folder; a link is not followed.
    """
    temporary = path.with_name(path.name + ".tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, 0o600)
    except FileExistsError:
        # Left by a process that was killed, or put there by a job: a pipe would block this process.
        free_name(temporary)
        descriptor = os.open(temporary, flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    try:
        temporary.rename(path)
    except IsADirectoryError:
        free_name(path)
        temporary.rename(path)
    if durable:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
