"""The parameters of requests, in addresses and headers, as types: `params.py` decodes by them, and OpenAPI is made from them.

UNSET means "not given". In an address a list is separated by commas.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gpuq.core.state.job import JobState
from gpuq.submission import NO_NUL

MAX_ID = 10**18 - 1
MAX_IDS = 1000
MAX_PIECE = 16 * 2**20
MAX_WAIT_S = 60
STATE_GROUPS = ("waiting", "active", "ended")

Id = Annotated[int, Meta(ge=0, le=MAX_ID)]
# A list of two, not a tuple: msgspec 0.22 crashes the garbage collector on a union of a bounded number and a fixed tuple.
IdRange = Annotated[list[Id], Meta(min_length=2, max_length=2)]
StateWord = Annotated[str, Meta(extra_json_schema={"enum": [*STATE_GROUPS, *JobState]})]
Wait = Annotated[
    int, Meta(ge=0, le=MAX_WAIT_S, description="Seconds to wait for the dispatcher to carry it out (default 1).")
]


class WaitQuery(msgspec.Struct, frozen=True):
    """How long the answer may wait for the dispatcher."""

    wait: Wait = 1


class ListQuery(msgspec.Struct, frozen=True):
    """Which jobs, and which page of them."""

    state: Annotated[list[StateWord], Meta(max_length=100, description="States; also groups of them.")] = []
    owner: Annotated[
        str, Meta(max_length=200, pattern=NO_NUL, description="`me`, `all` (the default) or a user's name.")
    ] = "all"
    ids: Annotated[list[Id], Meta(max_length=MAX_IDS, description="Only these jobs.")] = []
    limit: Annotated[int, Meta(ge=1, le=1000, description="Jobs on a page.")] = 100
    after: Annotated[int, Meta(ge=0, le=MAX_ID, description="The cursor `next` of the page before.")] | UnsetType = (
        UNSET
    )
    order: Annotated[Literal["newest", "oldest"], Meta(description="Which jobs come first.")] = "newest"


class LogsQuery(msgspec.Struct, frozen=True):
    """Which part of a job's output."""

    offset: Annotated[
        int,
        Meta(
            ge=-MAX_PIECE, le=MAX_ID, description="First byte of the whole log; below 0 it counts from the log's end."
        ),
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PIECE, description="Bytes at most.")] | UnsetType = UNSET
    follow: Annotated[bool, Meta(description="Go on until the job has ended.")] = False
    attempt: Annotated[int, Meta(ge=1, le=10**9, description="Which attempt; the last one by default.")] | UnsetType = (
        UNSET
    )


EventId = Annotated[
    str, Meta(pattern=r"^[0-9]{1,18}(-[0-9]{1,18})?$", description="Go on behind this event: its `id`, or its number.")
]


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

    key: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                pattern=r"^[!-~]([ -~]*[!-~])?$",
                description="The same key gives the same job: safe to send again.",
            ),
        ]
        | UnsetType
    ) = msgspec.field(default=UNSET, name="Idempotency-Key")


class PredictQuery(msgspec.Struct, frozen=True):
    """The partner and the type of device for a prediction."""

    beside: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=400,
                pattern=NO_NUL,
                description="A job's id or a kind: what sharing with it would cost.",
            ),
        ]
        | UnsetType
    ) = UNSET
    device_type: (
        Annotated[str, Meta(max_length=400, pattern=NO_NUL, description="Only this type of device.")] | UnsetType
    ) = UNSET


class DaysQuery(msgspec.Struct, frozen=True):
    """How many days back a report goes."""

    days: Annotated[int, Meta(ge=1, le=3660, description="How many days back.")] = 7


Owner = Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)]
Pattern = Annotated[str, Meta(max_length=400, pattern=NO_NUL, description="A shell pattern, as in `sweep-*`.")]


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
