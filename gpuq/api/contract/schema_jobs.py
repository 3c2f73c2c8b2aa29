"""The answers of the API about jobs as types, as `schema` has those about all else."""

from __future__ import annotations

from typing import Any

import msgspec

from gpuq.api.live import DispatcherSign
from gpuq.core.state.job import JobState
from gpuq.messages.live import LiveNumbers
from gpuq.messages.outcome import AttemptOutcome
from gpuq.messages.submission import Constraints

Numbers = dict[str, float | int | str | None]


class ForecastView(msgspec.Struct, frozen=True, kw_only=True):
    """A forecast. `power_w` is what one device draws while the job has it to itself, in watts."""

    peak_utilization_pct: float | None = None
    peak_memory_bytes: int | None = None
    upper_memory_bytes: int | None = None
    expected_slowdown: float | None = None
    upper_slowdown: float | None = None
    duration_p50_s: float | None = None
    duration_p90_s: float | None = None
    power_w: float | None = None
    evidence: str | None = None
    model_version: str | None = None


class VerdictView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a job may have a device, the rule that settled it, its numbers, and the same as a sentence. `device_name` is as in
    `DeviceView`."""

    admitted: bool
    rule: str
    numbers: Numbers
    device: str | None = None
    device_name: str | None = None
    sentence: str = ""


class ExpectedStart(msgspec.Struct, frozen=True, kw_only=True):
    """When a waiting job will probably start: the median, and the time before which nine in ten such jobs start.

    `checked`: enough earlier estimates were compared with the starts that followed.
    """

    p50: str
    p50_unix: float
    p90: str
    p90_unix: float
    checked: bool = True


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a job: what was known at its launch, and how it ended."""

    number: int
    host: str
    device: str | None
    devices: list[str]
    device_names: list[str]
    promised_memory_bytes: list[int]
    shares: bool | None
    opened_memory_bytes: int | None
    """Promised to it on each device since it was opened to partners because it was idle; null: it was not."""
    launched_at: str
    started_at: str | None
    ended_at: str | None
    ending: str | None
    exit_code: int | None
    reason: str | None
    log_path: str | None
    model_version: str | None
    forecast: ForecastView | None
    verdict: VerdictView | None
    actual: AttemptOutcome


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """One job in a list. `position` is its position among the waiting jobs, 1 for the next one; null for all others.

    A job over several hosts has one attempt on each, numbered in a row: `attempt`, `host`, `log_path`, `live` and `actual` are of
    the first, `hosts` and `devices` of all.

    In the summary of another user's job, `name`, `project`, `kind`, `log_path`, `notify`, `snapshot` and `params` are null, and
    `command` is empty; `verdict` and `actual` do not name its partners' kinds. Of a user's own job they name the user's own kinds
    only.
    """

    id: int
    name: str | None
    state: JobState
    reason: str | None
    owner: str
    project: str | None
    kind: str | None
    command: list[str]
    priority: int
    share: str
    max_slowdown: float | None
    gpus: int
    wanted_hosts: int
    time_limit_s: float | None
    preemptible: bool
    notify: list[str] | None
    submitted_at: str
    submitted_at_unix: float
    state_since: str
    state_since_unix: float
    started_at: str | None
    started_at_unix: float | None
    ended_at: str | None
    ended_at_unix: float | None
    cancel_requested: bool
    attempt: int
    host: str | None
    hosts: list[str]
    device: str | None
    device_name: str | None
    devices: list[str]
    device_names: list[str]
    partners: list[int]
    exit_code: int | None
    log_path: str | None
    after: list[str]
    """What it was to wait for of other jobs when it was submitted, as in `ok:12`."""
    retry: list[str]
    """After which ends it starts again, and how often at most."""
    singleton: bool
    begin_at: str | None
    begin_at_unix: float | None
    snapshot: str | None
    """The key of the copy of the work tree that it runs in."""
    array: int | None
    """The array that it is a task of; so `task` is the number of the task, and `params` has its parameters."""
    task: int | None
    params: dict[str, str] | None
    live: LiveNumbers | None
    position: int | None
    expected_start: ExpectedStart | None
    forecast: ForecastView | None
    verdict: VerdictView | None
    actual: AttemptOutcome
    dispatcher: DispatcherSign | None = None
    """Whether the dispatcher runs; without one no job starts or ends."""


class JobView(JobLine, frozen=True, kw_only=True):
    """One job with all that is known of it. Of its environment only the names of the variables are given.

    `umask` is a number, 18 for 022; null where the submission has none and 022 is used. In the summary of another user's job,
    `cwd` and what is known of its script are null and `environment` is empty.
    """

    cwd: str | None
    script: str | None
    script_sha256: str | None
    git_sha: str | None
    git_dirty: bool | None
    snapshot_folder: str | None
    """The top of that copy."""
    snapshot_taken_from: str | None
    synced: bool
    """Whether it runs with files that were sent with `--sync`."""
    """The top of the work tree that it is a copy of."""
    signal: str | None
    signal_before_s: float | None
    interactive: str | None
    """How its owner works in it: `terminal`, `notebook`, or null for a batch job."""
    environment: list[str]
    umask: int | None
    declared_memory_bytes: int | None
    requeue_on_node_fail: bool
    constraints: Constraints | None
    """Which devices it may have, with their names; null: all."""
    most_gpus: int | None
    deadline_at: str | None
    deadline_at_unix: float | None
    blink: bool
    idle_ok: bool
    no_pause: bool
    lend_cores: int
    alone: bool
    retried: list[int]
    """How often each of `retry` was followed; empty while none was."""
    raised_memory_bytes: int | None
    """The memory that it is to have at least on each device since it ran out of it."""
    attempts: list[AttemptView]


