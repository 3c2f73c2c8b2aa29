"""All settings. A process reads them once at its start and passes them down.

They come from `$GPUQ_HOME/config.toml`, one table per group. An environment variable `GPUQ_GROUP_FIELD`, such as
`GPUQ_ADMISSION_MAX_SLOWDOWN`, overrides the file; items of a list are separated by commas there. `GPUQ_REDIS_URL` and
`GPUQ_DATABASE_URL` name outside servers.
docs/settings.md lists each setting with its default; a test compares the two.

The allowed values of a setting stand beside its type and `load` refuses all others, so every service and `gpuq doctor`
refuse the same values with the same message. A field marked `NOT_A_SETTING` is a constant of the scheduler: only simulations and
tests construct a group with another value. A setting that was removed is accepted with a warning for one release (`REMOVED`).
"""

from __future__ import annotations

import logging
import os
import re
import socket
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import quote

import msgspec

from gpuq.core.scheduling.idle import IdleLimits
from gpuq.core.scheduling.limits import NOT_A_SETTING, Limits, Range
from gpuq.errors import BadSettings
from gpuq.home import Home

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Form:
    """A pattern that a text, or each text of a list, must match. `words` describe it in error messages."""

    pattern: str
    words: str

    def __contains__(self, value: str | tuple[str, ...]) -> bool:
        texts = (value,) if isinstance(value, str) else value
        return all(re.fullmatch(self.pattern, text) for text in texts)

    def __str__(self) -> str:
        return self.words


FEATURES = Form(r"[A-Za-z0-9._:-]{1,64}", "of letters, digits, `.`, `_`, `:` and `-`, at most 64 each")
HOST_NAME = Form(r"[A-Za-z0-9._-]{1,64}", "of 1 to 64 letters, digits, `.`, `_` and `-`")
ADDRESS = Form(r"[A-Za-z0-9.:_%-]+", "that is a host name or an IP address")
OPTIONAL_ADDRESS = Form(r"[A-Za-z0-9.:_%-]{0,253}", "that is empty, a host name or an IP address")
GPU_NAMES = Form(r"[0-9]{1,3}|(GPU|MIG)-[A-Za-z0-9/-]{1,100}", "that are indexes or UUIDs of GPUs")
USER_NAMES = Form(r"[A-Za-z_][A-Za-z0-9._-]{0,63}\$?", "that are names of users")
SOCKET_PATH = Form(r"(/[^\x00]{1,106})?", "that is empty or an absolute path of at most 107 characters")
HOST_HEADER = Form(r"[A-Za-z0-9.:_\[\]-]+", "that are host names, each with its port or without")
HOST_PORTS = Form(r"[A-Za-z0-9.:_%\[\]-]+:[0-9]{1,5}", "that are addresses with a port, as in `main.example.org:8781`")


@dataclass(frozen=True)
class Devices:
    """The devices that a host offers."""

    backend: Literal["auto", "nvml", "cpu", "none"] = "auto"
    """`nvml`, `cpu`, `auto`: NVIDIA GPUs where there are any, else CPU devices; or `none`: this host runs no jobs."""
    only: Annotated[tuple[str, ...], GPU_NAMES] = ()
    """The GPUs and MIG slices to offer, by the index or UUID that `nvidia-smi -L` shows; empty: all."""
    cpu_count: Annotated[int, Range(at_least=1)] = 1
    """The number of CPU devices into which the machine's cores are divided."""
    cpu_cores: Annotated[int, Range(at_least=0)] = 0
    """Cores per CPU device; 0 divides all cores evenly."""
    cpu_memory_fraction: Annotated[float, Range(above=0, at_most=1)] = 0.9
    """Share of the machine's memory that all CPU devices together may promise to jobs."""
    mps: bool = False
    """Start NVIDIA's MPS and run the jobs of whole GPUs as its clients, so that they compute at the same time."""
    mps_thread_pct: Annotated[int, Range(at_least=0, at_most=100)] = 0
    """With `mps`: the part of a GPU's threads that one job may use; 0 sets no limit."""
    mps_limit_memory: bool = False
    """With `mps`: the driver refuses a job more GPU memory than was promised to it."""
    features: Annotated[tuple[str, ...], FEATURES] = ()
    """What jobs can ask for with `--constraint`, as in `["nvlink", "ib"]`; this host's devices all have it."""
    until_at: Annotated[float, Range(at_least=0)] = 0.0
    """Unix seconds at which this host gives its devices back; no job starts that would last longer. 0: it keeps them."""


