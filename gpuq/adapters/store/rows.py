"""Converts between the types of the contract and the columns of the tables, JSON text among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from sys import intern
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Row, case, func, select

from gpuq.adapters.store.row_types import (
    NO_WAITS,
    AttemptRow,
    Chance,
    JobChange,
    JobRow,
    LineRow,
    QueuedJob,
    Request,
    Run,
    Waits,
)
from gpuq.adapters.store.schema import attempts, chances, job_lines, job_records, jobs, requests
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import Job, JobId, JobState
from gpuq.core.state.quota import Account, Quota, QuotaScope
from gpuq.errors import Failure
from gpuq.messages.job_record import (
    JobRecord,
    ListedRecord,
    QueuedRecord,
    Record,
    edited,
    edited_fields,
    listed_task,
    queued_task,
    task_record,
)
from gpuq.messages.outcome import outcome_from_json
from gpuq.messages.submission import MAX_BYTES, MAX_DURATION_S, MAX_MOMENT

_RECORD = msgspec.json.Decoder(JobRecord)
_QUEUED = msgspec.json.Decoder(QueuedRecord)
_LISTED = msgspec.json.Decoder(ListedRecord)
_KEPT_LENGTH = 16_384
_WAITS = msgspec.json.Decoder(Waits)
_EDIT = msgspec.json.Decoder(JobEdit)
_DEVICES = msgspec.json.Decoder(tuple[str, ...])
T = TypeVar("T")
_ENCODER = msgspec.json.Encoder()
_MOST = {"deadline_at": MAX_MOMENT, "begin_at": MAX_MOMENT, "time_limit_s": MAX_DURATION_S, "gpu_memory": MAX_BYTES}

# The dispatcher owns these of a job's columns. `verdict` and `waits` are JSON as text.
JOB_STATE = ("state", "state_since", "attempt", "alone", "cancel_requested", "verdict", "reason", "waits")
# A task of an array has no record of its own: it is made from that of its array.
_OF_RECORD = (jobs.c.of_array, jobs.c.edits, job_records.c.record)
JOB_COLUMNS = (jobs.c.id, *(jobs.c[name] for name in JOB_STATE), *_OF_RECORD)
_LINE = select(job_lines.c.line).where(job_lines.c.job == jobs.c.id).scalar_subquery()
_RECORD_AS_LINE = select(job_records.c.record).where(job_records.c.job == jobs.c.id).scalar_subquery()
# Null for a task. Where there is no line, the record is short, or an earlier gpuq wrote it.
ITS_LINE = case((jobs.c.of_array.is_(None), func.coalesce(_LINE, _RECORD_AS_LINE))).label("line")
LINE_COLUMNS = (jobs.c.id, *(jobs.c[name] for name in JOB_STATE), jobs.c.of_array, jobs.c.edits, ITS_LINE)
REQUEST_COLUMNS = (requests.c.id, requests.c.verb, requests.c.job, requests.c.by, requests.c.at, requests.c.body)
# The columns of a chance and of an attempt are named like the fields, but for an attempt's id and what is JSON as text.
_PLAIN_CHANCE = tuple(name for name in Chance.__struct_fields__ if name != "beside")
CHANCE_COLUMNS = (chances.c.beside_job, chances.c.beside_attempt, *(chances.c[name] for name in _PLAIN_CHANCE))
_JSON_ATTEMPT = ("devices", "launch", "features", "measurement", "actual")
_PLAIN_ATTEMPT = tuple(name for name in AttemptRow.__struct_fields__ if name not in _JSON_ATTEMPT)
ATTEMPT_COLUMNS = tuple(attempts.c[name] for name in (*_PLAIN_ATTEMPT, *_JSON_ATTEMPT))

_RUN_FIELDS = ("job", "number", "started_at", "ended_at", "ending", "exit_code", "stop_reason")
RUN_COLUMNS = (
    *(attempts.c[name] for name in (*_RUN_FIELDS, "devices", "launch", "actual")),
    *(jobs.c.owner, jobs.c.state, jobs.c.attempt, *_OF_RECORD),
)


class _RunForecast(msgspec.Struct):
    peak_memory_bytes: int | None = None
    duration_p50_s: float | None = None
    duration_p90_s: float | None = None


class _RunAttempt(msgspec.Struct):
    promised: tuple[int, ...] = ()
    forecast: _RunForecast | None = None


class _RunLaunch(msgspec.Struct):
    attempt: _RunAttempt | None = None


class _RunSubmission(msgspec.Struct):
    name: str | None = None
    project: str | None = None
    time_limit_s: float | None = None
    max_slowdown: float | None = None


class _RunRecord(msgspec.Struct):
    """The part of a `JobRecord` that a `Run` needs: the rest, most of it an environment, is not read."""

    kind: str
    submission: _RunSubmission


_RUN_RECORD = msgspec.json.Decoder(_RunRecord)
_RUN_LAUNCH = msgspec.json.Decoder(_RunLaunch)


def to_json(value: object) -> str:
    """Any value as JSON text."""
    return _ENCODER.encode(value).decode()


def to_optional_json(value: object) -> str | None:
    """The same, where None stays unknown."""
    return None if value is None else to_json(value)


def from_json(text: str) -> Any:
    """The plain value of JSON text that gpuq wrote. Raises Failure for text that is not JSON."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Failure(f"The record holds text that is not JSON: {error}.") from error


