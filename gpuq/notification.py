"""Rules for notifications, as in `end,fail:slack`: for which events of a job, and to which targets of its owner's own file.

A rule names targets; their addresses and passwords are only in the owner's file, so that a rule may be in the record. Standard
library only, because the command starts through here.
"""

from __future__ import annotations

import re

from gpuq.errors import BadInput

EVENTS = ("begin", "end", "fail", "requeue", "idle")
"""Slurm's words: a start of the job, any end of it, an end without success that was not asked for, that it waits again, and that
it holds devices and does not use them."""
TARGET = r"[A-Za-z][A-Za-z0-9_-]{0,39}"
_WORD = f"(?:{'|'.join((*EVENTS, 'all'))})"
PATTERN = rf"^{_WORD}(?:,{_WORD}){{0,9}}(?::{TARGET}(?:,{TARGET}){{0,9}})?\Z"
NONE = "none"


def parse(rule: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """(events, targets) of a rule; no targets stands for all of the owner's. Raises BadInput."""
    events, colon, targets = rule.partition(":")
    if "//" in rule:
        # Not repeated in the message: it may hold a password, and messages get into logs.
        raise BadInput(
            "--notify takes the name of a target and no address, because rules are stored with the job.",
            fix="Write the address into your notify.toml under a name: `gpuq notify --help`.",
        )
    words = events.split(",")
    strange = next((word for word in words if word not in {*EVENTS, "all"}), None)
    if strange is not None:
        raise BadInput(
            f"--notify `{rule}`: there is no event `{strange}`.",
            fix=f"Use {', '.join(EVENTS)} or all, as in --notify end,fail:slack.",
        )
    names = targets.split(",") if colon else []
    if not all(re.fullmatch(TARGET, name) for name in names) or not re.fullmatch(PATTERN, rule):
        raise BadInput(
            f"--notify `{rule}`: a target is a name of up to 40 letters, digits, `-` and `_`, and there may be ten.",
            fix="Write for example --notify end,fail:slack,mail.",
        )
    return frozenset(EVENTS if "all" in words else words), tuple(names)