@dataclass(frozen=True)
class Worker:
    """The worker service of a host."""

    host: Annotated[str, HOST_NAME] = field(default_factory=socket.gethostname)
    """This host's name: letters, digits, `.`, `_` and `-`."""
    address: Annotated[str, OPTIONAL_ADDRESS] = ""
    """A name or an IP address at which other hosts reach this one, where jobs over several hosts meet; empty: `host`."""
    sample_every_s: Annotated[float, Range(at_least=0.1, at_most=60)] = 1.0
    """Seconds between two readings. Drivers average over up to a second, so shorter times give no new information."""
    grace_s: Annotated[float, Range(at_least=0)] = 10.0
    """Time between SIGTERM and SIGKILL when a job is stopped."""
    checkpoint_signal: Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"] = "SIGTERM"
    """The signal that asks a preemptible job to save its work, unless the job names another."""
    preempt_grace_s: Annotated[float, Range(at_least=0)] = 60.0
    """Time that a preempted job has to save its work, before it is stopped."""
    log_limit_bytes: Annotated[int, Range(at_least=4096)] = 64 * 2**20
    """Bytes of log kept per attempt: the beginning up to half of this, and the latest of the rest."""
    keep_attempts_days: Annotated[float, Range(above=0)] = 30.0
    """Folders of ended attempts, with their logs, are removed after this long."""
    hook: bool = True
    """Count training steps by a small module on the job's PYTHONPATH."""
    run_as: Literal["service", "submitter"] = "service"
    """Whose processes jobs are: the user's who runs the worker service, or their submitters' through the broker. One value on all
    hosts."""
    job_memory_max_bytes: Annotated[int, Range(at_least=0)] = 0
    """With `submitter`: the most memory of the host that one job may use; 0 sets no limit."""
    job_tasks_max: Annotated[int, Range(at_least=0)] = 0
    """With `submitter`: the most processes and threads that one job may have; 0 sets no limit."""
    blink: bool = False
    """Pause jobs submitted with `--blink` briefly, for less than 1% of their time, to measure their partners without them."""


@dataclass(frozen=True)
class Api:
    """The HTTP endpoint."""

    host: Annotated[str, ADDRESS] = "127.0.0.1"
    """Address for TCP. Anything but loopback needs TLS in front."""
    port: Annotated[int, Range(at_least=0, at_most=65535)] = 8780
    """TCP port; 0 picks a free one."""
    allowed_hosts: Annotated[tuple[str, ...], HOST_HEADER] = ()
    """Further values of the Host header to accept, beside loopback names."""
    shared_socket: Annotated[str, SOCKET_PATH] = ""
    """A second Unix socket, which every user of this machine may connect to. The kernel says which user does."""
    operators: Annotated[tuple[str, ...], USER_NAMES] = ()
    """Users who may hold, release and cancel the jobs of all users, and read their output and the metrics."""
    admins: Annotated[tuple[str, ...], USER_NAMES] = ()
    """Users who may do what operators may, and train and choose models. Root and the user who runs gpuq are admins."""
    fence_command: tuple[str, ...] = ()
    """Run by `gpuq host lost` to switch the host off, with `{host}` replaced by its name. If it fails, nothing else is done."""
    hosts_at: Annotated[tuple[str, ...], HOST_PORTS] = ()
    """Where other hosts reach this one, as in `main.example.org:8781`; of several main hosts, all. Empty: no host can join."""
    interactive_time_limit_s: Annotated[float, Range(at_least=0)] = 28_800.0
    """Time limit of terminals and notebooks that are submitted without one; 0 sets none."""
    sync_tree_bytes: Annotated[int, Range(at_least=0)] = 256 * 2**20
    """The most bytes of the files that one submission with `--sync` may send; 0 refuses all."""
    sync_user_bytes: Annotated[int, Range(at_least=0)] = 4 * 2**30
    """The most bytes that a user's files of `--sync` may take on the main host."""
    others_jobs: Literal["full", "summary"] = "summary"
    """What users see of the jobs of others: all of them, or neither name, command and folder nor output."""


