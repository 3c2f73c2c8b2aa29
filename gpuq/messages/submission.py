"""A submission, as the command sends it and the API checks it, and the record that is kept of it.

The core sees only the part that it decides on (`Job`, made by `to_core`); the worker gets the part that it runs.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from gpuq import array
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.dependency import PATTERN as DEPENDENCY
from gpuq.core.state.dependency import Dependency
from gpuq.core.state.job import Job, JobId, JobState, KindId, Sharing
from gpuq.core.state.retry import PATTERN as RETRY
from gpuq.core.state.retry import RetryCause, RetryRule
from gpuq.errors import BadInput
from gpuq.messages.launch import Interactive, SubmittedCommand
from gpuq.notification import PATTERN as RULE

# One JSON body stays small enough to read by hand; ARG_MAX on Linux is 2 MiB for arguments and environment together.
MAX_ARGUMENTS = 4096
MAX_TEXT = 131_072
MAX_STDIN = 2**20
# Wide enough for any machine and any plan, and narrow enough for every type and calendar that a number meets later.
MAX_BYTES = 2**60
MAX_DURATION_S = 10 * 366 * 86_400
MAX_MOMENT = 4_102_444_800  # the year 2100, as Unix seconds

# Neither a database nor a command line can hold a NUL. For long texts the pattern is a look-ahead: tools that read the OpenAPI
# document join `[^\x00]*` with the greatest length, and a repetition of 131,072 takes them seconds to compile.
NO_NUL = r"^[^\x00]*$"
NO_NUL_IN_LONG = r"^(?![\s\S]*\x00)"
# An argument may be empty: `--tag ''`.
Argument = Annotated[str, Meta(max_length=MAX_TEXT, pattern=NO_NUL_IN_LONG)]
# In an environment the name of a variable ends at the first `=`.
VariableName = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, pattern=r"^(?![\s\S]*[\x00=])")]


# A name out of a script: printable, no line breaks, nothing that could be taken for markup or code.
Word = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[\w.,:/@+ -]+$")]


# The signals that may ask a job to save its work. Signals that cannot be caught, or that mean something else, are left out.
Signal = Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"]


SettingName = Literal["batch", "image", "sequence", "model", "precision", "optimizer", "epochs"]


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value of a setting, and where it was read. The origins are in the order in which they override each other."""

    value: Word
    origin: Literal["argument", "config file", "default", "script"]


class Hints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Facts that the client read from the script and from configuration files that the command names, without running anything.

    A claim of the submitter: it only chooses which measurements a forecast rests on, and promises nothing.
    """

    framework: Word | None = None
    constructors: Annotated[tuple[Word, ...], Meta(max_length=16)] = ()
    """Models that the script makes, as in `resnet50` or `AutoModel.from_pretrained:bert-base-uncased`."""
    layers: Annotated[dict[Word, Annotated[int, Meta(ge=1, le=100_000)]], Meta(max_length=32)] = {}
    parameters: Annotated[int, Meta(ge=1, le=10**13)] | None = None
    settings: Annotated[
        dict[SettingName, Setting],
        Meta(max_length=7, extra_json_schema={"propertyNames": {"enum": list(get_args(SettingName))}}),
    ] = {}
    """What the command itself does not say by a usual name."""
    values: Annotated[dict[Word, float | Word], Meta(max_length=64)] = {}
    """What the script runs with, by plain name: its options, constants and configuration files, as far as they may matter."""
    given: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()
    """Those of `values` that the command or a configuration file gives; the others are what the script says."""


class SnapshotPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The copy of a work tree that a job runs in."""

    key: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$")]
    folder: Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^/(?![\s\S]*\x00)")]
    """Its top."""
    taken_from: Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^/(?![\s\S]*\x00)")]
    """The top of the work tree that it is a copy of."""


_HostName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
# What `--constraint` can ask for, and what hosts' settings can give.
FEATURE = r"[A-Za-z0-9._:-]{1,64}"
_Feature = Annotated[str, Meta(pattern=f"^{FEATURE}$")]


