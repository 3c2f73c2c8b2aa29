"""One word from a script, if it is short and plain enough for `gpuq.submission.Word`."""

from __future__ import annotations

import re
from typing import Any

_LONGEST = 100
_PLAIN = re.compile(r"[\w.,:/@+ -]+")


def word(value: Any) -> str | None:
    """The value, if it is such a word; else None."""
    return value if isinstance(value, str) and len(value) <= _LONGEST and _PLAIN.fullmatch(value) else None