def from_optional_json(text: str | None) -> Any:
    """The same, where None is unknown."""
    return None if text is None else from_json(text)


def clean(text: str | None) -> str | None:
    """Text that PostgreSQL can hold: without NUL, which may be in a reason that quotes what a program printed."""
    return None if text is None else text.replace("\x00", "\ufffd")


def record_of(job: JobId, text: str) -> JobRecord:
    """What was submitted. Raises Failure if it cannot be read."""
    return _kept(job, text) if len(text) <= _KEPT_LENGTH else _decoded(job, text, _RECORD)


@lru_cache(maxsize=512)
def _kept(job: JobId, text: str) -> JobRecord:
    """Those on a screen are read each second, and stay the same. Long ones are left out, so that all take few megabytes."""
    return _decoded(job, text, _RECORD)


def _decoded(job: JobId, text: str, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        try:
            return decoder.decode(text)
        except msgspec.ValidationError:
            # Perhaps a record of a gpuq that took numbers of any size, and a name with a newline at its end.
            plain = msgspec.json.decode(text, type=dict[str, Any])
            submitted = plain.get("submission")
            if isinstance(submitted, dict):
                for name, most in _MOST.items():
                    if isinstance(value := submitted.get(name), int | float) and value > most:
                        submitted[name] = most
                if isinstance(called := submitted.get("name"), str):
                    submitted["name"] = called.removesuffix("\n")
            return msgspec.convert(plain, decoder.type)
    except msgspec.DecodeError as error:
        raise Failure(f"The record of job {job} cannot be read: {error}.") from error


def arrays_of(rows: Iterable[Row[Any]]) -> set[JobId]:
    """The arrays of the jobs in these rows."""
    return {row.of_array for row in rows if row.of_array is not None}


def job_row(row: Sequence[Any], arrays: Mapping[JobId, JobRecord]) -> JobRow:
    """A job from its JOB_COLUMNS; `arrays` has the record of its array."""
    job, *state, array, edits, record = row
    submitted = record_of(job, record) if array is None else task_record(arrays[array], array, job - array)
    return JobRow(id=job, record=_edited(submitted, edits), **_state_of(state))


def line_row(row: Sequence[Any], arrays: Mapping[JobId, JobRecord]) -> LineRow:
    """A job as lists show it, from its LINE_COLUMNS; `arrays` has the record of its array."""
    job, *state, array, edits, line = row
    return LineRow(id=job, record=_edited(listed_record(job, line, array, arrays), edits), **_state_of(state))


def _state_of(columns: Sequence[Any]) -> dict[str, Any]:
    """The fields that the columns JOB_STATE are."""
    fields = dict(zip(JOB_STATE, columns, strict=True))
    return {
        **fields,
        "state": JobState(fields["state"]),
        "verdict": from_optional_json(fields["verdict"]),
        "waits": _waits_of(fields["waits"]),
    }


def listed_record(job: JobId, line: str | None, array: JobId | None, arrays: Mapping[JobId, JobRecord]) -> ListedRecord:
    """What lists show of a submission, from its ITS_LINE or the record of its array. Raises Failure if it cannot be read."""
    return _decoded(job, line or "", _LISTED) if array is None else listed_task(arrays[array], array, job - array)


def queued_job(row: Sequence[Any], arrays: Mapping[JobId, JobRecord]) -> QueuedJob:
    """A job that has not ended from its JOB_COLUMNS; `arrays` has the record of its array."""
    job, state, since, attempt, alone, cancel_requested, verdict, _, waits, array, edits, record = row
    submitted = _decoded(job, record, _QUEUED) if array is None else queued_task(arrays[array], array, job - array)
    return QueuedJob(
        id=job,
        record=_edited(submitted, edits),
        state=JobState(state),
        state_since=since,
        attempt=attempt,
        alone=alone,
        cancel_requested=cancel_requested,
        verdict=from_optional_json(verdict),
        waits=_waits_of(waits),
    )


def waits_value(job: Job) -> str | None:
    """The column `waits` of a job: null for one that waits for nothing but a device."""
    waits = Waits.of(job)
    return None if waits == NO_WAITS else to_json(waits)


def _waits_of(text: str | None) -> Waits:
    try:
        return NO_WAITS if text is None else _WAITS.decode(text)
    except msgspec.DecodeError as error:
        raise Failure(f"The record holds text that is not JSON: {error}.") from error


def edit_of_row(text: str | None) -> JobEdit:
    """What was changed of a job since its submission, from its column `edits`."""
    try:
        return JobEdit() if text is None else _EDIT.decode(text)
    except msgspec.DecodeError as error:
        raise Failure(f"The record holds text that is not JSON: {error}.") from error


def _edited(record: Record, edits: str | None) -> Record:
    return record if edits is None else edited(record, edit_of_row(edits))


def change_values(change: JobChange) -> dict[str, Any]:
    """A job's changed columns, and its id as `changed`."""
    job = change.job
    return {
        "changed": job.id,
        "state": job.state.value,
        "state_since": job.since,
        "attempt": job.attempt,
        "alone": job.alone,
        "cancel_requested": job.cancel_requested,
        "verdict": to_optional_json(change.verdict),
        "reason": clean(change.reason),
        "waits": waits_value(job),
    }


def attempt_row(row: Sequence[Any]) -> AttemptRow:
    """An attempt from its ATTEMPT_COLUMNS."""
    values = tuple(row)
    plain = dict(zip(_PLAIN_ATTEMPT, values, strict=False))
    devices, launch, features, measurement, actual = values[len(_PLAIN_ATTEMPT) :]
    try:
        outcome = None if actual is None else outcome_from_json(actual)
    except msgspec.DecodeError as error:
        raise Failure(f"The record holds text that is not JSON: {error}.") from error
    return AttemptRow(
        **plain,
        devices=_DEVICES.decode(devices),
        launch=from_json(launch),
        features=from_json(features),
        measurement=from_optional_json(measurement),
        actual=outcome,
    )


def run_row(row: Sequence[Any], arrays: Mapping[JobId, JobRecord]) -> Run:
    """An attempt as reports count it, from its RUN_COLUMNS; `arrays` has the record of its job's array. Raises Failure for text
    that is not JSON of its shape."""
    *values, devices, launch, actual, owner, state, last, array, edits, record = row
    plain = dict(zip(_RUN_FIELDS, values, strict=True))
    try:
        of: _RunRecord | JobRecord = (
            _RUN_RECORD.decode(record) if array is None else task_record(arrays[array], array, plain["job"] - array)
        )
        launched = _RUN_LAUNCH.decode(launch).attempt or _RunAttempt()
        outcome = None if actual is None else outcome_from_json(actual)
        forecast, asked = launched.forecast or _RunForecast(), edited_fields(of.submission, edit_of_row(edits))
        return Run(
            **plain,
            name=asked.name,
            owner=intern(owner),
            project=None if asked.project is None else intern(asked.project),
            kind=intern(of.kind),
            job_state=JobState(state),
            last=plain["number"] == last,
            devices=tuple(map(intern, _DEVICES.decode(devices))),
            time_limit_s=asked.time_limit_s,
            max_slowdown=asked.max_slowdown,
            promised_bytes=next(iter(launched.promised), None),
            likely_bytes=forecast.peak_memory_bytes,
            duration_p50_s=forecast.duration_p50_s,
            duration_p90_s=forecast.duration_p90_s,
            actual=outcome,
        )
    except msgspec.DecodeError as error:
        raise Failure(f"The record of job {plain['job']} cannot be read: {error}.") from error


def attempt_values(attempt: AttemptRow) -> dict[str, Any]:
    """An attempt's columns."""
    return {
        **{name: getattr(attempt, name) for name in _PLAIN_ATTEMPT},
        "log_path": clean(attempt.log_path),
        "reason": clean(attempt.reason),
        **{name: to_optional_json(getattr(attempt, name)) for name in _JSON_ATTEMPT},
    }


def chance_row(row: Sequence[Any]) -> Chance:
    """A chance from its CHANCE_COLUMNS."""
    job, number, *plain = row
    return Chance(beside=AttemptId(job, number), **dict(zip(_PLAIN_CHANCE, plain, strict=True)))


def chance_values(chance: Chance) -> dict[str, Any]:
    """A chance's columns."""
    beside = {"beside_job": chance.beside.job, "beside_attempt": chance.beside.number}
    return {**{name: getattr(chance, name) for name in _PLAIN_CHANCE}, **beside}


def device_row(row: Mapping[str, Any]) -> Device:
    """A device from the columns of its table."""
    plain = {name: value for name, value in row.items() if name != "forgotten"}
    return Device(**{**plain, "features": tuple(from_optional_json(row["features"]) or ())})


def device_values(device: Device) -> dict[str, Any]:
    """A device's columns."""
    known = {name: value for name, value in asdict(device).items() if name != "until_at"}
    return {**known, "features": to_json(device.features) if device.features else None}


def quota_row(row: Sequence[Any]) -> Quota:
    """A quota from the columns of its table."""
    scope, name, *limits = row
    return Quota(Account(QuotaScope(scope), name), *limits)


def quota_values(quota: Quota) -> dict[str, Any]:
    """A quota's columns."""
    limits = ("running_devices", "waiting_jobs", "device_hours", "window_s")
    account = {"scope": quota.account.scope.value, "name": quota.account.name}
    return {**account, **{name: getattr(quota, name) for name in limits}}


def request_row(row: Sequence[Any]) -> Request:
    """A request from its REQUEST_COLUMNS."""
    number, verb, job, by, at, body = row
    return Request(id=number, verb=verb, job=job, by=by, at=at, body=from_json(body))
