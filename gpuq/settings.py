"""Every setting, read once at start and passed down.

From `$GPUQ_HOME/config.toml`, one table per group; an environment variable `GPUQ_GROUP_FIELD` (as in
`GPUQ_ADMISSION_MAX_SLOWDOWN`) overrides it. `GPUQ_REDIS_URL` and `GPUQ_DATABASE_URL` name outside servers.
docs/operations.md lists each field with its default; a test compares the two.

The values that a setting may have stand beside its type, and `load` refuses all others: so every service and `gpuq doctor`
refuse the same, in the same words.
"""

from __future__ import annotations

import os
import re
import socket
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import quote

import msgspec

from gpuq.core.scheduling.limits import Limits, Range
from gpuq.errors import BadSettings
from gpuq.home import Home


@dataclass(frozen=True, slots=True)
class Form:
    """How a text, or each text of a list, must look; `words` say it to people."""

    pattern: str
    words: str

    def __contains__(self, value: str | tuple[str, ...]) -> bool:
        texts = (value,) if isinstance(value, str) else value
        return all(re.fullmatch(self.pattern, text) for text in texts)

    def __str__(self) -> str:
        return self.words


HOST_NAME = Form(r"[A-Za-z0-9._-]{1,64}", "of 1 to 64 letters, digits, `.`, `_` and `-`")
ADDRESS = Form(r"[A-Za-z0-9.:_%-]+", "that is a host name or an IP address")
HOST_HEADER = Form(r"[A-Za-z0-9.:_\[\]-]+", "that are host names, each with its port or without")


@dataclass(frozen=True)
class Devices:
    """Which devices a host offers."""

    backend: Literal["auto", "nvml", "cpu"] = "auto"
    """`nvml`, `cpu`, or `auto`: NVIDIA GPUs if the driver answers, else CPU devices."""
    cpu_count: Annotated[int, Range(at_least=1)] = 1
    """How many CPU devices to make of the machine's cores."""
    cpu_cores: Annotated[int, Range(at_least=0)] = 0
    """Cores per CPU device; 0 shares all cores out evenly."""
    cpu_memory_fraction: Annotated[float, Range(above=0, at_most=1)] = 0.9
    """Share of the machine's memory that CPU devices may promise together."""
    mps: bool = False
    """Start NVIDIA's MPS, and run the jobs of whole GPUs as its clients: they then compute at once instead of in turns."""
    mps_thread_pct: Annotated[int, Range(at_least=0, at_most=100)] = 0
    """With `mps`: the part of a GPU's threads that one job may use; 0 sets no limit."""
    mps_limit_memory: bool = False
    """With `mps`: the driver refuses a job more GPU memory than was promised to it."""


@dataclass(frozen=True)
class Worker:
    """How a host runs jobs."""

    host: Annotated[str, HOST_NAME] = field(default_factory=socket.gethostname)
    """This host's name: letters, digits, `.`, `_` and `-`."""
    sample_every_s: Annotated[float, Range(at_least=0.1, at_most=60)] = 1.0
    """Time between two readings. Drivers average over up to a second, so faster gives nothing new."""
    grace_s: Annotated[float, Range(at_least=0)] = 10.0
    """Time between SIGTERM and SIGKILL when a job is stopped."""
    checkpoint_signal: Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"] = "SIGTERM"
    """How a preemptible job that names no signal is told to save its work."""
    preempt_grace_s: Annotated[float, Range(at_least=0)] = 60.0
    """Time that a preempted job has to save its work, before it is stopped."""
    log_limit_bytes: Annotated[int, Range(at_least=4096)] = 64 * 2**20
    """Log kept per attempt: the first half, and the latest of the rest."""
    keep_attempts_days: Annotated[float, Range(above=0)] = 30.0
    """Folders of ended attempts, with their logs, are removed after this long."""
    hook: bool = True
    """Count training steps through a small module on the job's PYTHONPATH."""
    blink: bool = False
    """Pause jobs submitted with `--blink` for a moment, under 1% of their time, to measure their partners alone."""


@dataclass(frozen=True)
class Api:
    """The HTTP endpoint."""

    host: Annotated[str, ADDRESS] = "127.0.0.1"
    """Address for TCP. Anything but loopback needs TLS in front."""
    port: Annotated[int, Range(at_least=0, at_most=65535)] = 8780
    """TCP port; 0 picks a free one."""
    allowed_hosts: Annotated[tuple[str, ...], HOST_HEADER] = ()
    """Further values of the Host header to accept, beside loopback names."""


@dataclass(frozen=True)
class Learning:
    """How forecasts are made."""

    quantile: Annotated[float, Range(at_least=0.5, below=1)] = 0.95
    """Upper bounds are meant to hold this often."""
    minimum_attempts: Annotated[int, Range(at_least=1)] = 8
    """Finished attempts needed before a model is trained."""
    keep_versions: Annotated[int, Range(at_least=1)] = 10
    """Model versions kept on the shelf."""
    max_memory_bytes: Annotated[int, Range(at_least=2**28)] = 4 * 2**30
    """Memory that a training may use; one that needs more ends and changes nothing."""
    max_training_s: Annotated[float, Range(above=0)] = 3600.0
    """A training that takes longer is ended and changes nothing."""