@dataclass(frozen=True)
class Learning:
    """Forecasts and the training of their model."""

    quantile: Annotated[float, Range(at_least=0.5, below=1)] = 0.95
    """The share of jobs for which an upper bound should hold."""
    level_after_s: Annotated[float, Range(at_least=0)] = 600.0
    """A running job counts as evidence for its kind once its memory has not grown for so long; 0: only when it has ended."""
    minimum_attempts: Annotated[int, Range(at_least=1)] = 8
    """Finished attempts needed before a model is trained."""
    keep_versions: Annotated[int, Range(at_least=1)] = 10
    """Model versions that are kept."""
    max_memory_bytes: Annotated[int, Range(at_least=2**28)] = 4 * 2**30
    """Memory that a training may use. A training that needs more is ended and the model stays as it is."""
    max_training_s: Annotated[float, Range(above=0)] = 3600.0
    """Time that a training may take. A longer one is ended and the model stays as it is."""


@dataclass(frozen=True)
class Scheduling:
    """The policy and the order of the queue."""

    policy: str = "packed"
    """The policy's name; `gpuq policy list` shows them."""
    policy_time_limit_s: Annotated[float, Range(above=0)] = 2.0
    """A policy that takes longer in one pass is replaced by the default."""
    shadow: bool = False
    """Run every job alone, and note what sharing would have done: `gpuq report shadow`."""
    order: Literal["shortest", "longest", "arrival", "fair-share", "deadline"] = "shortest"
    """With `packed`: the order among jobs of one priority."""
    backfill: Literal["skip", "easy", "strict"] = "skip"
    """With `packed`: which jobs may start ahead of one that cannot start yet."""
    overtaking: float = field(default=100.0, metadata=NOT_A_SETTING)
    """With `shortest`: a job is overtaken only by jobs that come within this many times its own predicted device-time; with
    `longest`, within this many times the device-time by which theirs is longer."""
    # Shortest-first alone would starve long jobs. This bounds the wait of each by its own size. 100 was chosen, as
    # `patience_ratio` was, on simulated stretches that were not used to judge it (docs/measurements/scheduling.md).
    ageing_s: Annotated[float, Range(above=0)] = 86_400.0
    """A waiting job gains one step of priority per this many seconds, up to the highest priority in the queue. A job without a
    deadline counts as due this long after it began to wait."""
    preemption: bool = False
    """Stop preemptible jobs for jobs of a higher priority. Stopped jobs wait again and keep the work that they saved."""
    plan_jobs: Annotated[int, Range(at_least=1)] = 200
    """Planners plan for this many waiting jobs in one pass: the highest priority first, then the longest waiting."""
    plan_every_s: float = field(default=360.0, metadata=NOT_A_SETTING)
    """Seconds that `hybrid` keeps a plan, and that `convex` lets jobs run before others may take their devices."""
    # The length of a round in Gavel (Narayanan et al., OSDI 2020): long compared with saving a checkpoint and starting again.
    wait_limit_s: Annotated[float, Range(at_least=0)] = 14_400.0
    """With `queueing`: a job whose predicted 90th percentile of the wait is longer is deferred until the queue is shorter."""
    reinforcement_file: str = ""
    """With `reinforcement`: the file of a network that the site trained; empty means the network that comes with gpuq."""
    energy_price_per_kwh: Annotated[float, Range(at_least=0)] = 0.3
    """With `andreas`: the price of a kilowatt-hour, in any currency."""
    late_price_per_hour: Annotated[float, Range(at_least=0)] = 1.0
    """With `andreas`: the price of an hour past the deadline for a job of priority 0. Each step of priority doubles it."""


@dataclass(frozen=True)
class Bookings:
    """What users may reserve for themselves; operators may reserve any devices for any user."""

    user_device_hours: Annotated[float, Range(at_least=0)] = 48.0
    """Device-hours that a user may have reserved at a time; 0: only operators reserve."""
    ahead_days: Annotated[float, Range(above=0)] = 14.0
    """How far ahead a reservation of a user may begin."""


