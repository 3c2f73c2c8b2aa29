"""A log as text that can be shown: without what would steer a terminal or turn the reading direction."""

from __future__ import annotations

import re

# Colours and cursor movements, titles and links, and two-character sequences (ECMA-48).
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def readable(raw: bytes) -> str:
    """What a terminal would show in the end: of a progress line that was written over and over only the last.

    The time is proportional to the length, whatever the text.
    """
    lines = _SEQUENCE.sub("", raw.decode("utf-8", "replace")).split("\n")
    return _CONTROL.sub("", "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines))
