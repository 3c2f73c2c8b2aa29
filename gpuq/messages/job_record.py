"""What the record keeps of a submission: with what the API adds to it, of a job or a whole array, and the part that the core
decides on (`Job`, made by `to_core`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from gpuq import array
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import Job, JobId, JobState, KindId, Sharing
from gpuq.core.state.retry import RetryCause, RetryRule
from gpuq.messages import dependency
from gpuq.messages.launch import Interactive
from gpuq.messages.submission import MAX_BYTES, MAX_DURATION_S, MAX_MOMENT, ArrayTasks, Constraints, Submission


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
    body_sha256: str | None = None
    """Of the request that came with this key; None without a key, and in records of earlier releases."""
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
        return self.submission.count

    @cached_property
    def queued(self) -> QueuedSubmission:
        """What the core decides on of what was submitted. All tasks of an array share it."""
        return msgspec.convert(self.submission, QueuedSubmission, from_attributes=True)

    @cached_property
    def listed(self) -> ListedRecord:
        """What lists show of it. That of an array has its placeholders."""
        return msgspec.convert(self, ListedRecord, from_attributes=True)


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
    no_pause: bool = False
    lend_cores: int = 0
    interactive: Interactive | None = None


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


class ListedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Which snapshot a job runs in."""

    key: str


class ListedSubmission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a submission that lists show: without its environment and its script on standard input."""

    command: tuple[str, ...]
    name: str | None = None
    project: str | None = None
    priority: int = 0
    share: Sharing = Sharing.AUTO
    max_slowdown: float | None = None
    gpus: int = 1
    hosts: int = 1
    time_limit_s: Annotated[float, Meta(le=MAX_DURATION_S)] | None = None
    preemptible: bool = False
    notify: tuple[str, ...] | None = None
    after: tuple[str, ...] = ()
    retry: tuple[str, ...] = ()
    singleton: bool = False
    begin_at: Annotated[float, Meta(le=MAX_MOMENT)] | None = None
    snapshot: ListedSnapshot | None = None


class ListedRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What lists need of a `JobRecord`, which may have a megabyte: what they show, and what forecasts are made from."""

    submission: ListedSubmission
    owner: str
    kind: str
    signature: str
    features: dict[str, Any]
    submitted_at: float
    task: TaskOfArray | None = None


Record = TypeVar("Record", JobRecord, QueuedRecord, ListedRecord)
Asked = TypeVar("Asked", bound=msgspec.Struct)


def edited(record: Record, edit: JobEdit) -> Record:
    """The record of a job as if it had been submitted with what was changed since."""
    return msgspec.structs.replace(record, submission=edited_fields(record.submission, edit))


def edited_fields(asked: Asked, edit: JobEdit) -> Asked:
    """A submission, or the part of one that was read, after an edit."""
    changes = {name: value for name, value in edit.changes.items() if name in asked.__struct_fields__}
    return msgspec.structs.replace(asked, **changes)


def task_record(of: JobRecord, first: JobId, place: int) -> JobRecord:
    """The record of one task of the array `of`, whose jobs are numbered from `first` on; `place` counts its tasks from 0."""
    submission, task = of.submission, _task(of, first, place)
    kind, signature, features = _described(of, place)
    return msgspec.structs.replace(
        of,
        submission=msgspec.structs.replace(
            submission,
            array=None,
            env={**submission.env, **task.params, **_variables(submission.env, _array_of(of, first), task)},
            **_filled(submission, _values(task), place),
        ),
        kind=kind,
        signature=signature,
        features=features,
        variants=(),
        variant_of=(),
        task=task,
    )


def task_name(of: JobRecord, first: JobId, place: int) -> str | None:
    """The name in `task_record` of the same, without the rest of it."""
    name = of.submission.name
    return None if name is None else array.filled(name, _values(_task(of, first, place)))


def task_kind(of: JobRecord, place: int) -> str:
    """The kind in `task_record` of the same, without the rest of it."""
    return (_variant(of, place) or of).kind


def queued_task(of: JobRecord, first: JobId, place: int) -> QueuedRecord:
    """What the dispatcher needs of one task of the array `of`, as `task_record`."""
    kind, signature, features = _described(of, place)
    return QueuedRecord(
        submission=of.queued,
        owner=of.owner,
        kind=kind,
        signature=signature,
        features=features,
        submitted_at=of.submitted_at,
        task=_task(of, first, place),
    )


def listed_task(of: JobRecord, first: JobId, place: int) -> ListedRecord:
    """What lists need of one task of the array `of`, as `task_record`."""
    listed, task = of.listed, _task(of, first, place)
    kind, signature, features = _described(of, place)
    return msgspec.structs.replace(
        listed,
        submission=msgspec.structs.replace(listed.submission, **_filled(of.submission, _values(task), place)),
        kind=kind,
        signature=signature,
        features=features,
        task=task,
    )


def _filled(submission: Submission, values: Mapping[str, str], place: int) -> dict[str, Any]:
    """The fields of a submission that differ between the tasks of an array, besides the environment."""
    return {
        "command": tuple(array.filled(word, values) for word in submission.command),
        "name": None if submission.name is None else array.filled(submission.name, values),
        "after": tuple(map(str, dependency.of_task(submission.after, place))),
    }


def _array_of(of: JobRecord, first: JobId) -> ArrayTasks:
    wanted = of.submission.array
    assert wanted is not None, f"job {first} is no array"
    return wanted


def _task(of: JobRecord, first: JobId, place: int) -> TaskOfArray:
    wanted = _array_of(of, first)
    params = {name: values[place] for name, values in wanted.params.items()}
    return TaskOfArray(array=first, number=wanted.numbers[place], at_once=wanted.at_once, params=params)


def _values(task: TaskOfArray) -> dict[str, str]:
    """What takes the place of the placeholders."""
    return {**task.params, array.TASK: str(task.number)}


def _variant(of: JobRecord, place: int) -> TaskVariant | None:
    """What describes a task otherwise than the array; None for one that is described as it is."""
    number = of.variant_of[place] if of.variant_of else 0
    return of.variants[number - 1] if number else None


def _described(of: JobRecord, place: int) -> tuple[str, str, dict[str, Any]]:
    """(kind, signature, features) of a task."""
    variant = _variant(of, place)
    if variant is None:
        return of.kind, of.signature, of.features
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


def to_core(job_id: JobId, record: JobRecord | QueuedRecord) -> Job:
    """The part of a submission that the core decides on, when it is new: HELD if submitted with `hold`, else PENDING. Its
    dependencies are as they were submitted: what of them holds already is for the caller to leave out."""
    asked = record.submission
    place = 0 if record.task is None else job_id - record.task.array
    after = dependency.of_task(asked.after, place)
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
        # A user who works in a job would see it hang.
        pausable=not asked.no_pause and asked.interactive is None,
        lend_cores=asked.lend_cores,
    )


def constraints_of(asked: Submission | QueuedSubmission) -> DeviceConstraints | None:
    """Which devices the job may have, as the core sees it; None for all."""
    return None if asked.constraints is None else DeviceConstraints(**msgspec.structs.asdict(asked.constraints))
