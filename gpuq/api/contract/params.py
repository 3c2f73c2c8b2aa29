"""Decode and check what a request sends: ids, parameters, headers and bodies.

Every error names the value and what it must be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from multidict import MultiMapping

from gpuq.api.contract.parameters import STATE_GROUPS
from gpuq.api.contract.problem import BadRequest
from gpuq.api.identity import Caller
from gpuq.core.state.job import ACTIVE, ENDED, WAITING, JobId, JobState
from gpuq.errors import BadInput, NotFound
from gpuq.submission import Submission

T = TypeVar("T")
Parameters = TypeVar("Parameters", bound=msgspec.Struct)
MAX_BATCH = 10_000
_ID = re.compile(r"[0-9]{1,18}")
_GROUPS: dict[str, frozenset[JobState]] = dict(zip(STATE_GROUPS, (WAITING, ACTIVE, ENDED), strict=True))

Batch = Annotated[list[Submission], Meta(min_length=1, max_length=MAX_BATCH)]
"""Up to 10,000 submissions in one request."""
_one = msgspec.json.Decoder(Submission)
_many = msgspec.json.Decoder(list[Submission])


def job_id(text: str) -> JobId:
    """The job id in `text`. Raises NotFound if it is not a number: then no job has it."""
    if not _ID.fullmatch(text):
        raise NotFound(f"There is no job {shown(text)}.")
    return JobId(int(text))


def shown(text: str) -> str:
    """Text of a caller for an error message: at most 40 characters, control characters escaped."""
    short = text if len(text) <= 40 else text[:40] + "…"
    return ascii(short)


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
            found[name] = [word for value in values for word in value.split(",") if word]
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
        found |= _states_of(word)
    return sorted(found) or None


def owner(word: str, caller: Caller) -> str | None:
    """The owner that `me` or a user's name stands for; None for `all`."""
    if word == "all":
        return None
    return caller.user if word == "me" else word


def _states_of(word: str) -> frozenset[JobState]:
    if word.lower() in _GROUPS:
        return _GROUPS[word.lower()]
    try:
        return frozenset({JobState(word.upper())})
    except ValueError:
        known = ", ".join([*_GROUPS, *JobState])
        raise BadInput(f"There is no state {shown(word)}; known: {known}.") from None


async def submissions(request: web.Request) -> tuple[list[Submission], bool]:
    """(the submissions in the body, whether they came as a list). Raises BadInput, BadRequest."""
    raw = await request.read()
    is_list = raw.lstrip()[:1] == b"["
    found = _decode(_many, raw) if is_list else [_decode(_one, raw)]
    if not 1 <= len(found) <= MAX_BATCH:
        raise BadInput(f"The list holds {len(found)} submissions; 1 to {MAX_BATCH} are taken at once.")
    return found, is_list


async def body(request: web.Request, decoder: msgspec.json.Decoder[T]) -> T:
    """The decoded body. Raises BadRequest if it is no JSON, BadInput if it does not fit the type."""
    return _decode(decoder, await request.read(), "body")


async def submission(request: web.Request) -> Submission:
    """The single submission in the body. Raises BadInput, BadRequest."""
    return _decode(_one, await request.read())


def _decode(decoder: msgspec.json.Decoder[T], raw: bytes, what: str = "submission") -> T:
    try:
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError as error:
            first = error
        found: T = msgspec.convert(_whole(msgspec.json.decode(raw)), decoder.type)
    except msgspec.ValidationError as error:
        raise BadInput(f"The {what} is not sound: {first}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"The body is not JSON: {error}.") from error
    return found


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