@dataclass(frozen=True)
class Settings:
    """The settings of all groups, the home, and the addresses of Redis and the database."""

    home: Home
    redis_url: str | None
    database_url: str
    admission: Limits = field(default_factory=Limits)
    scheduling: Scheduling = field(default_factory=Scheduling)
    devices: Devices = field(default_factory=Devices)
    worker: Worker = field(default_factory=Worker)
    api: Api = field(default_factory=Api)
    learning: Learning = field(default_factory=Learning)
    bookings: Bookings = field(default_factory=Bookings)
    idle: IdleLimits = field(default_factory=IdleLimits)

    @property
    def effective_redis_url(self) -> str:
        """The URL of the configured Redis, or of the embedded one's socket."""
        return self.redis_url or f"unix://{quote(str(self.home.redis_socket))}"


_LONGEST_SHOWN = 60

GROUPS: dict[str, type] = {
    "admission": Limits,
    "scheduling": Scheduling,
    "devices": Devices,
    "worker": Worker,
    "api": Api,
    "learning": Learning,
    "bookings": Bookings,
    "idle": IdleLimits,
}

REMOVED: Mapping[tuple[str, str], str] = {
    ("admission", "patience_ratio"): "devices are reserved for a job that has waited 5 times its own device-time",
    ("admission", "start_grace_s"): "an order that its host does not report is repeated after 5 s",
    ("admission", "candidates_per_job"): "8 shared devices are tried for one job in one pass",
    ("scheduling", "overtaking"): "a job is overtaken only by what comes within 100 times its own device-time",
    ("scheduling", "plan_every_s"): "`hybrid` plans, and `convex` changes the jobs that run, every 360 s",
}
"""(group, name) of settings that development versions had, with what happens now. 0.1.0 accepts and ignores them."""


def setting_fields(group: str) -> dict[str, Field[Any]]:
    """The fields of the group's class that a configuration file or the environment may set, by name."""
    return {field.name: field for field in fields(GROUPS[group]) if field.metadata.get("setting", True)}


