"""Tickets for the terminal of a page: a browser cannot send a token with a WebSocket, so it gets a ticket for its token first.

A ticket is for one user and one job, and valid for half a minute. It is made of the home's token, so nothing is kept.
"""

from __future__ import annotations

import hashlib
import hmac

VALID_S = 30.0


def make(secret: str, user: str, job: int, now: float) -> str:
    """A ticket for `user` to work in `job`."""
    return _signed(secret, user, job, int(now + VALID_S))


def is_valid(ticket: str, secret: str, user: str, job: int, now: float) -> bool:
    """Whether this is a ticket for `user` and `job` that has not expired."""
    until, _, _ = ticket.partition("-")
    if not (until.isascii() and until.isdigit() and len(until) <= 12) or not now <= int(until) <= now + VALID_S:
        return False
    return hmac.compare_digest(ticket.encode(), _signed(secret, user, job, int(until)).encode())


def _signed(secret: str, user: str, job: int, until: int) -> str:
    text = f"gpuq terminal ticket {job} {until} {user}"
    return f"{until}-{hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()}"
