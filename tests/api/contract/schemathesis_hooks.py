"""Hooks that schemathesis loads itself: a name in its configuration."""

from __future__ import annotations

from typing import Any

import schemathesis

_bodies: dict[str, Any] = {}


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: dict[str, Any]) -> None:
    """Number a key that came with another body before, which the endpoint rightly refuses though the document allows both."""
    key = (case.headers or {}).get("Idempotency-Key")
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if is_valid and key is not None and len(key) < 190 and _bodies.setdefault(key, case.body) != case.body:
        case.headers["Idempotency-Key"] = f"{key}-{len(_bodies)}"
        _bodies[case.headers["Idempotency-Key"]] = case.body
