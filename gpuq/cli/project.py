"""The options of all jobs of a project: the table `[submit]` of the nearest `gpuq.toml`, here or in a folder above.

    [submit]
    project = "nlp"
    gpus = 2
    env = { WANDB_MODE = "offline" }

Keys are the long options of `gpuq submit` without dashes. A file that belongs to someone else is left out: its options could name
another interpreter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gpuq.cli import console
from gpuq.errors import BadInput

NAME = "gpuq.toml"
_FIX = 'Write texts in quotes, below [submit]: time = "2h"'


def options_of(folder: Path, parse: Callable[[list[str]], object]) -> list[str]:
    """The options as words for gpuq's parser; none without a file. Raises BadInput with the file's name.

    `parse` raises BadInput for words that are no options of gpuq.
    """
    file = next((path for place in (folder, *folder.parents) if (path := place / NAME).is_file()), None)
    if file is None:
        return []
    try:
        if file.stat().st_uid not in {os.geteuid(), 0}:
            console.note(f"gpuq: {file} belongs to another user and is left out.")
            return []
        words = list(_words(file.read_bytes()))
    except BadInput as error:
        raise BadInput(f"{file}: {error.message}", fix=error.fix) from error
    except OSError as error:
        raise BadInput(
            f"{file} cannot be read: {error.strerror}.", fix="Correct its permissions, or move it."
        ) from error
    try:
        parse(words)
    except BadInput as error:
        raise BadInput(f"{file}: {error.message}", fix="`gpuq submit --help` lists the options.") from error
    return words


def _words(content: bytes) -> Iterator[str]:
    """Raises BadInput for what is no TOML with one table `[submit]`."""
    import tomllib

    try:
        tables = tomllib.loads(content.decode())
    except ValueError as error:
        raise BadInput(f"{error}.", fix=_FIX) from error
    if not isinstance(tables.get("submit"), dict) or len(tables) > 1:
        raise BadInput("it has to have one table, [submit].", fix=_FIX)
    for key, value in tables["submit"].items():
        if key.startswith("-"):
            raise BadInput(f"`{key}` is written with a dash.", fix="Keys are long options without dashes: env, gpus.")
        if value is True:
            yield f"--{key}"
        elif isinstance(value, Mapping):
            yield from (f"--{key}={name}={text}" for name, text in value.items())
        elif isinstance(value, list):
            yield from (f"--{key}={each}" for each in value)
        elif value is not False:
            yield f"--{key}={value}"
