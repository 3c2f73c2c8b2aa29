"""What the record has rows of, what one cycle of the dispatcher changes in it, and by what jobs are chosen from it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypedDict

import msgspec

from gpuq.core.state.attempt import AttemptId, StopReason
from gpuq.core.state.device import Device
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import Job, JobId, JobState
from gpuq.core.state.quota import Account, Quota
from gpuq.messages.job_record import JobRecord, ListedRecord, QueuedRecord
from gpuq.messages.outcome import AttemptOutcome

LEASE_S = 30.0
"""An instance that has not renewed the lease of its host's name for so many seconds may be replaced by another one."""


class Waits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has become of the things that a job waits for besides a device, and of its retries; the fields are as in `Job`.
    `memory` is what a retry raised `declared_memory` to."""

    eligible: bool = True
    eligible_at: float | None = None
    not_before: float | None = None
    retried: tuple[int, ...] = ()
    memory: int | None = None

    @classmethod
    def of(cls, job: Job) -> Waits:
        """Those of a job."""
        return cls(
            eligible=job.eligible,
            eligible_at=job.eligible_at,
            not_before=job.not_before,
            retried=job.retried,
            memory=job.declared_memory if job.retried else None,
        )


NO_WAITS = Waits()


class JobStateRow(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one job. `verdict` is a plain Verdict."""

    id: JobId
    state: JobState
    state_since: float
    attempt: int
    alone: bool
    cancel_requested: bool
    verdict: dict[str, Any] | None
    reason: str | None
    waits: Waits = NO_WAITS


class JobRow(JobStateRow, frozen=True, kw_only=True):
    """One job as the record has it. `record` is what was submitted, with what was changed since."""

    record: JobRecord


class LineRow(JobStateRow, frozen=True, kw_only=True):
    """One job as lists show it."""

    record: ListedRecord


class JobLabel(NamedTuple):
    """Whose a job is, and what it is called."""

    owner: str
    name: str | None


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """What the dispatcher needs of one job that has not ended; the fields are as in `JobRow`."""

    id: JobId
    record: QueuedRecord
    state: JobState
    state_since: float
    attempt: int
    alone: bool
    cancel_requested: bool
    verdict: dict[str, Any] | None
    waits: Waits = NO_WAITS


class ArrayRow(msgspec.Struct, frozen=True, kw_only=True):
    """One array: its jobs are numbered from `id` on."""

    id: JobId
    record: JobRecord
    """What was submitted, with the placeholders in it."""
    states: dict[JobState, int]
    """How many of its tasks are in each state; states without a task are left out."""
    first: dict[JobState, JobId]
    """The job with the lowest number in each of these states."""


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: what was known at launch, and what really happened. `launch` and `measurement` are plain, as journalled."""

    job: JobId
    number: int
    host: str
    devices: tuple[str, ...]
    launched_at: float
    launch: dict[str, Any]
    """The plain `Launch` action: attempt, promised memory, forecast, verdict."""
    features: dict[str, Any]
    """The job's features as they were at launch; never recomputed."""
    model_version: str | None
    claimed_at: float | None = None
    boot_id: str | None = None
    started_at: float | None = None
    log_path: str | None = None
    stop_reason: StopReason | None = None
    """Why gpuq stops it, from the moment that it decided to; None for an attempt that it never stopped."""
    instance: str | None = None
    """The instance of the worker service that claimed it; None before a claim, and for claims of earlier versions."""
    revoked_at: float | None = None
    """When the dispatcher took back the order to start it. It cannot be claimed from then on."""
    opened_memory: int | None = None
    """Bytes promised to it on each device since others may join it though it was launched alone; None: they may not."""
    ended_at: float | None = None
    ending: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    measurement: dict[str, Any] | None = None
    actual: AttemptOutcome | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that started, as reports count it: what they need of its job, its launch and its outcome, a tenth of all."""

    job: JobId
    number: int
    name: str | None
    owner: str
    project: str | None
    kind: str
    job_state: JobState
    last: bool
    """Whether it is the job's last attempt: then the job's state says how it ended."""
    devices: tuple[str, ...]
    started_at: float
    ended_at: float | None
    ending: str | None
    exit_code: int | None
    stop_reason: StopReason | None
    time_limit_s: float | None
    max_slowdown: float | None
    promised_bytes: int | None
    """On its first device; with `likely_bytes`, its likeliest peak, and the others below as they were at the launch."""
    likely_bytes: int | None = None
    duration_p50_s: float | None = None
    duration_p90_s: float | None = None
    actual: AttemptOutcome | None = None

    @classmethod
    def of(cls, job: JobRow, row: AttemptRow) -> Run:
        """The same of whole rows; the attempt must have started."""
        assert row.started_at is not None
        asked, launched = job.record.submission, row.launch.get("attempt") or {}
        forecast = launched.get("forecast") or {}
        return cls(
            job=job.id,
            number=row.number,
            name=asked.name,
            owner=job.record.owner,
            project=asked.project,
            kind=job.record.kind,
            job_state=job.state,
            last=row.number == job.attempt,
            devices=row.devices,
            started_at=row.started_at,
            ended_at=row.ended_at,
            ending=row.ending,
            exit_code=row.exit_code,
            stop_reason=row.stop_reason,
            time_limit_s=asked.time_limit_s,
            max_slowdown=asked.max_slowdown,
            promised_bytes=next(iter(launched.get("promised") or ()), None),
            likely_bytes=forecast.get("peak_memory_bytes"),
            duration_p50_s=forecast.get("duration_p50_s"),
            duration_p90_s=forecast.get("duration_p90_s"),
            actual=row.actual,
        )


class NameLease(msgspec.Struct, frozen=True, kw_only=True):
    """Which instance of the worker service has a host's name. It is free `LEASE_S` after the last renewal."""

    instance: str
    renewed_at: float
    """By the clock of the database."""


class JoinedHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host that was invited with `gpuq host add`, and has joined if it has a certificate.

    Serial numbers are hexadecimal. The certificate before the present one counts until the present one is used.
    """

    host: str
    digest: str
    """SHA-256 (hex) of the secret in the printed command."""
    invited_until: float
    serial: str | None = None
    """The certificate that it has, or that was issued to it last."""
    former_serial: str | None = None
    certified_until: float | None = None
    renew: bool = False
    """Whether an admin wants it to have a new key and certificate."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The claim of an attempt: the instance that made it, and the one that has the lease of its host now; None if unknown."""

    instance: str | None
    holder: str | None


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """How many devices an ended attempt of an owner's job had, and for how long."""

    owner: str
    project: str | None
    job: JobId
    started_at: float
    ended_at: float
    devices: int


class Chance(msgspec.Struct, frozen=True, kw_only=True):
    """A job's first opportunity to share, while gpuq ran exclusively: admission would have let it join this attempt.

    Slowdowns are forecasts, time together / time alone: expected, and the upper bound; None where only the rule on load applied.
    `free_at` is the forecast time at which the joined device would have been open to another job; None: when the attempt ends.
    """

    job: JobId
    at: float
    device: str
    beside: AttemptId
    rule: str
    evidence: str | None = None
    newcomer: float | None = None
    newcomer_upper: float | None = None
    resident: float | None = None
    resident_upper: float | None = None
    free_at: float | None = None


class MarkKind(StrEnum):
    """What a mark is about."""

    BLINK = "blink"
    XID = "xid"
    LOWERED_CLOCKS = "lowered clocks"