class ArrayLine(msgspec.Struct, frozen=True, kw_only=True):
    """One array: `count` jobs, numbered from `id` on in the order of their task numbers.

    `tasks` are those numbers, as in `0-9:3,20`; at most `at_once` of them run at a time, null for any number. `states` says how
    many tasks are in each state, and `first` the number of the first task in each. `reason`, `verdict`, `position` and
    `expected_start` are those of the first task that waits. `name` and `command` have placeholders; in the summary of another
    user's array `name`, `project` and `params` are null, and `command` is empty.
    """

    id: int
    tasks: str
    count: int
    at_once: int | None
    states: dict[JobState, int]
    first: dict[JobState, int]
    name: str | None
    owner: str
    project: str | None
    command: list[str]
    params: list[str] | None
    """The names of the parameters."""
    priority: int
    submitted_at: str
    submitted_at_unix: float
    reason: str | None
    verdict: VerdictView | None
    position: int | None
    expected_start: ExpectedStart | None
    dispatcher: DispatcherSign | None = None


class ArrayList(msgspec.Struct, frozen=True, kw_only=True):
    """Those of the arrays that were asked for which there are."""

    arrays: list[ArrayLine]


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs. `next` is the cursor for `after`, null on the last page. With `tasks=together` arrays are apart from the
    other jobs, in `arrays`, each in place of its tasks."""

    jobs: list[JobLine]
    next: int | None
    arrays: list[ArrayLine] = []


class SubmittedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The id of one committed job or array, and whether the dispatcher, which starts it, runs. The jobs of an array are numbered
    from `id` on."""

    id: int
    dispatcher: DispatcherSign | None


class SubmittedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of a committed batch, in its order; of an array that of its first job."""

    ids: list[int]
    dispatcher: DispatcherSign | None


class RequestTaken(msgspec.Struct, frozen=True, kw_only=True):
    """A request was committed. `done` says whether the dispatcher has already carried it out."""

    id: int
    asked: str
    state: JobState
    done: bool


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are past the point where this could be done. `why` completes a sentence that begins with "Job 7"."""

    state: JobState
    ids: list[int]
    why: str


class RequestsTaken(msgspec.Struct, frozen=True, kw_only=True):
    """A request about many jobs: `jobs` are those it is for, by the state they were in, and `now` the same by their state when
    this was answered. `missing` are ranges, the first and the last, of ids that were named and that no job has.
    """

    asked: str
    dry_run: bool
    jobs: dict[JobState, list[int]]
    now: dict[JobState, list[int]]
    refused: list[Refused]
    missing: list[tuple[int, int]]


class UndoEdit(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request that gives jobs the values back that they had. `where` has their ids, `edit` the values."""

    where: dict[str, Any]
    edit: dict[str, Any]


class EditsTaken(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a change of many jobs: `jobs` are those it is for, by the state they were in. `unchanged` are those of them
    that started or ended before the dispatcher came to them. `missing` is as in the answer to a cancel."""

    dry_run: bool
    done: bool
    """Whether the dispatcher has carried it out."""
    jobs: dict[JobState, list[int]]
    unchanged: list[int]
    refused: list[Refused]
    """Jobs that cannot be changed so. Only a dry run has some; else nothing is changed then, and the answer is an error."""
    missing: list[tuple[int, int]]
    undo: list[UndoEdit]


class StartChange(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting job whose expected start a change would move. Seconds from now; null: no start can be expected. `name` is null
    for jobs that the caller is not shown."""

    id: int
    name: str | None
    before_s: float | None
    after_s: float | None


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """The expected starts that move by a minute or more, the largest difference first."""

    changes: list[StartChange]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits, or why it is where it is, with the numbers."""

    id: int
    state: JobState
    sentence: str
    verdict: VerdictView | None
    position: int | None
    waiting: int | None
    expected_start: ExpectedStart | None
    device: str | None
    device_name: str | None
    partners: list[int]
    forecast: ForecastView | None
    attempts: list[AttemptView]
    dispatcher: DispatcherSign | None
    excluded: list[VerdictView]
    """Devices that it may not have because it asked for others, while it waits."""
    blink: str | None = None
    """How often a partner was paused to measure it, or why none was; null where it was not submitted with `--blink`."""
    lent_cores: tuple[int, ...] = ()
    """The idle cores of its host that are lent to it now."""


class TreeTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a tree, for `sync.tree` of a submission, once no content is `missing` (SHA-256 in hex)."""

    tree: str
    missing: list[str]


class FilesTaken(msgspec.Struct, frozen=True, kw_only=True):
    """How many contents were taken."""

    count: int
