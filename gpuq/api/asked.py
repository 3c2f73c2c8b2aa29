"""What a request asks for: ids, numbers, lists and bodies, checked before anybody acts on them.

Arrives: text from an address, a header or a body. Leaves: typed values, or an error that names the value and its fix.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from aiohttp import web

from gpuq.api.problem import BadRequest
from gpuq.core.job import ACTIVE, ENDED, WAITING, JobId, JobState
from gpuq.errors import BadInput, NotFound
from gpuq.submission import Submission

T = TypeVar("T")
MAX_BATCH = 10_000
MAX_IDS = 1000
MAX_KEY = 200
_ID = re.compile(r"[0-9]{1,18}")
_NUL = b"\\u0000"
_GROUPS: dict[str, frozenset[JobState]] = {"waiting": WAITING, "active": ACTIVE, "ended": ENDED}
_one = msgspec.json.Decoder(Submission)
_many = msgspec.json.Decoder(list[Submission])


def job_id(text: str) -> JobId:
    """The id of a job. What is no id names no job. Raises NotFound."""
    if not _ID.fullmatch(text):
        raise NotFound(f"There is no job {shown(text)}.")
    return JobId(int(text))


def shown(text: str) -> str:
    """Somebody else's text, safe to repeat: short, and without control characters."""
    short = text if len(text) <= 40 else text[:40] + "…"
    return ascii(short)


def whole(request: web.Request, name: str, default: int | None, low: int, high: int) -> int | None:
    """A whole number from the query, kept within its bounds. Raises BadInput for anything else."""
    text = request.query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,18}", text) or not low <= int(text) <= high:
        raise BadInput(f"`{name}` is {shown(text)}; it must be a whole number from {low} to {high}.")
    return int(text)


def flag(request: web.Request, name: str) -> bool:
    """A switch from the query: absent, `0` or `false` is off."""
    return request.query.get(name, "0").lower() not in ("0", "false", "")


def words(request: web.Request, name: str) -> list[str]:
    """A list from the query: `?state=A,B` and `?state=A&state=B` mean the same."""
    return [word for text in request.query.getall(name, []) for word in text.split(",") if word]


def ids(request: web.Request) -> list[JobId] | None:
    """The `ids` of the query, None when there are none."""
    texts = words(request, "ids")
    if len(texts) > MAX_IDS:
        raise BadInput(f"{len(texts)} ids were given; {MAX_IDS} at once is the limit.")
    return [job_id(text) for text in texts] or None


def states(request: web.Request) -> list[JobState] | None:
    """The states of the query, None for all. Also takes `waiting`, `active` and `ended`."""
    found: set[JobState] = set()
    for word in words(request, "state"):
        found |= _states_of(word)
    return sorted(found) or None


def _states_of(word: str) -> frozenset[JobState]:
    if word.lower() in _GROUPS:
        return _GROUPS[word.lower()]
    try:
        return frozenset({JobState(word.upper())})
    except ValueError:
        known = ", ".join([*_GROUPS, *JobState])
        raise BadInput(f"There is no state {shown(word)}; known: {known}.") from None


def idempotency_key(request: web.Request) -> str | None:
    """The key under which a repeated submission is recognised."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY or not key.isprintable():
        raise BadInput(f"Idempotency-Key must be 1 to {MAX_KEY} printable characters.")
    return key


async def submissions(request: web.Request) -> tuple[list[Submission], bool]:
    """The submissions in the body, and whether they came as a list."""
    body = await request.read()
    is_list = body.lstrip()[:1] == b"["
    found = _decode(_many, body) if is_list else [_decode(_one, body)]
    if not 1 <= len(found) <= MAX_BATCH:
        raise BadInput(f"The list holds {len(found)} submissions; 1 to {MAX_BATCH} are taken at once.")
    if _NUL in body:
        for one in found:
            _check_text(one)
    return found, is_list


async def submission(request: web.Request) -> Submission:
    """The one submission in the body."""
    found = _decode(_one, await request.read())
    _check_text(found)
    return found


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise BadInput(f"The submission is not sound: {error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"The body is not JSON: {error}.") from error


def _check_text(asked: Submission) -> None:
    """NUL cannot stand in a database. JSON brings it in as an escape only; the other texts have a pattern against it."""
    for name in ("project", "kind", "script", "git_sha"):
        if "\0" in (getattr(asked, name) or ""):
            raise BadInput(f"The submission is not sound: `{name}` holds a NUL character.")