@dataclass(frozen=True)
class Scheduling:
    """Who goes first, and by which policy."""

    policy: str = "packed"
    """The policy's name; `gpuq policy list` shows them."""
    policy_time_limit_s: Annotated[float, Range(above=0)] = 2.0
    """A policy that takes longer in one pass is replaced by the default."""
    shadow: bool = False
    """Run every job alone, and note what sharing would have done: `gpuq report shadow`."""
    order: Literal["shortest", "arrival", "fair-share", "deadline"] = "shortest"
    """With `packed`: who goes first among jobs of one priority."""
    backfill: Literal["skip", "easy", "strict"] = "skip"
    """With `packed`: who may go ahead of a job that cannot start yet."""
    overtaking: Annotated[float, Range(at_least=0)] = 100.0
    """With `shortest`: a job is overtaken only by what comes within this many times its own foretold device-time."""
    ageing_s: Annotated[float, Range(above=0)] = 86_400.0
    """A job gains one step of priority for each such time that it waited, up to the highest that waits; one
    without a deadline counts as due that long after its submission."""
    preemption: bool = False
    """Stop preemptible jobs for those of a higher priority; they wait again and keep the work they saved."""
    plan_jobs: Annotated[int, Range(at_least=1)] = 200
    """Planners look at this many waiting jobs in one pass, the highest priority and then the longest waiting first."""
    plan_every_s: Annotated[float, Range(above=0)] = 360.0
    """How long `hybrid` keeps to a plan, and `convex` lets jobs run before others may have their turn."""
    wait_limit_s: Annotated[float, Range(at_least=0)] = 14_400.0
    """With `queueing`: a job whose wait may well (one time in ten) be longer is kept back until the queue is shorter."""
    reinforcement_file: str = ""
    """With `reinforcement`: the network that a site trained; empty is the one that comes with gpuq."""
    energy_price_per_kwh: Annotated[float, Range(at_least=0)] = 0.3
    """With `andreas`: what a kilowatt-hour costs, in any money."""
    late_price_per_hour: Annotated[float, Range(at_least=0)] = 1.0
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


_LONGEST_SHOWN = 60

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
    groups = {name: _group(name, table.get(name, {}), home.settings_file, values) for name in GROUPS}
    settings = Settings(
        home=home,
        redis_url=values.get("GPUQ_REDIS_URL") or None,
        database_url=values.get("GPUQ_DATABASE_URL") or f"sqlite:///{home.database}",
        **groups,
    )
    if settings.admission.stale_after_s < 2 * settings.worker.sample_every_s:
        raise BadSettings(
            f"`stale_after_s` under [admission] is {settings.admission.stale_after_s:g}, less than twice "
            f"`sample_every_s` under [worker], {settings.worker.sample_every_s:g}: no device would ever get a job.",
            fix="Raise `stale_after_s`, or lower `sample_every_s`.",
        )
    return settings


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like settings and are none, as "GPUQ_API_PROT (GPUQ_API_PORT?)". They have no effect."""
    found = []
    for group, cls in GROUPS.items():
        names = [setting.name for setting in fields(cls)]
        prefix = variable(group, "")
        for name in [name for name in environ if name.startswith(prefix)]:
            given = name.removeprefix(prefix).lower()
            near = get_close_matches(given, names, n=1)
            if given not in names:
                found.append(f"{name} ({variable(group, near[0])}?)" if near else name)
    return sorted(found)


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


def _group(group: str, table: Any, path: Path, environ: Mapping[str, str]) -> Any:
    """One group, each value from the environment, else from the file, else the default. Raises BadSettings."""
    if not isinstance(table, dict):
        raise BadSettings(f"`{group}` in {path} must be a table.", fix=f"Write its settings below a line [{group}].")
    cls = GROUPS[group]
    hints = get_type_hints(cls, include_extras=True)
    for unknown in sorted(set(table) - set(hints)):
        raise BadSettings(f"[{group}] in {path} has no setting `{unknown}`.{_meant(unknown, hints)}")
    values = {}
    for setting in fields(cls):
        name, override = setting.name, variable(group, setting.name)
        fix = "Correct it there, or remove it."
        if override in environ:
            raw, source = environ[override], override
        elif name in table:
            raw, source = table[name], str(path)
        elif setting.default_factory is not MISSING:
            raw, source, fix = setting.default_factory(), "The default", f"Set `{name}` under [{group}] in {path}."
        else:
            continue
        values[name] = _value(raw, hints[name], f"{source} sets `{name}` under [{group}]", fix)
    return cls(**values)


def _value(raw: Any, hint: Any, where: str, fix: str) -> Any:
    """The setting's value. Raises BadSettings for a wrong type, and for a value that is not allowed."""
    kind, *allowed = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    try:
        value = msgspec.convert(raw, kind, strict=False)
    except msgspec.ValidationError:
        value = None
    if value is None or any(value not in rule for rule in allowed):
        shown = repr(raw) if len(repr(raw)) <= _LONGEST_SHOWN else f"{repr(raw)[:_LONGEST_SHOWN]}…"
        raise BadSettings(f"{where} to {shown}; it must be {expected(hint)}.", fix=fix)
    return value


def expected(hint: Any) -> str:
    """What a setting with this type hint may be, as in "a whole number of at least 1"."""
    kind, *allowed = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    if get_origin(kind) is Literal:
        words[kind] = "one of " + ", ".join(f'"{value}"' for value in get_args(kind))
    return " ".join([words.get(kind, "a list of texts"), *map(str, allowed)])


def _meant(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f" Did you mean `{near[0]}`?" if near else f" Known: {', '.join(sorted(known))}."
