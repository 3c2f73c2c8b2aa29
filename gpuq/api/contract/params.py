"""Parameters of requests, in addresses and headers: their types, of which OpenAPI is made, and their decoding.

UNSET means "not given". In an address a list is separated by commas. Every error names the value and what it must be. Bodies
have `bodies.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from multidict import MultiMapping

from gpuq.api.identity import Caller
from gpuq.core.state.booking import BookingId
from gpuq.core.state.job import ACTIVE, ENDED, WAITING, JobId, JobState
from gpuq.errors import BadInput, NotFound
from gpuq.messages.submission import (
    NO_NUL,
    NO_NUL_IN_LONG,
    Submission,
)

T = TypeVar("T")
Parameters = TypeVar("Parameters", bound=msgspec.Struct)
MAX_ID = 10**18 - 1
MAX_PIECE = 16 * 2**20
MAX_BATCH = 10_000
MAX_LIMIT = 10**9
# The longest ids of so many devices make an address of less than 32 KiB, and more are not read.
MAX_DEVICES = 100
_GROUPS: dict[str, frozenset[JobState]] = {"waiting": WAITING, "active": ACTIVE, "ended": ENDED}

Batch = Annotated[list[Submission], Meta(min_length=1, max_length=MAX_BATCH)]
Id = Annotated[int, Meta(ge=0, le=MAX_ID)]
# A list of two, not a tuple: msgspec 0.22 crashes the garbage collector on a union of a bounded number and a fixed tuple.
IdRange = Annotated[list[Id], Meta(min_length=2, max_length=2)]
StateWord = Annotated[str, Meta(extra_json_schema={"enum": [*_GROUPS, *JobState]})]
Owner = Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)]
Pattern = Annotated[str, Meta(max_length=400, pattern=NO_NUL, description="A shell pattern, as in `sweep-*`.")]
Wait = Annotated[int, Meta(ge=0, le=60, description="Seconds to wait for the dispatcher to carry it out (default 1).")]
Cursor = Annotated[int, Meta(ge=0, le=MAX_ID, description="The cursor `next` of the page before.")]
Offset = Annotated[
    int,
    Meta(ge=-MAX_PIECE, le=MAX_ID, description="First byte of the whole log; below 0 it counts from the log's end."),
]
Number = Annotated[int, Meta(ge=1, le=10**9, description="Which attempt; the last one by default.")]
EventId = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,18}(-[0-9]{1,18})?\Z",
        description="the `id` or the number of the event behind which to go on",
    ),
]
Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]([ -~]*[!-~])?\Z",
        description="The same key gives the same job: safe to send again.",
    ),
]
Beside = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=400,
        pattern=NO_NUL,
        description="A job's id or a kind: what sharing with it would cost.",
    ),
]
# As backends make them: a driver's word with its number, or the host's name with the device's.
DeviceName = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z]{1,16}-|[A-Za-z0-9._-]{1,64}/)[A-Za-z0-9._/-]{1,64}\Z",
        description="the id of a device, as in `GPU-6f0c…` or `node2/cpu0`",
    ),
]
DeviceType = Annotated[str, Meta(max_length=400, pattern=NO_NUL, description="Only this type of device.")]


class WaitQuery(msgspec.Struct, frozen=True):
    """How long the answer may wait for the dispatcher."""

    wait: Wait = 1


class ListQuery(msgspec.Struct, frozen=True):
    """Which jobs, and which page of them."""

    state: Annotated[list[StateWord], Meta(max_length=100, description="States; also groups of them.")] = []
    owner: Annotated[
        str, Meta(max_length=200, pattern=NO_NUL, description="`me`, `all` (the default) or a user's name.")
    ] = "all"
    name: Pattern | UnsetType = UNSET
    kind: Pattern | UnsetType = UNSET
    project: Pattern | UnsetType = UNSET
    ids: Annotated[list[Id], Meta(max_length=1000, description="Only these jobs.")] = []
    array: Annotated[int, Meta(ge=1, le=MAX_ID, description="Only the tasks of this array.")] | UnsetType = UNSET
    tasks: Annotated[
        Literal["each", "together"], Meta(description="Each task of an array, or the array in place of its tasks.")
    ] = "each"
    limit: Annotated[int, Meta(ge=1, le=1000, description="Jobs on a page.")] = 100
    after: Cursor | UnsetType = UNSET
    order: Annotated[Literal["newest", "oldest"], Meta(description="Which jobs come first.")] = "newest"


class DevicesQuery(msgspec.Struct, frozen=True):
    """Which devices."""

    ids: Annotated[list[DeviceName], Meta(max_length=MAX_DEVICES, description="Only these devices.")] = []


class ArraysQuery(msgspec.Struct, frozen=True):
    """Which arrays."""

    ids: Annotated[list[Id], Meta(max_length=1000, description="The ids of arrays.")] = []


class QueuePageQuery(msgspec.Struct, frozen=True):
    """Which jobs the page of the queue lists."""

    show: Annotated[
        Literal["waiting", "running", "ended", "failed"],
        Meta(description="Jobs in which states; `failed` ended neither completed nor cancelled."),
    ] = "waiting"
    name: Annotated[str, Meta(max_length=200, pattern=NO_NUL, description="A part of the name, or a pattern.")] = ""
    owner: Annotated[str, Meta(max_length=200, pattern=NO_NUL, description="Only this user's; `me` is the caller.")] = (
        ""
    )
    sort: Annotated[
        Literal["place", "newest", "oldest", "name", "owner", "priority"], Meta(description="Which come first.")
    ] = "place"
    array: Annotated[int, Meta(ge=1, le=MAX_ID, description="Only the tasks of this array.")] | UnsetType = UNSET
    page: Annotated[int, Meta(ge=1, le=10**6, description="Which page of 100 jobs.")] = 1
    after: (
        Annotated[int, Meta(ge=0, le=MAX_ID, description="Of ended jobs: only those behind this one.")] | UnsetType
    ) = UNSET


class TimelineQuery(msgspec.Struct, frozen=True):
    """Which period and which devices the timeline shows."""

    hours: Annotated[float, Meta(ge=0.01, le=8784, description="How long the period is.")] = 6
    until: Annotated[int, Meta(ge=1, le=10**11, description="Its end in Unix seconds.")] | UnsetType = UNSET
    device: Annotated[str, Meta(max_length=200, pattern=NO_NUL, description="A part of name, host or type.")] = ""


class LogsQuery(msgspec.Struct, frozen=True):
    """Which part of a job's output."""

    offset: Offset = 0
    limit: (
        Annotated[int, Meta(ge=1, le=MAX_PIECE, description="Bytes at most; without effect on `follow` and `search`.")]
        | UnsetType
    ) = UNSET
    follow: Annotated[bool, Meta(description="Go on until the job has ended.")] = False
    attempt: Number | UnsetType = UNSET
    search: (
        Annotated[
            str, Meta(min_length=1, max_length=400, pattern=NO_NUL, description="Only lines that contain this text.")
        ]
        | UnsetType
    ) = UNSET