class Constraints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which devices a job may have: those that meet all of these. One that is empty or null allows every device."""

    types: Annotated[tuple[Annotated[str, Meta(max_length=100, pattern=r"[A-Za-z0-9]")], ...], Meta(max_length=16)] = ()
    """The type has all words of one of these: `A100`, `A100 80GB`. Case does not matter, nor do hyphens and underscores."""
    least_memory: Annotated[int, Meta(gt=0, le=MAX_BYTES)] | None = None
    """Bytes that the device is sold with; what its driver keeps of them counts."""
    hosts: Annotated[tuple[_HostName, ...], Meta(max_length=64)] = ()
    excluded_hosts: Annotated[tuple[_HostName, ...], Meta(max_length=64)] = ()
    devices: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)], ...], Meta(max_length=64)
    ] = ()
    """Names, as `gpu3` or `node2:gpu3`, or ids; the record has ids."""
    features: Annotated[
        tuple[Annotated[tuple[_Feature, ...], Meta(min_length=1, max_length=16)], ...], Meta(max_length=16)
    ] = ()
    """Groups of features of which one is to be had completely: `[["nvlink", "ib"], ["fast"]]`."""


class ArrayTasks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """What makes a submission an array: one job for each of these task numbers."""

    tasks: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, pattern=r"^[0-9,:\- ]+$")]
    """Their numbers, as in `0-9:3,20`."""
    at_once: Annotated[int, Meta(ge=1, le=array.MOST_TASKS)] | None = None
    """So many of them run at a time, at most; null: any number."""
    params: Annotated[
        dict[
            Annotated[str, Meta(pattern=rf"^{array.PARAMETER}$")],
            Annotated[
                tuple[Annotated[str, Meta(max_length=MAX_TEXT, pattern=NO_NUL_IN_LONG)], ...],
                Meta(max_length=array.MOST_TASKS),
            ],
        ],
        Meta(max_length=64),
    ] = {}
    """The values of each parameter, one for each task, in the order of their numbers. They take the place of `{name}` in the
    words of the command and in the name, and are variables of the task's environment."""

    def __post_init__(self) -> None:
        try:
            count = self.count
        except BadInput as error:
            raise ValueError(error.message.removesuffix(".")) from error
        for name, values in self.params.items():
            if len(values) != count:
                raise ValueError(f"parameter `{name}` has {len(values)} values for {count} tasks")
        if array.TASK in self.params:
            raise ValueError(f"no parameter can be called `{array.TASK}`, which is the number of the task")

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The task numbers, ascending."""
        return array.numbers(self.tasks)

    @property
    def count(self) -> int:
        """How many tasks."""
        return len(self.numbers)


USUAL_UMASK = 0o022
"""The umask of a job whose submission names none: as on most systems, and not that of the services, which is 077."""


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /api/v1/jobs`. Memory in bytes, time in seconds, slowdown as a ratio (1.15 is 15% slower).

    The record has only what is not as usual. So hosts of the previous release, which refuse fields that they do not have, start
    the job during an upgrade.
    """

    command: Annotated[tuple[Argument, ...], Meta(min_length=1, max_length=MAX_ARGUMENTS)]
    cwd: Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^/(?![\s\S]*\x00)")]
    env: dict[VariableName, Annotated[str, Meta(max_length=MAX_TEXT, pattern=NO_NUL_IN_LONG)]] = {}
    name: Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f]*$")] | None = None
    project: Annotated[str, Meta(max_length=200, pattern=NO_NUL)] | None = None
    kind: Annotated[str, Meta(min_length=1, max_length=400, pattern=NO_NUL)] | None = None
    script: Annotated[str, Meta(max_length=4096, pattern=NO_NUL_IN_LONG)] | None = None
    script_sha256: Annotated[str, Meta(min_length=64, max_length=64, pattern=r"^[0-9a-f]+$")] | None = None
    git_sha: Annotated[str, Meta(max_length=64, pattern=NO_NUL)] | None = None
    git_dirty: bool | None = None
    hints: Hints | None = None
    stdin: Annotated[str, Meta(max_length=MAX_STDIN, pattern=NO_NUL_IN_LONG)] | None = None
    """The text that the job reads on its standard input, such as the script of `python -`. None: nothing."""
    umask: Annotated[int, Meta(ge=0, le=0o777)] | None = None
    """The file mode bits that the job's new files do not get, as the submitter's umask; None: 022."""
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    share: Sharing = Sharing.AUTO
    max_slowdown: Annotated[float, Meta(ge=1.0, le=5.0)] | None = None
    gpu_memory: Annotated[int, Meta(gt=0, le=MAX_BYTES)] | None = None
    gpus: Annotated[int, Meta(ge=1, le=64)] = 1
    """Devices, at least."""
    hosts: Annotated[int, Meta(ge=1, le=64)] = 1
    """It runs on so many hosts at the same time, with equally many devices of each. Over several hosts it shares no device."""
    most_gpus: Annotated[int, Meta(ge=1, le=64)] | None = None
    """It runs on any number of devices from `gpus` to this; one below `gpus` adds nothing."""
    time_limit_s: Annotated[float, Meta(gt=0, le=MAX_DURATION_S)] | None = None
    hold: bool = False
    requeue_on_node_fail: bool = False
    deadline_at: Annotated[float, Meta(gt=0, le=MAX_MOMENT)] | None = None
    """Unix seconds by which it should end. It may nevertheless start and end later."""
    preemptible: bool = False
    """It saves its work on a signal, so it may be stopped for another job and started again later."""
    signal: Signal | None = None
    """The signal that asks it to save its work; None: the host's `checkpoint_signal`. One that is named implies `preemptible`,
    unless `signal_before_s` says that it is for the time limit."""
    signal_before_s: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    """So long before its time limit it gets this signal; null: not at all."""
    blink: bool = False
    """It may be paused for a second now and then to measure a partner that may too, and be measured in turn."""
    notify: Annotated[tuple[Annotated[str, Meta(max_length=500, pattern=RULE)], ...], Meta(max_length=10)] | None = None
    """For which events its owner is sent a message, and to which targets, as in `end,fail:slack`; null: as the owner's own file
    says. Addresses and passwords are in that file only."""
    constraints: Constraints | None = None
    """Which devices it may have; null: all."""
    after: Annotated[tuple[Annotated[str, Meta(pattern=DEPENDENCY)], ...], Meta(max_length=100)] = ()
    """What it waits for of other jobs: `ok:12`, `any:12` or `fail:12`, and for all jobs of a range `ok:12-21`."""
    begin_at: Annotated[float, Meta(gt=0, le=MAX_MOMENT)] | None = None
    """Unix seconds before which it does not start."""
    retry: Annotated[tuple[Annotated[str, Meta(pattern=RETRY)], ...], Meta(max_length=20)] = ()
    """After which ends it starts again, and how often at most: `oom:2`, `node:5`, `timeout:20`, `exit=75:3`, `any:1`."""
    singleton: bool = False
    """It waits until all earlier jobs of its user with its name have ended."""
    idle_ok: bool = False
    """It is not stopped because it does not use its devices."""
    interactive: Interactive | None = None
    """How its owner works in it: on its terminal, or in a notebook; null for a batch job. One without a time limit gets the
    site's."""
    snapshot: SnapshotPlace | None = None
    """Where `command` and `cwd` name files of a copy of the work tree; `script` stays the path in the tree itself."""
    array: ArrayTasks | None = None
    """What makes it many jobs; null: it is one."""

    def __post_init__(self) -> None:
        if self.signal is not None and self.signal_before_s is None and not self.preemptible:
            msgspec.structs.force_setattr(self, "preemptible", True)
        if self.umask == USUAL_UMASK:
            msgspec.structs.force_setattr(self, "umask", None)
        if self.constraints == Constraints():
            msgspec.structs.force_setattr(self, "constraints", None)
        if self.array is not None:
            try:
                array.check_placeholders([*self.command, self.name or ""], self.array.params)
            except BadInput as error:
                raise ValueError(error.message.removesuffix(".")) from error
        for text in self.after:
            Dependency.parse(text)  # raises ValueError for a range that runs backwards
        if len({text.partition(":")[0] for text in self.retry}) < len(self.retry):
            raise ValueError("`retry` has two rules for the same end")


