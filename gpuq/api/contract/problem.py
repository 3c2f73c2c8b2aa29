"""Errors as RFC 9457 problem documents.

Whatever a handler raises becomes `application/problem+json` with the sentence, the fix and the exit code of the command. No
traceback is sent: an unexpected error is logged with its traceback and answered without.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import HttpVersion11, web

from gpuq.api.contract.schema import Problem
from gpuq.api.page.templates import login_page
from gpuq.errors import BadInput, Failure, GpuqError, NotFound, NotPermitted, Unreachable

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MEDIA_TYPE: Final = "application/problem+json"
_log = logging.getLogger(__name__)


class Unauthenticated(NotPermitted):
    """The caller is not identified."""

    http_status = 401


class BadRequest(BadInput):
    """The request cannot be read."""

    http_status = 400
    fix = "Send the JSON that /api/v1/openapi.json describes."


class WrongMethod(BadInput):
    """This address does not take this method."""

    http_status = 405
    fix = "See /api/v1/openapi.json for what is served."


class UnmetExpectation(BadInput):
    """The header Expect asks for something that is not served."""

    http_status = 417
    fix = "Leave it out, or send `Expect: 100-continue`."


class TooLarge(BadInput):
    """The body is too large."""

    http_status = 413
    fix = "Send less in one request, and the rest in others."


class BadEncoding(BadInput):
    """The body is compressed."""

    http_status = 415
    fix = "Send it uncompressed, without `Content-Encoding`."


class TooSlow(BadInput):
    """The body did not come in time."""

    http_status = 408
    fix = "Send it again, over a faster connection."


class TooManyAtOnce(Unreachable):
    """The caller has too many requests open."""

    http_status = 429
    fix = "Send it again when others of yours are answered."


_UNREADABLE_BODY: Final = BadRequest(
    "The body cannot be read: it is cut off, or its chunks are damaged.", fix="Send the whole body."
)


async def expect(request: web.Request) -> web.Response | None:
    """Tell a client that expects it to go on and send the body; refuse other expectations. Called before the middlewares."""
    if request.version < HttpVersion11:
        return None
    if request.headers.get("Expect", "").lower() != "100-continue":
        return response(UnmetExpectation())
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # No part of the answer has been sent by this.
    request.writer.output_size = 0
    return None


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into a problem document, or into the login form for a browser without a cookie."""
    try:
        return await handler(request)
    except GpuqError as error:
        if error.http_status == 401 and "text/html" in request.headers.get("Accept", ""):
            # With our usual `no-referrer` a browser would send the form with `Origin: null`, which is refused.
            headers = {"Referrer-Policy": "same-origin"}
            return web.Response(text=login_page(error.message), status=401, content_type="text/html", headers=headers)
        return response(error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        return response(_translate(error, request), headers=allow)
    except (ConnectionError, TimeoutError):
        raise
    except (web.RequestPayloadError, asyncio.IncompleteReadError):
        answer = response(_UNREADABLE_BODY)
        answer.force_close()  # where the next request would begin is not known
        return answer
    except Exception:  # noqa: BLE001 - the one place where tracebacks are kept from callers
        _log.exception("%s %s failed", request.method, request.rel_url.raw_path, extra={"action": "request"})
        return response(Failure("Something inside gpuq went wrong; its log has the details."))


def break_off(request: web.Request) -> None:
    """Abort the connection of a stream that failed: the caller must not take it for complete."""
    _log.exception("%s %s failed half way", request.method, request.rel_url.raw_path, extra={"action": "stream"})
    if request.transport is not None:
        request.transport.abort()


def response(error: GpuqError, headers: dict[str, str] | None = None) -> web.Response:
    """The problem document of an error. Characters that are not valid UTF-8 are replaced."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
    problem = Problem(
        type=f"urn:gpuq:{name}",
        title=name.replace("-", " ").capitalize(),
        status=error.http_status,
        detail=error.message.encode("utf-8", "replace").decode(),
        hint=error.fix.encode("utf-8", "replace").decode(),
        exit_code=error.exit_code,
    )
    headers = dict(headers or {})
    if error.http_status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="gpuq"'
    body = msgspec.json.encode(problem)
    return web.Response(body=body, status=error.http_status, content_type=MEDIA_TYPE, headers=headers)


def _translate(error: web.HTTPException, request: web.Request) -> GpuqError:
    path = request.rel_url.raw_path[:200]
    if error.status == 404:
        return NotFound(f"Nothing is served at {path}.", fix="See /api/v1/openapi.json for what is served.")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return WrongMethod(f"{path} does not take {request.method[:20]}; it takes {allowed}.")
    if error.status == 413:
        return TooLarge("The body is larger than this endpoint takes.")
    return BadRequest(f"The request cannot be served: {error.reason}.")
