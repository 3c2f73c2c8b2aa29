"""The answers of the API as types, those about jobs apart (`schema_jobs`); the command's `--json` prints the same.

Times are RFC 3339 in UTC, beside them the raw Unix seconds under `*_unix`. Keys name their unit: bytes, percent, seconds. What
is unknown is null, never 0. Live numbers and outcomes are declared in `gpuq.messages` and given out as they are.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gpuq.api.contract.schema_jobs import ForecastView


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error, after RFC 9457. `hint` says what to do next; `exit_code` is what the CLI ends with."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    exit_code: int


class ResidentView(msgspec.Struct, frozen=True, kw_only=True):
    """A job on a device. Slowdowns are as in `LiveNumbers`. `promised_bytes`: memory that is promised to it there; all of the
    device to one that shares with no other."""

    job: int
    attempt: int
    name: str | None
    memory_bytes: int | None
    promised_bytes: int | None
    utilization_pct: float | None
    steps: int | None
    rate: float | None
    slowdown: float | None
    expected_slowdown: float | None
    started_at: str | None
    partners: list[int]
    forecast: ForecastView | None


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """A device and the attempts on it. `kind` is the product; live numbers are null while its host does not report.

    `index` is its number on its host as `nvidia-smi` counts, `3` or for a MIG slice `3:1`; null where it is not known. `name` is
    what the command shows and its options take: `gpu3`, `cpu0`, with several hosts `node2:gpu3`. Only `id` never changes.
    `sharing` is `mps`, `time-slicing`, `exclusive` (one process at a time), or null where it is not known. `unwell` says why
    it is given no new jobs, null for a device that is well; `drained` why an operator keeps new jobs off its host,
    `no_starts` why the host itself can start none; `reserved_for` is the waiting job that it is kept free for.
    `processes_visible`: whether its driver shows the processes of jobs, null where no job has shown it yet.
    `energy_joules` counts since the driver was loaded.
    """

    id: str
    name: str
    index: str | None
    host: str
    backend: str
    kind: str
    total_memory_bytes: int
    sharing: str | None
    features: tuple[str, ...]
    """What its host's settings say that it offers, for `--constraint`."""
    until_at: str | None
    """When its host gives it back; null where it keeps it."""
    until_at_unix: float | None
    used_memory_bytes: int | None
    promised_memory_bytes: int | None
    foreign_memory_bytes: int | None
    utilization_pct: float | None
    unwell: str | None
    drained: str | None
    no_starts: str | None = None
    reserved_for: int | None
    processes_visible: bool | None
    power_watts: float | None
    energy_joules: float | None
    temperature_c: float | None
    sm_activity_pct: float | None
    memory_bandwidth_pct: float | None
    throttling: list[str] | None
    xids: dict[str, int] | None
    read_at: str | None
    residents: list[ResidentView]


class NoStartsView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a host starts no job for now, since when, and when it tries again: null for once the cause is over."""

    why: str
    since_at: str
    again_at: str | None


class HostView(msgspec.Struct, frozen=True, kw_only=True):
    """A host with its devices. `state` is `ok`, `drained`, `failing` for one that can start no job for now, which `no_starts`
    explains, or `silent` for one that has not reported for `stale_after_s`.

    `drained` is the operator's reason; `reported_at` is null where it did not report since the dispatcher began. `lost` are
    sentences: what the record had lost of the host and the dispatcher found out since it began. `unread`: why its last report
    was dropped; null for one that was taken. `clock_ahead_s`: how far its clock is ahead of the dispatcher's.
    """

    name: str
    state: str
    drained: str | None
    reported_at: str | None
    devices: int
    jobs: list[int]
    lost: list[str] = []
    unread: str | None = None
    no_starts: NoStartsView | None = None
    clock_ahead_s: float | None = None


class Invited(msgspec.Struct, frozen=True, kw_only=True):
    """A host may join. `command` is to be run on it as root, once, before `expires_at`; whoever has it can join in its name.

    A program can use its parts: where the main host is, the SHA-256 of its certificate, and the secret.
    """

    host: str
    main: str
    fingerprint: str
    secret: str
    command: str
    expires_at: str


class HostRequestTaken(msgspec.Struct, frozen=True, kw_only=True):
    """A request about a host was committed; the dispatcher carries it out within a second. `jobs` are those on the host now."""

    host: str
    asked: str
    jobs: list[int]


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting jobs in order. `source` is `redis`, or `record` when Redis has no order to show."""

    waiting: list[int]
    source: str


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A user's token, without its secret. `role` is the most that it may do; a time that is null has not come and will not."""

    id: str
    user: str
    role: str
    note: str | None
    made_at: str
    expires_at: str | None
    revoked_at: str | None


class NewToken(TokenView, frozen=True, kw_only=True):
    """A token that was just made. `token` is its text, which is shown this once."""

    token: str


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, oldest first."""

    tokens: list[TokenView]


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """What a user or a project uses, beside its limits; one that is null is none. `own`: the quota is its own, not that of `*`.

    Devices and device-hours are of the dispatcher's last look: null while it does not run, and where nothing is limited.
    `device_hours` are those within the last `window_s` seconds.
    """

    scope: str
    name: str
    own: bool
    running_devices: int | None
    running_devices_limit: int | None
    waiting_jobs: int | None
    waiting_jobs_limit: int | None
    device_hours: float | None
    device_hours_limit: float | None
    window_s: float


class StayingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of another user on booked devices that is not known to end before the booking begins. `ends_by` follows from its time
    limit, else from its forecast; null where neither is known. One that is `preemptible` is stopped when the booking begins."""

    job: int
    owner: str
    ends_by: str | None
    preemptible: bool


class BookingView(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that a user has reserved from one moment to another; `by` made it. `begun`: it lasts now."""

    id: int
    user: str
    by: str
    devices: list[str]
    device_names: list[str]
    from_at: str
    from_at_unix: float
    until_at: str
    until_at_unix: float
    begun: bool
    staying: list[StayingJob]


class QuotaRequestTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a quota was committed; the dispatcher carries it out within a second."""

    asked: str
    scope: str
    name: str


class PolicyFault(msgspec.Struct, frozen=True, kw_only=True):
    """Why the chosen policy was replaced by the default; `at` is null where it was so from the start."""

    reason: str
    at: str | None


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that can be chosen. `problem` says why it cannot be had here; what it claims is null where it cannot be loaded.

    `source` is its entry point and the package that it came with; `extra` the optional dependencies it needs; `settings` those
    of [scheduling] that it looks at.
    """

    name: str
    source: str
    summary: str | None
    work_conserving: bool | None
    starvation_free: bool | None
    extra: str | None
    problem: str | None
    settings: dict[str, Any] | None


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """Every policy, the one in the settings, and the one that proposes now: null when no dispatcher says so."""

    chosen: str
    serving: str | None
    fault: PolicyFault | None
    policies: list[PolicyView]


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the journal, as sent over SSE."""

    seq: int
    at: str
    name: str
    jobs: list[int]
    body: Any


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """Lets a page of the caller's connect to the job's terminal within half a minute: `ticket.` and it among the protocols of its
    WebSocket."""

    ticket: str


class Notebook(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser needs to enter a notebook, besides a way to it."""

    token: str


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Fixed words only: `ok`, or what is missing."""

    ready: bool
    database: str
    redis: str
    dispatcher: str


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """Which gpuq answers."""

    version: str
    api: str