class TaskOfArray(msgspec.Struct, frozen=True, kw_only=True):
    """Which task of which array a job is, and its parameters."""

    array: JobId
    number: int
    at_once: int | None
    params: dict[str, str]


class TaskVariant(msgspec.Struct, frozen=True, kw_only=True):
    """How the tasks of an array with certain parameters differ, as forecasts see them, from its first task.

    `features` has what is different; of the features' `values` too, where None stands for one that they do not have.
    """

    kind: str
    signature: str
    features: dict[str, Any]


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A submission with what the API adds to it, before the record gives it an id.

    `signature` and `features` come from `learn.kind.describe`; `owner` and `uid` from the kernel, never from the body. Those of
    an array are its first task's. Its other tasks have them too, or those of a variant: `variant_of` has for each task the
    number of its variant, counted from 1, and 0 for none; it is empty where there are no variants.
    """

    submission: Submission
    owner: str
    uid: int | None
    kind: str
    signature: str
    features: dict[str, Any]
    submitted_at: float
    idempotency_key: str | None = None
    variants: tuple[TaskVariant, ...] = ()
    variant_of: tuple[int, ...] = ()
    task: TaskOfArray | None = None
    """Set in the record of one task, as `task_record` makes it."""

    @property
    def is_array(self) -> bool:
        """Whether it is the record of a whole array."""
        return self.submission.array is not None

    @property
    def job_count(self) -> int:
        """How many jobs it is: the number of tasks of an array, else 1."""
        return 1 if self.submission.array is None else self.submission.array.count

    @cached_property
    def queued(self) -> QueuedSubmission:
        """What the core decides on of what was submitted. All tasks of an array share it."""
        return msgspec.convert(self.submission, QueuedSubmission, from_attributes=True)


class QueuedSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a submission that the core decides on."""

    name: str | None = None
    project: str | None = None
    priority: int = 0
    share: Sharing = Sharing.AUTO
    max_slowdown: float | None = None
    gpu_memory: Annotated[int, Meta(le=MAX_BYTES)] | None = None
    gpus: int = 1
    hosts: int = 1
    most_gpus: int | None = None
    hold: bool = False
    requeue_on_node_fail: bool = False
    deadline_at: Annotated[float, Meta(le=MAX_MOMENT)] | None = None
    preemptible: bool = False
    constraints: Constraints | None = None
    time_limit_s: Annotated[float, Meta(le=MAX_DURATION_S)] | None = None
    after: tuple[str, ...] = ()
    begin_at: Annotated[float, Meta(le=MAX_MOMENT)] | None = None
    singleton: bool = False
    retry: tuple[str, ...] = ()
    idle_ok: bool = False


class QueuedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the dispatcher needs of a `JobRecord`. Most of that is an environment, whose check takes most of the time of reading
    it; a dispatcher that takes over reads the records of all waiting jobs."""

    submission: QueuedSubmission
    owner: str
    kind: str
    signature: str
    features: dict[str, Any]
    submitted_at: float
    task: TaskOfArray | None = None


def task_record(of: JobRecord, first: JobId, place: int) -> JobRecord:
    """The record of one task of the array `of`, whose jobs are numbered from `first` on; `place` counts its tasks from 0."""
    submission, wanted = of.submission, of.submission.array
    assert wanted is not None, f"job {first} is no array"
    task = _task(wanted, first, place)
    values = {**task.params, array.TASK: str(task.number)}
    kind, signature, features = _described(of, place)
    return msgspec.structs.replace(
        of,
        submission=msgspec.structs.replace(
            submission,
            array=None,
            command=tuple(array.filled(word, values) for word in submission.command),
            name=None if submission.name is None else array.filled(submission.name, values),
            env={**submission.env, **task.params, **_variables(submission.env, wanted, task)},
        ),
        kind=kind,
        signature=signature,
        features=features,
        variants=(),
        variant_of=(),
        task=task,
    )


def queued_task(of: JobRecord, first: JobId, place: int) -> QueuedRecord:
    """What the dispatcher needs of one task of the array `of`, as `task_record`."""
    wanted = of.submission.array
    assert wanted is not None, f"job {first} is no array"
    kind, signature, features = _described(of, place)
    return QueuedRecord(
        submission=of.queued,
        owner=of.owner,
        kind=kind,
        signature=signature,
        features=features,
        submitted_at=of.submitted_at,
        task=_task(wanted, first, place),
    )


def _task(wanted: ArrayTasks, first: JobId, place: int) -> TaskOfArray:
    params = {name: values[place] for name, values in wanted.params.items()}
    return TaskOfArray(array=first, number=wanted.numbers[place], at_once=wanted.at_once, params=params)


def _described(of: JobRecord, place: int) -> tuple[str, str, dict[str, Any]]:
    """(kind, signature, features) of a task."""
    number = of.variant_of[place] if of.variant_of else 0
    if number == 0:
        return of.kind, of.signature, of.features
    variant = of.variants[number - 1]
    features = {**of.features, **variant.features}
    values = {**(of.features.get("values") or {}), **(variant.features.get("values") or {})}
    if "values" in of.features:
        features["values"] = {name: value for name, value in sorted(values.items()) if value is not None}
    return variant.kind, variant.signature, features


def _variables(env: dict[str, str], wanted: ArrayTasks, task: TaskOfArray) -> dict[str, str]:
    """The variables that say which task it is; also Slurm's, for a job that is given these."""
    ours = {"GPUQ_ARRAY_ID": str(task.array), "GPUQ_ARRAY_TASK": str(task.number)}
    if "SLURM_JOB_ID" not in env:
        return ours
    numbers = wanted.numbers
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    return {
        **ours,
        "SLURM_ARRAY_JOB_ID": str(task.array),
        "SLURM_ARRAY_TASK_ID": str(task.number),
        "SLURM_ARRAY_TASK_COUNT": str(len(numbers)),
        "SLURM_ARRAY_TASK_MIN": str(numbers[0]),
        "SLURM_ARRAY_TASK_MAX": str(numbers[-1]),
        "SLURM_ARRAY_TASK_STEP": str(steps.pop() if len(steps) == 1 else 1),
    }


