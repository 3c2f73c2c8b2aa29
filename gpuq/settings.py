"""Every setting, read once at start and passed down.

From `$GPUQ_HOME/config.toml`, one table per group; an environment variable `GPUQ_GROUP_FIELD` (as in
`GPUQ_ADMISSION_MAX_SLOWDOWN`) overrides it. `GPUQ_REDIS_URL` and `GPUQ_DATABASE_URL` name outside servers.
docs/operations.md lists each field with its default; a test compares the two.
"""

from __future__ import annotations

import os
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from gpuq.core.limits import Limits
from gpuq.errors import BadSettings
from gpuq.home import Home


@dataclass(frozen=True)
class Devices:
    """Which devices a host offers."""

    backend: str = "auto"
    """`nvml`, `cpu`, or `auto`: NVIDIA GPUs if the driver answers, else CPU devices."""
    cpu_count: int = 1
    """How many CPU devices to make of the machine's cores."""
    cpu_cores: int = 0
    """Cores per CPU device; 0 shares all cores out evenly."""
    cpu_memory_fraction: float = 0.9
    """Share of the machine's memory that CPU devices may promise together."""
    mps: bool = False
    """Start NVIDIA's MPS, and run the jobs of whole GPUs as its clients: they then compute at once instead of in turns."""
    mps_thread_pct: int = 0
    """With `mps`: the part of a GPU's threads that one job may use; 0 sets no limit."""
    mps_limit_memory: bool = False
    """With `mps`: the driver refuses a job more GPU memory than was promised to it."""


@dataclass(frozen=True)
class Worker:
    """How a host runs jobs."""

    host: str = field(default_factory=socket.gethostname)
    """This host's name: letters, digits, `.`, `_` and `-`."""
    sample_every_s: float = 1.0
    """Time between two readings. Drivers average over up to a second, so faster gives nothing new."""
    grace_s: float = 10.0
    """Time between SIGTERM and SIGKILL when a job is stopped."""
    checkpoint_signal: Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"] = "SIGTERM"
    """How a preemptible job that names no signal is told to save its work."""
    preempt_grace_s: float = 60.0
    """Time that a preempted job has to save its work, before it is stopped."""
    log_limit_bytes: int = 64 * 2**20
    """Log kept per attempt: the first half, and the latest of the rest."""
    keep_attempts_days: float = 30.0
    """Folders of ended attempts, with their logs, are removed after this long."""
    hook: bool = True
    """Count training steps through a small module on the job's PYTHONPATH."""
    blink: bool = False
    """Pause jobs submitted with `--blink` for a moment, under 1% of their time, to measure their partners alone."""


@dataclass(frozen=True)
class Api:
    """The HTTP endpoint."""

    host: str = "127.0.0.1"
    """Address for TCP. Anything but loopback needs TLS in front."""
    port: int = 8780
    """TCP port; 0 picks a free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Further values of the Host header to accept, beside loopback names."""


@dataclass(frozen=True)
class Learning:
    """How forecasts are made."""

    quantile: float = 0.95
    """Upper bounds are meant to hold this often."""
    minimum_attempts: int = 8
    """Finished attempts needed before a model is trained."""
    keep_versions: int = 10
    """Model versions kept on the shelf."""
    max_memory_bytes: int = 4 * 2**30
    """Memory that a training may use; one that needs more ends and changes nothing."""
    max_training_s: float = 3600.0
    """A training that takes longer is ended and changes nothing."""


