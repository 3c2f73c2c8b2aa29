"""HTTP requests to an API on its Unix socket, as JSON."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def request(
    path: Path,
    method: str,
    target: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    within_s: float = 60,
) -> tuple[int, Any]:
    """(status, JSON). Status 0 if no process answers."""
    connection = _UnixConnection(path, within_s)
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, target, payload, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        raw = answer.read()
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()
    try:
        return answer.status, json.loads(raw)
    except ValueError:
        return answer.status, raw


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, within_s: float) -> None:
        super().__init__("localhost", timeout=within_s)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