class SeriesQuery(msgspec.Struct, frozen=True):
    """Of which attempt."""

    attempt: Number | UnsetType = UNSET


class JobPageQuery(msgspec.Struct, frozen=True):
    """Which attempt the page of a job draws; with `share`, what would be if a waiting job asked for something else."""

    attempt: Number | UnsetType = UNSET
    share: Annotated[Literal["", "auto", "never"], Meta(description="Whether it would share.")] = ""
    max_slowdown: Annotated[float, Meta(ge=0, le=400, description="Its budget in percent.")] | UnsetType = UNSET
    gpus: Annotated[int, Meta(ge=1, le=64, description="How many devices.")] | UnsetType = UNSET
    type: Annotated[str, Meta(max_length=400, pattern=NO_NUL, description="On which type of device.")] = ""


Field = Annotated[str, Meta(max_length=4000, pattern=NO_NUL_IN_LONG, description="As the form has it.")]


class SubmitPageQuery(msgspec.Struct, frozen=True):
    """The fields of the form that submits a job. `like` fills them in as another job has them, and gives the options that the
    form has no field for."""

    like: Annotated[str, Meta(max_length=18, pattern=r"^[0-9]*\Z", description="A job's id.")] = ""
    command: Field = ""
    cwd: Field = ""
    name: Field = ""
    project: Field = ""
    gpus: Field = ""
    memory: Field = ""
    share: Annotated[Literal["auto", "never"], Meta(description="May it share a device?")] = "auto"
    max_slowdown: Field = ""
    hours: Field = ""
    priority: Field = ""
    type: Field = ""
    hold: Annotated[Literal["", "on"], Meta(description="Whether it waits to be released.")] = ""


