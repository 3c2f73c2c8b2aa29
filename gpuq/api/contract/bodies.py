"""Bodies of requests: their types, of which OpenAPI is made; read up to a limit, and decoded. UNSET means "not given".

What does not fit is refused with a sentence: 400 for what is no JSON, 413 for what is too large, 422 for what is not sound.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from gpuq.api.context import context_of
from gpuq.api.contract import limits
from gpuq.api.contract.params import MAX_BATCH, MAX_LIMIT, Id, IdRange, Owner, Pattern, StateWord
from gpuq.api.contract.problem import BadRequest, TooLarge
from gpuq.core.state.job import Sharing
from gpuq.core.state.quota import LONGEST_WINDOW_S
from gpuq.errors import BadInput
from gpuq.files import MOST_FILES, NAME
from gpuq.messages.launch import NOT_JSON
from gpuq.messages.submission import (
    FORMS,
    MAX_BYTES,
    MAX_MOMENT,
    NO_NUL,
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

P = ParamSpec("P")
T = TypeVar("T")
MOST_SUBMISSIONS = 64 * 2**20
"""Bytes of a list: 10,000 submissions of a few KiB each."""
MOST_SUBMISSION = 20 * 2**20
"""Bytes of an array: 10,000 tasks with values of 2 KB each. Of a body with one submission, too."""
MOST_JOB = 5 * 2**18
"""Bytes of one job as JSON, without the parameters of an array: a script on standard input of 1 MiB, and what JSON adds to it.
Linux starts no program with more than 2 MiB of arguments and variables."""
MOST_TREE = 32 * 2**20
"""Bytes of the list of a tree's files: 20,000 with 1,400 each."""
MAX_TOKEN_S = 10 * 366 * 86_400.0
TOKEN_S = 90 * 86_400.0
INLINE_BYTES = 2**16
"""A longer body is decoded in a thread, so that other requests do not wait for it."""
_one = msgspec.json.Decoder(Submission)
_many = msgspec.json.Decoder(list[Submission])
_uncounted = msgspec.json.Decoder(list[msgspec.Raw])
_encoder = msgspec.json.Encoder()
_OF_OTHER_FORM = re.compile(r"Expected `str` matching regex (?P<pattern>.*?)(?P<at>(?: - at .*)?)", re.S)


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


async def submissions(request: web.Request) -> tuple[list[Submission], bytes]:
    """(the submissions, the body that has them). Raises BadInput, BadRequest."""
    raw = await limits.read(request, MOST_SUBMISSIONS)
    return await _in_thread_if_long(request, raw, _submissions, raw), raw


async def body(request: web.Request, decoder: msgspec.json.Decoder[T], most: int = limits.MOST) -> T:
    """The decoded body of `most` bytes at most. Raises BadRequest if it is no JSON, BadInput if it does not fit the type."""
    raw = await limits.read(request, most)
    return await _in_thread_if_long(request, raw, _decode, decoder, raw, "body")


async def submission(request: web.Request) -> Submission:
    """The single submission in the body. Raises BadInput, BadRequest."""
    raw = await limits.read(request, MOST_SUBMISSION)
    return await _in_thread_if_long(request, raw, _submission, raw)


async def _in_thread_if_long(
    request: web.Request, raw: bytes, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    if len(raw) <= INLINE_BYTES:
        return call(*args, **kwargs)
    return await context_of(request).for_user(call, *args, **kwargs)


def is_list(raw: bytes) -> bool:
    """Whether a body has a list of submissions."""
    return raw.lstrip()[:1] == b"["


def _submissions(raw: bytes) -> list[Submission]:
    if not is_list(raw):
        return [_submission(raw)]
    # Before any is decoded: 600,000 of them take 300 MB, and 20 s.
    given = len(_decode(_uncounted, raw))
    if not 1 <= given <= MAX_BATCH:
        raise BadInput(f"The list holds {given} submissions; 1 to {MAX_BATCH} are taken at once.")
    found = _decode(_many, raw)
    for place, one in enumerate(found):
        _check_size(one, f"Submission {place} of the list")
    count = sum(one.count for one in found)
    if count > MAX_BATCH:
        raise BadInput(f"The list holds {count:,} jobs with all tasks; {MAX_BATCH:,} are taken at once.")
    return found


def _submission(raw: bytes) -> Submission:
    found = _decode(_one, raw)
    _check_size(found, "The submission")
    return found


def _check_size(submission: Submission, what: str) -> None:
    """Raises TooLarge for a submission that would make lists of jobs slow for all users. The record's own have no limit: those of
    an earlier release can be read."""
    limited = [(submission, MOST_JOB)]
    if submission.array is not None:  # each task is read with all but the parameters
        limited = [(replace(submission, array=None), MOST_JOB), (submission, MOST_SUBMISSION)]
    for one, most in limited:
        size = len(_encoder.encode(one))
        if size > most:
            raise TooLarge(f"{what} takes {_mib(size)}, and {_mib(most)} is the limit.{_longest(one)}", fix=_LEAVE_OUT)


_LEAVE_OUT = "Take fewer variables along (`-e`, `--pass-env`), and have the job read from a file what is long."


def _longest(submission: Submission) -> str:
    """What takes the most of it."""
    parts = {
        "variables": submission.env,
        "the command": submission.command,
        "standard input": submission.stdin,
        "the parameters": submission.array,
    }
    sizes = {part: len(_encoder.encode(value)) for part, value in parts.items() if value}
    part = max(sizes, key=lambda name: sizes[name])
    which = f"{len(submission.env)} variables" if part == "variables" else part
    return f" Of it, {which} take{'s' * (not which.endswith('s'))} {_mib(sizes[part])}."


def _mib(size: int) -> str:
    return f"{size / 2**20:.3g} MiB"


def _decode(decoder: msgspec.json.Decoder[T], raw: bytes, what: str = "submission") -> T:
    try:
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError as error:
            first = error
        if len(raw) > limits.MOST:  # as objects it may take twenty times as much memory
            raise first
        found: T = msgspec.convert(_whole(msgspec.json.decode(raw)), decoder.type)
    except msgspec.ValidationError as error:
        raise BadInput(f"The {what} is not sound: {_plain(first)}.") from error
    except NOT_JSON as error:
        raise BadRequest(f"The body is not JSON: {error}.") from error
    return found


def _plain(error: msgspec.ValidationError) -> str:
    """Its message, with the form that a text should have in words and not as a regular expression."""
    found = _OF_OTHER_FORM.fullmatch(str(error))
    if found is None:
        return str(error)
    form = next(
        (words for pattern, words in FORMS.items() if repr(pattern) == found["pattern"]), "text of another form"
    )
    return f"Expected {form}{found['at']}"


def _whole(value: Any) -> Any:
    """The value with 2 in place of 2.0: both are integers in JSON Schema, but msgspec accepts only the first."""
    match value:
        case dict():
            return {name: _whole(inner) for name, inner in value.items()}
        case list():
            return [_whole(inner) for inner in value]
        case float() if value.is_integer():
            return int(value)
    return value
