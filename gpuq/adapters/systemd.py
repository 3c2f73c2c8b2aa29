"""Ask systemd for more time: sd_notify(3). Without systemd it does nothing."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

STARTS_WITHIN_S = 3600
"""Enough to upgrade a record with millions of jobs, or to read their history, on a busy machine."""


def extend_start() -> None:
    """Let the start that is under way take up to an hour from now. Otherwise systemd ends it after TimeoutStartSec, and begins it
    again and again: each time from the beginning, and never to its end."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        if address:
            name = f"\0{address[1:]}" if address.startswith("@") else address
            systemd.sendto(f"EXTEND_TIMEOUT_USEC={STARTS_WITHIN_S * 1_000_000}".encode(), name)
