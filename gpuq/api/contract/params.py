"""What requests send, as types: parameters in addresses and headers, and bodies; and the decoding of parameters.

OpenAPI is made from the same types. UNSET means "not given". In an address a list is separated by commas. Every error names the
value and what it must be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from multidict import MultiMapping

from gpuq.api.identity import Caller
from gpuq.core.state.booking import BookingId
from gpuq.core.state.job import ACTIVE, ENDED, WAITING, JobId, JobState, Sharing
from gpuq.core.state.quota import LONGEST_WINDOW_S
from gpuq.errors import BadInput, NotFound
from gpuq.files import MOST_FILES, NAME
from gpuq.messages.submission import (
    MAX_BYTES,
    MAX_MOMENT,
    NO_NUL,
    NO_NUL_IN_LONG,
    Constraints,
    JobName,
    MaxSlowdown,
    Memory,
    Moment,
    NotifyRules,
    Priority,
    Submission,
    TimeLimit,
)

T = TypeVar("T")
Parameters = TypeVar("Parameters", bound=msgspec.Struct)
MAX_ID = 10**18 - 1
MAX_PIECE = 16 * 2**20
MAX_BATCH = 10_000
MAX_LIMIT = 10**9
# The longest ids of so many devices make an address of less than 32 KiB, and more are not read.
MAX_DEVICES = 100
MAX_TOKEN_S = 10 * 366 * 86_400.0
TOKEN_S = 90 * 86_400.0
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
    project: Annotated[str, Meta(max_length=200, pattern=NO_NUL, description="Only this project's.")] | UnsetType = (
        UNSET
    )
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

    show: Annotated[Literal["waiting", "running", "ended"], Meta(description="Jobs in which states.")] = "waiting"
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


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The jobs that meet every given condition. `ids` are single ids, and ranges as [first, last].

    Without `ids` and `state`, only jobs that the request is possible for are selected.
    """

    ids: Annotated[list[Id | IdRange], Meta(min_length=1, max_length=10_000)] | UnsetType = UNSET
    state: Annotated[list[StateWord], Meta(min_length=1, max_length=100)] | UnsetType = UNSET
    owner: Annotated[Owner, Meta(description="`me`, `all` or a user's name.")] | UnsetType = UNSET
    name: Pattern | UnsetType = UNSET
    kind: Pattern | UnsetType = UNSET
    project: Pattern | UnsetType = UNSET

    def __post_init__(self) -> None:
        if all(value is UNSET for value in (self.ids, self.state, self.owner, self.name, self.kind, self.project)):
            raise ValueError("`where` names no condition; `owner` as `me` means all jobs of your own")


class JobsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request about many jobs. With `dry_run` nothing is recorded; the answer says what would be done."""

    where: Annotated[Where, Meta(extra_json_schema={"minProperties": 1})]
    dry_run: bool = False


class TreeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a tree."""

    name: Annotated[
        str, Meta(pattern=NAME, description="Its path in the tree: without `.`, `..`, `.git` or an empty part.")
    ]
    size: Annotated[int, Meta(ge=0, le=MAX_BYTES, description="Bytes.")]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    executable: bool = False


class TreeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a tree that jobs are to run with."""

    files: Annotated[list[TreeFile], Meta(max_length=MOST_FILES)]


class FilesQuery(msgspec.Struct, frozen=True):
    """Which of a job's files, of which attempt."""

    match: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=1024, pattern=r"^[^,\x00-\x1f]*\Z")]],
        Meta(max_length=100, description="Files, folders, or globs whose `*` also matches `/`; none: all."),
    ] = []
    attempt: Number | UnsetType = UNSET


class EditFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """New values for what jobs ask for, as in a submission. null takes a field back to what a submission without it has."""

    name: JobName | UnsetType | None = UNSET
    priority: Priority | UnsetType = UNSET
    share: Sharing | UnsetType = UNSET
    max_slowdown: MaxSlowdown | UnsetType | None = UNSET
    gpu_memory: Memory | UnsetType | None = UNSET
    time_limit_s: TimeLimit | UnsetType | None = UNSET
    deadline_at: Moment | UnsetType | None = UNSET
    begin_at: Moment | UnsetType | None = UNSET
    notify: NotifyRules | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        if not self.changes:
            raise ValueError("`edit` names no field")

    @property
    def changes(self) -> dict[str, Any]:
        """The new value of each field that is given."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not UNSET}


class EditBody(JobsBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which jobs are to be changed, and how: all of them or none. Without `ids` and `state`, those that wait."""

    edit: Annotated[EditFields, Meta(extra_json_schema={"minProperties": 1})]


class DrainBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a host is drained, for the users whose jobs wait."""

    why: Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)]


class AccountBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user or a project. The name `*` stands for all that have no quota of their own."""

    scope: Literal["user", "project"]
    name: Owner


QUOTA_LIMITS = ("running_devices", "waiting_jobs", "device_hours", "window_s")


class QuotaBody(AccountBody, frozen=True, forbid_unknown_fields=True):
    """The quota of a user or a project. What is not given is not limited."""

    running_devices: Annotated[int, Meta(ge=0, le=MAX_LIMIT, description="Of all its jobs together.")] | UnsetType = (
        UNSET
    )
    waiting_jobs: Annotated[int, Meta(ge=0, le=MAX_LIMIT, description="Held ones included.")] | UnsetType = UNSET
    device_hours: Annotated[float, Meta(ge=0, le=MAX_LIMIT, description="Within the window.")] | UnsetType = UNSET
    window_s: (
        Annotated[float, Meta(ge=3600, le=LONGEST_WINDOW_S, description="Seconds; 604,800 by default.")] | UnsetType
    ) = UNSET


class BookingBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Devices to reserve for a user, by default the caller; a moment that has passed is now."""

    from_at: Annotated[float, Meta(ge=0, le=MAX_MOMENT, description="Unix seconds.")]
    until_at: Annotated[float, Meta(gt=0, le=MAX_MOMENT, description="Unix seconds.")]
    gpus: Annotated[int, Meta(ge=1, le=64)] = 1
    user: Owner | UnsetType = UNSET
    constraints: Constraints | UnsetType = UNSET


class TokenBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token to be made. Without `user` it is the caller's. Null for `lasts_s` is one that does not expire."""

    user: Owner | UnsetType = UNSET
    role: Literal["user", "operator", "admin"] = "user"
    lasts_s: Annotated[float, Meta(gt=0, le=MAX_TOKEN_S, description="Seconds until it expires.")] | None = TOKEN_S
    note: Annotated[str, Meta(max_length=200, pattern=NO_NUL, description="What it is for.")] | UnsetType = UNSET


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
    """The query parameters that `cls` names; others are ignored. Raises BadInput."""
    return _parameters(request.query, cls)


def headers(request: web.Request, cls: type[Parameters]) -> Parameters:
    """The headers that `cls` names. Raises BadInput."""
    return _parameters(request.headers, cls)


def given(value: T | UnsetType) -> T | None:
    """The value, None for a parameter that was not given."""
    return None if value is UNSET else value


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
