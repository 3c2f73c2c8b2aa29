"""Answers as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

_encoder = msgspec.json.Encoder()


def reply(answer: Any, status: int = 200) -> web.Response:
    """A struct, or plain data, as a JSON response."""
    return web.Response(body=_encoder.encode(answer), status=status, content_type="application/json")