class EventsQuery(msgspec.Struct, frozen=True):
    """Where the stream of events begins, and which it carries."""

    after: EventId | UnsetType = UNSET
    job: Annotated[int, Meta(ge=1, le=MAX_ID, description="Only entries that name this job.")] | UnsetType = UNSET
    all: Annotated[bool, Meta(description="Also entries that name no job.")] = False


class EventsHeaders(msgspec.Struct, frozen=True):
    """The start of the stream as browsers send it when they reconnect."""

    last_event_id: EventId | UnsetType = msgspec.field(default=UNSET, name="Last-Event-ID")


class SubmitHeaders(msgspec.Struct, frozen=True):
    """The idempotency key of a submission."""

    key: Key | UnsetType = msgspec.field(default=UNSET, name="Idempotency-Key")


class PredictQuery(msgspec.Struct, frozen=True):
    """The partner and the type of device for a prediction."""

    beside: Beside | UnsetType = UNSET
    device_type: DeviceType | UnsetType = UNSET


class DaysQuery(msgspec.Struct, frozen=True):
    """How many days back a report goes."""

    days: Annotated[int, Meta(ge=1, le=3660, description="How many days back.")] = 7


class WeekQuery(msgspec.Struct, frozen=True):
    """How many days back the page of the week goes."""

    days: Annotated[int, Meta(ge=1, le=28, description="How many days back.")] = 7


class PairsQuery(msgspec.Struct, frozen=True):
    """Which kinds the matrix of pairs has, and of which pair it lists the runs."""

    kind: Annotated[str, Meta(max_length=200, pattern=NO_NUL, description="A part of the kind.")] = ""
    slowed: Annotated[str, Meta(max_length=400, pattern=NO_NUL, description="The kind that is slowed.")] = ""
    beside: Annotated[str, Meta(max_length=400, pattern=NO_NUL, description="The kind of its partner.")] = ""


class UsageQuery(DaysQuery, frozen=True):
    """Which attempts, by what they are grouped, and what a kilowatt-hour costs."""

    by: Annotated[
        list[Literal["user", "project", "week"]], Meta(max_length=3, description="What makes a group of its own.")
    ] = []
    owner: Annotated[
        str, Meta(max_length=200, pattern=NO_NUL, description="`me`, `all` (the default) or a user's name.")
    ] = "all"
    price: (
        Annotated[float, Meta(ge=0, le=1e6, description="Of a kilowatt-hour; the site's by default.")] | UnsetType
    ) = UNSET


class FilesQuery(msgspec.Struct, frozen=True):
    """Which of a job's files, of which attempt."""

    match: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=1024, pattern=r"^[^,\x00-\x1f]*\Z")]],
        Meta(max_length=100, description="Files, folders, or globs whose `*` also matches `/`; none: all."),
    ] = []
    attempt: Number | UnsetType = UNSET


QUOTA_LIMITS = ("running_devices", "waiting_jobs", "device_hours", "window_s")


# --- decoding ---------------------------------------------------------------------------------------------------------