@dataclass(frozen=True)
class Scheduling:
    """Who goes first, and by which policy."""

    policy: str = "packed"
    """The policy's name; `gpuq policy list` shows them."""
    policy_time_limit_s: float = 2.0
    """A policy that takes longer in one pass is replaced by the default."""
    shadow: bool = False
    """Run every job alone, and note what sharing would have done: `gpuq report shadow`."""
    order: Literal["shortest", "arrival", "fair-share", "deadline"] = "shortest"
    """With `packed`: who goes first among jobs of one priority."""
    backfill: Literal["skip", "easy", "strict"] = "skip"
    """With `packed`: who may go ahead of a job that cannot start yet."""
    overtaking: float = 100.0
    """With `shortest`: a job is overtaken only by what comes within this many times its own foretold device-time."""
    ageing_s: float = 86_400.0
    """A job gains one step of priority for each such time that it waited, up to the highest that waits; one
    without a deadline counts as due that long after its submission."""
    preemption: bool = False
    """Stop preemptible jobs for those of a higher priority; they wait again and keep the work they saved."""
    plan_jobs: int = 200
    """Planners look at this many waiting jobs in one pass, the highest priority and then the longest waiting first."""
    plan_every_s: float = 360.0
    """How long `hybrid` keeps to a plan, and `convex` lets jobs run before others may have their turn."""
    wait_limit_s: float = 14_400.0
    """With `queueing`: a job whose wait may well (one time in ten) be longer is kept back until the queue is shorter."""
    reinforcement_file: str = ""
    """With `reinforcement`: the network that a site trained; empty is the one that comes with gpuq."""
    energy_price_per_kwh: float = 0.3
    """With `andreas`: what a kilowatt-hour costs, in any money."""
    late_price_per_hour: float = 1.0
    """With `andreas`: what an hour past its deadline costs a job of priority 0; each step of priority doubles it."""


@dataclass(frozen=True)
class Settings:
    """All groups, and where things are."""

    home: Home
    redis_url: str | None
    database_url: str
    admission: Limits = field(default_factory=Limits)
    scheduling: Scheduling = field(default_factory=Scheduling)
    devices: Devices = field(default_factory=Devices)
    worker: Worker = field(default_factory=Worker)
    api: Api = field(default_factory=Api)
    learning: Learning = field(default_factory=Learning)

    @property
    def effective_redis_url(self) -> str:
        """The named server, or the embedded one's socket."""
        return self.redis_url or f"unix://{quote(str(self.home.redis_socket))}"


GROUPS: dict[str, type] = {
    "admission": Limits,
    "scheduling": Scheduling,
    "devices": Devices,
    "worker": Worker,
    "api": Api,
    "learning": Learning,
}


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings that this environment and its home's file give. Raises BadSettings."""
    values = dict(os.environ if environ is None else environ)
    home = Home.from_environment(values)
    table = _read_file(home.settings_file)
    groups = {name: _group(name, cls, table.get(name, {}), values) for name, cls in GROUPS.items()}
    return Settings(
        home=home,
        redis_url=values.get("GPUQ_REDIS_URL") or None,
        database_url=values.get("GPUQ_DATABASE_URL") or f"sqlite:///{home.database}",
        **groups,
    )


def _read_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path} is not valid TOML: {error}", fix=f"Correct {path}, or move it away.") from error
    except OSError as error:
        raise BadSettings(f"{path} cannot be read: {error.strerror}", fix=f"Make {path} readable.") from error
    unknown = sorted(set(table) - set(GROUPS))
    if unknown:
        raise BadSettings(f"{path} has an unknown table [{unknown[0]}]; known: {', '.join(GROUPS)}.")
    return table


def _group(name: str, cls: type, table: Any, environ: Mapping[str, str]) -> Any:
    if not isinstance(table, dict):
        raise BadSettings(f"`{name}` in the settings must be a table.")
    known = {f.name for f in fields(cls)}
    unknown = sorted(set(table) - known)
    if unknown:
        raise BadSettings(f"[{name}] has no setting `{unknown[0]}`; known: {', '.join(sorted(known))}.")
    overrides = {key: environ[f"GPUQ_{name}_{key}".upper()] for key in known if f"GPUQ_{name}_{key}".upper() in environ}
    try:
        return msgspec.convert({**table, **overrides}, cls, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(f"[{name}]: {error}.") from error