class DeviceMark(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen on a device, from the first to the last time (Unix seconds), and how often. `detail` is the XID, the reason
    for lowered clocks, or the job that was measured while its partner paused."""

    device: str
    kind: MarkKind
    detail: str
    from_at: float
    until_at: float
    count: int


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs: those that meet every condition; None is no condition."""

    ids: tuple[tuple[int, int], ...] | None = None
    """Ranges, the first and the last id of each."""
    states: tuple[JobState, ...] | None = None
    owner: str | None = None
    name: str | None = None
    """A shell pattern, as in `sweep-*`; so are `kind` and `project`."""
    kind: str | None = None
    project: str | None = None

    @property
    def has_patterns(self) -> bool:
        """Whether names, kinds or projects decide."""
        return not (self.name is None and self.kind is None and self.project is None)

    def matches(self, name: str | None, kind: str, project: str | None) -> bool:
        """Whether these match the patterns."""
        pairs = ((self.name, name), (self.kind, kind), (self.project, project))
        return all(pattern is None or fnmatchcase(text or "", pattern) for pattern, text in pairs)


class Conditions(TypedDict, total=False):
    """The conditions of a list of jobs or arrays, all of which a row must meet. One that is left out or None is no condition.

    `name`, `kind` and `project` are shell patterns. `after` is the last id of the page before; with `newest_first` the next page
    has lower ids."""

    ids: Sequence[JobId] | None
    states: Sequence[JobState] | None
    owner: str | None
    name: str | None
    kind: str | None
    project: str | None
    after: JobId | None
    limit: int | None
    newest_first: bool


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the API accepted. The dispatcher handles it once, however many wake-ups come."""

    id: int
    verb: str
    """Of a job: `submit`, `submit_array` (`job` is the first of them), `cancel`, `hold`, `release` or `edit`. Of a host: `drain`,
    `resume`, `lost` or `forget`. Else `quota`, `remove_quota`, `book`, `cancel_booking`, `model` (a new one serves) or `pause`
    (nothing starts until the dispatcher restarts). `daemon/inbox.py` says what is in `body`."""
    job: JobId | None
    by: str
    at: float
    body: dict[str, Any]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the journal: an event or an action, with the time it was applied at."""

    seq: int
    at: float
    name: str
    body: Any
    jobs: tuple[int, ...] = ()
    """The jobs that it is about, for the event stream; empty for reports and wake-ups."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What stands for a user over TCP. Of its secret only the SHA-256 (hex) is kept."""

    id: str
    user: str
    role: str
    """`user`, `operator` or `admin`: the most that it may do; the user's own role limits it further."""
    digest: str
    note: str | None
    made_at: float
    expires_at: float | None
    """None: it does not expire."""
    revoked_at: float | None = None
    uid: int | None = None
    """Of the user's account when it was made, since a name may be given again. None in those of earlier releases."""


class JobChange(msgspec.Struct, frozen=True):
    """A job as it is from now on. The row takes the fields of it that the dispatcher owns; `verdict` is a plain Verdict."""

    job: Job
    verdict: dict[str, Any] | None = None
    reason: str | None = None


class Leader(msgspec.Struct, frozen=True, kw_only=True):
    """The dispatcher that holds the lease; each one that takes it leads in the next epoch."""

    epoch: int
    holder: str | None
    """None if it has released the leadership, or if none has led yet."""
    renewed_s_ago: float
    """Seconds since the lease was renewed, by the database's clock."""
    order_key: str | None = None
    """The host whose dispatcher first led with the key that orders are signed with, a space, and the key's fingerprint."""
    first_attempt: int = 1
    """The lowest number that a new attempt gets. It rises when the record went back, because hosts have the numbers below."""


class Commit(msgspec.Struct, kw_only=True):
    """Everything that one cycle of the dispatcher changes, in one transaction."""

    epoch: int = 0
    """The epoch in which the dispatcher leads; 0 for a record that no dispatcher has led yet."""
    entries: list[Entry] = []
    jobs: list[JobChange] = []
    edited: list[tuple[JobId, JobEdit]] = []
    """What was changed of jobs, in the order of the changes."""
    verdicts: list[tuple[tuple[JobId, ...], dict[str, Any]]] = []
    """(jobs, verdict): only the verdict of these jobs changes."""
    launched: list[AttemptRow] = []
    started: list[tuple[AttemptId, float, str]] = []
    """(attempt, started_at, log_path)."""
    stopped: list[tuple[AttemptId, StopReason]] = []
    opened: list[tuple[AttemptId, int | None]] = []
    """(attempt, its `opened_memory`)."""
    ended: list[tuple[AttemptId, dict[str, Any]]] = []
    """(attempt, {ended_at, ending, exit_code, reason, measurement, actual})."""
    devices: list[Device] = []
    hosts: dict[str, tuple[str, int]] = {}
    """host -> (boot_id, highest spool number committed)."""
    drained: dict[str, str | None] = {}
    """host -> why it is drained from now on; None: it is not any more."""
    forgotten: list[str] = []
    """Hosts that are forgotten. The rows of their devices are marked; all else about them goes."""
    quotas: dict[Account, Quota | None] = {}
    """The quota of an account from now on; None: it has none any more."""
    handled: list[int] = []
    """Ids of requests."""
    order_key: str | None = None
    """As in `Leader` from now on, as is `first_attempt`; None changes nothing."""
    first_attempt: int | None = None
    chances: list[Chance] = []
    """First sharing opportunities of jobs; one that is in the record already stays as it is."""
    marks: list[DeviceMark] = []
    """Those that are new, and those that went on; of one mark the last."""
