"""Short digests, for texts that are compared and not kept."""

from __future__ import annotations

import hashlib


def short_digest(text: str) -> str:
    """Eight hexadecimal digits of the SHA-256 of the text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
