"""Where one gpuq keeps its things. Standard library only: the CLI and the shim start through here.

`$GPUQ_HOME`, else `$XDG_STATE_HOME/gpuq`, else `~/.local/state/gpuq`. Everything under it is private to its owner.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpuq.errors import BadSettings


class Home:
    """The folders and files of one gpuq. No dataclass: importing those would double the start of the command."""

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
        """The home that this environment names."""
        values = os.environ if environ is None else environ
        if values.get("GPUQ_HOME"):
            return cls(Path(values["GPUQ_HOME"]).expanduser().absolute())
        state = values.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return cls(Path(state) / "gpuq")

    @property
    def settings_file(self) -> Path:
        """The settings, TOML; absent means defaults."""
        return self.root / "config.toml"

    @property
    def database(self) -> Path:
        """The record, when it is SQLite."""
        return self.root / "gpuq.db"

    @property
    def token_file(self) -> Path:
        """The bearer token that TCP callers need."""
        return self.root / "token"

    @property
    def order_key_file(self) -> Path:
        """The key that launch orders are signed with."""
        return self.root / "order.key"

    @property
    def run(self) -> Path:
        """Sockets, locks and pid files: meaningless after a reboot."""
        return self.root / "run"

    @property
    def mps_pipes(self) -> Path:
        """Where the control daemon of NVIDIA's MPS is spoken to."""
        return self.run / "mps"

    @property
    def mps_logs(self) -> Path:
        """What that daemon and its servers write down."""
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
        """The model shelf."""
        return self.root / "models"

    @property
    def starts(self) -> Path:
        """The calibration of expected starts; without it that is learned again."""
        return self.root / "starts.json"

    @property
    def profiles(self) -> Path:
        """Op profiles that `gpuq profile` made, for the trainer."""
        return self.root / "profiles"

    @property
    def attempts(self) -> Path:
        """One folder per attempt that ran on this host: order, log, progress, exit status."""
        return self.root / "attempts"

    @property
    def spool(self) -> Path:
        """Worker events not yet known to be committed."""
        return self.root / "spool"

    @property
    def logs(self) -> Path:
        """What gpuq's own processes had to say."""
        return self.root / "logs"

    def attempt(self, job: int, number: int) -> Path:
        """The folder of one attempt."""
        return self.attempts / f"{job}-{number}"

    def create(self) -> None:
        """Make the folders, readable by the owner alone. Raises BadSettings if there can be no home here."""
        inner = (self.run, self.redis_data, self.models, self.profiles, self.attempts, self.spool, self.logs)
        for folder in (self.root, *inner):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise _unusable(folder, error.strerror or str(error)) from error
            if not os.access(folder, os.W_OK | os.X_OK):
                raise _unusable(folder, "it may not be written to")


def _unusable(folder: Path, why: str) -> BadSettings:
    return BadSettings(f"{folder} cannot be part of gpuq's home: {why}.", fix="Set GPUQ_HOME to a folder of your own.")


def private_secret(path: Path) -> str:
    """The secret in `path`, made at the first call; 256 random bits as text, mode 0600 from the first moment.

    It appears whole or not at all: several processes may ask at once, and all get the same.
    """
    import contextlib
    import secrets

    if not path.exists():
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_text().strip()


def write_private(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file of mode 0600 that is there whole or not at all; on the disk when this returns if `durable`. Raises OSError."""
    temporary = path.with_name(path.name + ".tmp")
    # Jobs may write into some folders of ours: a link that one has put there is not followed.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    temporary.rename(path)
    if durable:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
