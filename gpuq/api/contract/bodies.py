"""Bodies of requests: read up to a limit, and decoded into the types that the document names.

What does not fit is refused with a sentence: 400 for what is no JSON, 413 for what is too large, 422 for what is not sound.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import msgspec
from aiohttp import web
from msgspec.structs import replace

from gpuq.api.context import context_of
from gpuq.api.contract import limits
from gpuq.api.contract.params import MAX_BATCH
from gpuq.api.contract.problem import BadRequest, TooLarge
from gpuq.errors import BadInput
from gpuq.messages.launch import NOT_JSON
from gpuq.messages.submission import FORMS, Submission

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
INLINE_BYTES = 2**16
"""A longer body is decoded in a thread, so that other requests do not wait for it."""
_one = msgspec.json.Decoder(Submission)
_many = msgspec.json.Decoder(list[Submission])
_encoder = msgspec.json.Encoder()
_OF_OTHER_FORM = re.compile(r"Expected `str` matching regex (?P<pattern>.*?)(?P<at>(?: - at .*)?)", re.S)


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
    found = _decode(_many, raw)
    if not 1 <= len(found) <= MAX_BATCH:
        raise BadInput(f"The list holds {len(found)} submissions; 1 to {MAX_BATCH} are taken at once.")
    for place, one in enumerate(found):
        _check_size(one, f"Submission {place} of the list")
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