def load(environ: Mapping[str, str] | None = None, warn: Callable[[str], object] = log.warning) -> Settings:
    """The settings that this environment and its home's file give. Raises BadSettings.

    `warn` gets a sentence for each setting that was removed and is still set.
    """
    values = dict(os.environ if environ is None else environ)
    home = Home.from_environment(values)
    table = _with_kept_name(home, _read_file(home.settings_file))
    groups = {name: _group(name, table.get(name, {}), home.settings_file, values) for name in GROUPS}
    for (group, name), now in REMOVED.items():
        sources = [variable(group, name)] if variable(group, name) in values else []
        if name in table.get(group, {}):
            sources.append(f"`{name}` under [{group}] in {home.settings_file}")
        for source in sources:
            warn(
                f"{source} is no setting any more and has no effect: {now}. Remove it; the next release does not know it."
            )
    settings = Settings(
        home=home,
        redis_url=values.get("GPUQ_REDIS_URL") or None,
        database_url=values.get("GPUQ_DATABASE_URL") or f"sqlite:///{home.database}",
        **groups,
    )
    if settings.devices.mps and settings.worker.run_as == "submitter":
        raise BadSettings(
            '`mps` under [devices] and `run_as = "submitter"` under [worker] exclude each other: an MPS server serves one user.',
            fix="Set `mps = false`; the jobs of several users share a device by time slicing.",
        )
    if settings.admission.stale_after_s < 2 * settings.worker.sample_every_s:
        raise BadSettings(
            f"`stale_after_s` under [admission] is {settings.admission.stale_after_s:g}, less than twice "
            f"`sample_every_s` under [worker], {settings.worker.sample_every_s:g}: no device would ever get a job.",
            fix="Raise `stale_after_s`, or lower `sample_every_s`.",
        )
    return settings


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like settings but are not, with the closest match, as in "GPUQ_API_PROT (GPUQ_API_PORT?)"."""
    unknown = []
    for group in GROUPS:
        names = list(setting_fields(group))
        prefix = variable(group, "")
        for name in [name for name in environ if name.startswith(prefix)]:
            given = name.removeprefix(prefix).lower()
            near = get_close_matches(given, names, n=1)
            if given not in names and (group, given) not in REMOVED:
                unknown.append(f"{name} ({variable(group, near[0])}?)" if near else name)
    return sorted(unknown)


def variable(group: str, name: str) -> str:
    """The environment variable that overrides a setting."""
    return f"GPUQ_{group}_{name}".upper()


def _read_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path} is not valid TOML: {error}", fix=f"Correct {path}, or move it away.") from error
    except OSError as error:
        raise BadSettings(f"{path} cannot be read: {error.strerror}", fix=f"Make {path} readable.") from error
    for unknown in sorted(set(table) - set(GROUPS)):
        raise BadSettings(f"{path} has an unknown table [{unknown}].{_meant(unknown, GROUPS)}")
    return table


def _with_kept_name(home: Home, table: dict[str, Any]) -> dict[str, Any]:
    """The table, with the name that this host has had so far where it gives none: the record knows the host by it, and the
    machine may have another one after each start, as a container does."""
    worker = table.get("worker", {})
    if not isinstance(worker, dict):
        return table
    try:
        name = home.host_file.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return table
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(
            f"{home.host_file} cannot be read: {error}.", fix="Make it readable, or remove it."
        ) from error
    if "host" not in worker and (not name or not name.isprintable()):  # a disk has lost it
        raise BadSettings(
            f"{home.host_file} holds no name: what the record calls this host was in it, and was lost.",
            fix=f"Write the name into it that `gpuq host list` shows, or remove it where that is {socket.gethostname()}.",
        )
    return {**table, "worker": {"host": name, **worker}}


def _group(group: str, table: Any, path: Path, environ: Mapping[str, str]) -> Any:
    """The group's object. A value comes from the environment, else from the file, else it is the default. Raises BadSettings."""
    if not isinstance(table, dict):
        raise BadSettings(f"`{group}` in {path} must be a table.", fix=f"Write its settings below a line [{group}].")
    cls, known = GROUPS[group], setting_fields(group)
    for unknown in sorted(set(table) - set(known)):
        if (group, unknown) not in REMOVED:
            raise BadSettings(f"[{group}] in {path} has no setting `{unknown}`.{_meant(unknown, known)}")
    values = {}
    for name, setting in known.items():
        override = variable(group, name)
        fix = "Correct it there, or remove it."
        raw: Any
        if override in environ:
            raw, source = environ[override], override
        elif name in table:
            raw, source = table[name], str(path)
        elif setting.default_factory is not MISSING:
            raw, source, fix = setting.default_factory(), "The default", f"Set `{name}` under [{group}] in {path}."
        else:
            continue
        hint = _hints(group)[name]
        if override in environ and get_origin(_kind(hint)) is tuple:
            raw = [word for word in environ[override].split(",") if word]
        values[name] = _value(raw, hint, f"{source} sets `{name}` under [{group}]", fix)
    return cls(**values)


@cache
def _hints(group: str) -> dict[str, Any]:
    """The type of each setting of the group. Takes longer than the rest of `load`, so it waits until a setting is given."""
    return get_type_hints(GROUPS[group], include_extras=True)


def _kind(hint: Any) -> Any:
    """The type, without what is allowed of it."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _value(raw: Any, hint: Any, where: str, fix: str) -> Any:
    """The converted value. Raises BadSettings for a wrong type and for a value that is not allowed."""
    kind, allowed = _kind(hint), get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    try:
        value = msgspec.convert(raw, kind, strict=False)
    except msgspec.ValidationError:
        value = None
    if value is None or any(value not in rule for rule in allowed):
        shown = repr(raw) if len(repr(raw)) <= _LONGEST_SHOWN else f"{repr(raw)[:_LONGEST_SHOWN]}…"
        raise BadSettings(f"{where} to {shown}; it must be {expected(hint)}.", fix=fix)
    return value


def expected(hint: Any) -> str:
    """The values that a type hint allows, in words, as in "a whole number of at least 1"."""
    kind, *allowed = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    if get_origin(kind) is Literal:
        words[kind] = "one of " + ", ".join(f'"{value}"' for value in get_args(kind))
    return " ".join([words.get(kind, "a list of texts"), *map(str, allowed)])


def _meant(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f" Did you mean `{near[0]}`?" if near else f" Known: {', '.join(sorted(known))}."