def booking_id(text: str) -> BookingId:
    """The number of the booking in `text`. Raises NotFound if it is not a number: then no booking has it."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise NotFound(f"There is no reservation {shown(text)}.", fix="`gpuq reservations` lists them.")
    return BookingId(int(text))


def job_id(text: str) -> JobId:
    """The job id in `text`. Raises NotFound if it is not a number: then no job has it."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise NotFound(f"There is no job {shown(text)}.")
    return JobId(int(text))


def shown(text: str) -> str:
    """Text of a caller for an error message: at most 40 characters, control characters escaped."""
    return ascii(text if len(text) <= 40 else text[:40] + "…")


def query(request: web.Request, cls: type[Parameters]) -> Parameters:
    """The query parameters that `cls` names. Raises BadInput, in the API also for others: a list whose filter has a typing error
    would have every job. An address of a page is typed and kept by people, so there others are ignored."""
    if request.path.startswith("/api/"):
        _refuse_unknown(request.query, parameter_schemas(cls))
    return _parameters(request.query, cls)


def headers(request: web.Request, cls: type[Parameters]) -> Parameters:
    """The headers that `cls` names. Raises BadInput."""
    return _parameters(request.headers, cls)


def given(value: T | UnsetType) -> T | None:
    """The value, None for a parameter that was not given."""
    return None if value is UNSET else value


def _refuse_unknown(given: Iterable[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f" Did you mean `{near[0]}`?" if near else ""
            raise BadInput(f"There is no parameter {shown(name)} here.{meant}", fix=f"There are {', '.join(known)}.")


def _parameters(texts: MultiMapping[str], cls: type[Parameters]) -> Parameters:
    fields = parameter_schemas(cls)
    found: dict[str, Any] = {}
    for name, schema in fields.items():
        values = texts.getall(name, [])
        if schema.get("type") == "array":
            words = [word for value in values for word in value.split(",")]
            found[name] = [word for word in words if word]
            if len(words) > schema["maxItems"]:
                raise BadInput(f"`{name}` has {len(words):,} values; it must be {_described(schema)}.")
        elif len(values) > 1:
            raise BadInput(f"`{name}` is given {len(values)} times; once is enough.")
        elif values:
            found[name] = values[0]
    try:
        return msgspec.convert(found, cls, strict=False)
    except msgspec.ValidationError as error:
        name = next((name for name in fields if f"`$.{name}" in str(error)), "")
        value = found.get(name, "")
        text = ",".join(value) if isinstance(value, list) else value
        raise BadInput(f"`{name}` is {shown(text)}; it must be {_described(fields[name])}.") from error


@cache
def parameter_schemas(cls: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    """Name -> JSON Schema of each parameter of `cls`."""
    document = msgspec.json.schema(cls)
    properties: dict[str, dict[str, Any]] = document["$defs"][cls.__name__]["properties"]
    return properties


def _described(schema: dict[str, Any]) -> str:
    """A JSON Schema as a phrase for an error message."""
    match schema.get("type"):
        case "integer":
            return f"a whole number from {schema['minimum']} to {schema['maximum']}"
        case "number":
            return f"a number from {schema['minimum']:g} to {schema['maximum']:g}"
        case "boolean":
            return "`true` or `false`"
        case "array":
            return f"at most {schema['maxItems']} values, each {_described(schema['items'])}"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    if "maxLength" in schema:
        return f"{schema.get('minLength', 0)} to {schema['maxLength']} characters, none of them a control character"
    return str(schema.get("description", "as the API's document says")).rstrip(".")


def states(words: Iterable[str]) -> list[JobState] | None:
    """The states that these words name, the groups `waiting`, `active` and `ended` included; None for no words."""
    found: set[JobState] = set()
    for word in words:
        try:
            found |= _GROUPS.get(word.lower()) or {JobState(word.upper())}
        except ValueError:
            known = ", ".join([*_GROUPS, *JobState])
            raise BadInput(f"There is no state {shown(word)}; known: {known}.") from None
    return sorted(found) or None


def owner(word: str, caller: Caller) -> str | None:
    """The owner that `me` or a user's name stands for; None for `all`."""
    if word == "all":
        return None
    return caller.user if word == "me" else word
