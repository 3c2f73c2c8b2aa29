"""The OpenAPI 3.1 document, made from routes and the types that they name.

msgspec derives the schemas from the types, so they are what the decoders check.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

import gpuq
from gpuq.api.contract.params import MAX_ID, parameter_schemas
from gpuq.api.contract.route import Route
from gpuq.api.contract.schema import Problem


def document(routes: Sequence[Route]) -> bytes:
    """The document, as JSON."""
    types = [found for route in routes for found in (*_each(route.body), *_each(route.gives))]
    schemas, components = msgspec.json.schema_components([Problem, *types], ref_template="#/components/schemas/{name}")
    problem, known = schemas[0], iter(schemas[1:])
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        body = _one_of([next(known) for _ in _each(route.body)])
        gives = _one_of([next(known) for _ in _each(route.gives)]) or {"type": "string"}
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, body, gives, problem)
    made = msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "gpuq", "version": gpuq.__version__, "description": _DESCRIPTION},
            "paths": paths,
            "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
            "security": [{"token": []}],
        }
    )
    made = made.replace(rb"\\Z", b"$")  # the end of a text, in Python's regular expressions and in ECMA's
    # The most items of a pair say it too, and some generators of clients take no `false` here.
    return made.replace(b',"items":false', b"")


_DESCRIPTION = (
    "A queue for GPU jobs. On the Unix socket the kernel names the caller; over TCP every address but the probes needs "
    "the token. Errors are RFC 9457 problem documents with a `hint` and the CLI's `exit_code`."
)
# The HTTP library sends this answer before our code sees the request.
_UNREADABLE: dict[str, Any] = {
    "description": "The request cannot be read. In plain text where it is no HTTP, or its address is longer than 32 KiB.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


def _operation(route: Route, body: Any, gives: Any, problem: Any) -> dict[str, Any]:
    if route.media == "text/event-stream":
        # A server-sent event whose data is JSON of this schema.
        data = {"type": "string", "contentMediaType": "application/json", "contentSchema": gives}
        string = {"type": "string"}
        gives = {"type": "object", "properties": {"id": string, "event": string, "data": data}, "required": ["data"]}
    fault: dict[str, Any] = {"description": "A problem.", "content": {"application/problem+json": {"schema": problem}}}
    words = re.sub(r"[^a-z0-9]+", "_", route.path.removeprefix("/api/v1").lower()).strip("_")
    if route.media == "text/html" and route.method == "GET":
        words = f"page_{words}".rstrip("_")  # a page and a call may have the same name
    in_path = {"id": {"type": "integer", "minimum": 0, "maximum": MAX_ID}}
    operation: dict[str, Any] = {
        "summary": route.text,
        "operationId": f"{route.method.lower()}_{words}",
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": in_path.get(name, {"type": "string"})}
                for name in re.findall(r"{(\w+)}", route.path)
            ),
            *_parameters(route.query, "query"),
            *_parameters(route.headers, "header"),
        ],
        "responses": {
            **{
                str(status): {"description": text, "content": {route.media: {"schema": gives}}}
                for status, text in {route.status: route.text, **route.also}.items()
            },
            "400": _UNREADABLE | {"content": {**fault["content"], **_UNREADABLE["content"]}},
            "default": fault,
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if route.public:
        operation["security"] = []
    return operation


def _each(types: Any) -> tuple[Any, ...]:
    return () if types is None else types if isinstance(types, tuple) else (types,)


def _one_of(schemas: list[Any]) -> Any:
    return {"oneOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else None


def _parameters(cls: type[msgspec.Struct] | None, place: str) -> list[dict[str, Any]]:
    """An OpenAPI parameter for each field of the struct; lists are separated by commas."""
    found = []
    for name, schema in parameter_schemas(cls).items() if cls else ():
        text = {"description": schema["description"]}
        plain = {key: value for key, value in schema.items() if key != "description"}
        commas: dict[str, Any] = {}
        if schema.get("type") == "array":
            # A form whose field is empty sends `state=`. What is empty between commas is passed over.
            commas = {"style": "form", "explode": False}
            plain["items"] = {"anyOf": [plain["items"], {"const": ""}]}
        found.append({"name": name, "in": place, **text, **commas, "schema": plain})
    return found
