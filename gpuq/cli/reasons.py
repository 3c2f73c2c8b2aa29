"""Why a job is as it is, in the few words that a line of a table has room for.

Arrives: a job as the API gives it. Leaves: the rule that keeps it waiting; for one that failed the exit code and the exception;
nothing for one that completed.
"""

from __future__ import annotations

import re

from gpuq.cli import format as fmt
from gpuq.cli.client import Record

_EXIT = re.compile(r"^ended with exit code (\d+)(?:, as `timeout` gives it)?(?:: )?")
_SIGNAL = re.compile(r"^ended by (signal \d+ \(\w+\))(?:: )?")
# `[enforce fail at alloc_cpu.cpp:117] . ` names a line of PyTorch, and stands before what one wants to read.
_NOISE = re.compile(r"\[enforce fail at [^\]]*\]\s*\.?\s*")
_ASKED = re.compile(r"(?:tried|trying) to allocate [\d.,]+\s?\w+", re.IGNORECASE)


def short(job: Record) -> fmt.Cell:
    """The reason for a table's cell, with a shorter form of it where there is one."""
    text = fmt.clean(job.get("reason") or "")
    if job["state"] == "COMPLETED":
        return fmt.Cell("")
    if job["state"] == "FAILED":
        return fmt.Cell(_SIGNAL.sub(r"\1: ", _EXIT.sub(r"exit \1: ", text)).removesuffix(": "))
    if job["state"] == "OUT_OF_MEMORY":
        text = _NOISE.sub("", re.sub(r"^(host )?out of memory: ", "", text))
        asked = _ASKED.search(text)
        return fmt.Cell.of(text, *([asked[0].lower()] if asked else []))
    return fmt.Cell(text)


def whole(job: Record) -> str | None:
    """The reason without what stands beside it already: the exit code and the state. None if nothing is left."""
    if job["state"] == "COMPLETED" or not job.get("reason"):
        return None
    return _EXIT.sub("", fmt.clean(job["reason"])) or None
