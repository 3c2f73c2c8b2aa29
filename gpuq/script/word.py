"""One word out of a script: what may be said of it to others, plain and bounded as `gpuq.messages.submission.Word` wants it."""

from __future__ import annotations

import re
from typing import Any

_LONGEST = 100
_PLAIN = re.compile(r"[\w.,:/@+ -]+")


def word(value: Any) -> str | None:
    """The value, if it is such a word."""
    return value if isinstance(value, str) and len(value) <= _LONGEST and _PLAIN.fullmatch(value) else None
