"""Tokens of users: what stands for one user over TCP, with an end and at most one role, until it is revoked.

A token is the text `gpuq_ID_SECRET`. The record has the SHA-256 of the secret only; 256 random bits need no slow hash. A browser
gets a cookie that is derived from that digest, so it ends with the token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from gpuq.adapters.store.row_types import Token

_TEXT = re.compile(r"gpuq_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_COOKIE = re.compile(r"([0-9a-f]{12})\.([0-9a-f]{64})")


def new_token(
    user: str, uid: int, role: str, note: str | None, now: float, expires_at: float | None
) -> tuple[Token, str]:
    """(a new token for the record, its text for the user). Times are Unix seconds."""
    token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    token = Token(
        id=token_id, user=user, uid=uid, role=role, digest=digest, note=note, made_at=now, expires_at=expires_at
    )
    return token, f"gpuq_{token_id}_{secret}"


def id_in(text: str) -> str | None:
    """The id of the token that this text, or this cookie, names; None if it is neither."""
    found = _TEXT.fullmatch(text) or _COOKIE.fullmatch(text)
    return None if found is None else found[1]


def is_text_of(text: str, token: Token) -> bool:
    """Whether this is the token's text. In constant time."""
    found = _TEXT.fullmatch(text)
    return found is not None and hmac.compare_digest(hashlib.sha256(found[2].encode()).hexdigest(), token.digest)


def cookie_of(token: Token) -> str:
    """The value of the page's cookie for this token."""
    return f"{token.id}.{hmac.new(token.digest.encode(), b'gpuq page cookie', hashlib.sha256).hexdigest()}"


def is_valid(token: Token, now: float) -> bool:
    """Whether it was neither revoked nor has expired at `now`."""
    return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)