def in_work_tree(submission: Submission) -> Submission:
    """The submission as it would be without a snapshot: paths in the copy replaced by those in the work tree."""
    if submission.snapshot is None:
        return submission
    copy, tree = submission.snapshot.folder, submission.snapshot.taken_from

    def original(path: str) -> str:
        return tree + path.removeprefix(copy) if path == copy or path.startswith(f"{copy}/") else path

    return msgspec.structs.replace(
        submission,
        command=tuple(map(original, submission.command)),
        cwd=original(submission.cwd),
        env={name: value for name, value in submission.env.items() if name != "GPUQ_SUBMIT_DIR"},
        snapshot=None,
    )


def command_of(submission: Submission) -> SubmittedCommand:
    """The part of a submission that is run."""
    return SubmittedCommand(
        command=submission.command,
        cwd=submission.cwd,
        env=submission.env,
        stdin=submission.stdin,
        umask=USUAL_UMASK if submission.umask is None else submission.umask,
        time_limit_s=submission.time_limit_s,
    )


def to_core(job_id: JobId, record: JobRecord | QueuedRecord) -> Job:
    """The part of a submission that the core decides on, when it is new: HELD if submitted with `hold`, else PENDING. Its
    dependencies are as they were submitted: what of them holds already is for the caller to leave out."""
    asked = record.submission
    after = tuple(dict.fromkeys(map(Dependency.parse, asked.after)))
    retry = tuple(map(RetryRule.parse, asked.retry))
    survives_its_host = any(rule.cause in {RetryCause.NODE, RetryCause.ANY} for rule in retry)
    return Job(
        id=job_id,
        kind=KindId(record.kind),
        signature=record.signature,
        owner=record.owner,
        submitted_at=record.submitted_at,
        priority=asked.priority,
        sharing=asked.share if asked.hosts == 1 else Sharing.NEVER,
        max_slowdown=asked.max_slowdown,
        declared_memory=asked.gpu_memory,
        device_count=asked.gpus,
        host_count=asked.hosts,
        most_devices=asked.most_gpus,
        deadline_at=asked.deadline_at,
        preemptible=asked.preemptible,
        requeue_on_node_fail=asked.requeue_on_node_fail or survives_its_host,
        state=JobState.HELD if asked.hold else JobState.PENDING,
        since=record.submitted_at,
        project=asked.project,
        constraints=constraints_of(asked),
        array=None if record.task is None else record.task.array,
        most_at_once=None if record.task is None else record.task.at_once,
        time_limit_s=asked.time_limit_s,
        name=asked.name,
        after=after,
        singleton=asked.singleton,
        retry=retry,
        not_before=asked.begin_at,
        eligible=not (after or asked.singleton or asked.begin_at),
        idle_ok=asked.idle_ok,
    )


def constraints_of(asked: Submission | QueuedSubmission) -> DeviceConstraints | None:
    """Which devices the job may have, as the core sees it; None for all."""
    return None if asked.constraints is None else DeviceConstraints(**msgspec.structs.asdict(asked.constraints))
