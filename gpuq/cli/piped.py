"""A script on standard input: `cat train.py | gpuq submit -`, `gpuq submit -- python - < train.py`, `... -- bash -s`.

The script is read here and submitted with the job. Standard input is read only if the command's interpreter would read its
program from it, so that a shell loop that calls gpuq keeps its own input.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpuq.errors import BadInput

# `gpuq.messages.submission` has the same number.
MAX_BYTES = 2**20
HERE = "-"


def reads_program(command: Sequence[str]) -> bool:
    """Whether the command is an interpreter that takes its program from standard input."""
    from gpuq.script.interpreters import Source, given_to

    given = given_to(command)
    return given is not None and given.source is Source.STDIN


def read() -> str:
    """The script on standard input. Raises BadInput if it is a terminal, empty, too long or not UTF-8."""
    stream = sys.stdin
    fix = "Pipe it (cat train.py | gpuq submit -), or name a script (gpuq submit train.py)."
    if stream is not None and stream.isatty():
        raise BadInput("the script is to be read from standard input, which is a terminal here.", fix=fix)
    raw = b"" if stream is None else stream.buffer.read(MAX_BYTES + 1)
    if not raw.strip():
        raise BadInput("the script is to be read from standard input, which is empty.", fix=fix)
    fix = "Save it in a file and submit that."
    if len(raw) > MAX_BYTES:
        raise BadInput("the script on standard input is longer than 1 MiB.", fix=fix)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise BadInput("the script on standard input is not UTF-8 text.", fix=fix)
    return text


def interpreter_in(script: str) -> list[str] | None:
    """The interpreter of the script's `#!` line with its argument, as the kernel reads it.

    None without such a line, and for Python, which --python and the active environment choose.
    """
    first = script.partition("\n")[0]
    words = first[2:].strip().split(maxsplit=1) if first.startswith("#!") else []
    return None if not words or "python" in first else words
