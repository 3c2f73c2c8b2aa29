"""The files and folders that a command is given to work on, by their names: another one may need anything.

Only what exists counts: a path that does not is where something is written, or a word with another meaning.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from pathlib import Path

from gpuq.script.digests import short_digest
from gpuq.script.meaning import RESULTS, Meaning, meaning, plain
from gpuq.script.options import NUMBER, pairs
from gpuq.script.setting_value import data_of
from gpuq.script.source import SCRIPTS, is_file

# Numbers in names tell parts of one data set apart; `7b` is a name.
NUMBER_IN_NAME = re.compile(r"(?<!\d)\d+(?![A-Za-z\d])")
_NO_INPUT = frozenset({Meaning.OUTPUT, Meaning.RESUME, Meaning.HARMLESS, Meaning.PRIVATE})
_LONGEST_NAME = 60
# Where a network is read from or written to: it is read where there is one.
_MODEL_FOLDER = re.compile(r"(?:model|checkpoint|ckpt)-?dir")
_OF_MODEL = ("config.json", "params.json", "model_index.json")


def inputs(
    words: Sequence[str], cwd: Path, known: Container[str], read: Container[str], switches: Container[str] = ()
) -> dict[str, str]:
    """Plain name -> what the file or folder is called, as a digest. Left out are those that are `known` as settings by their
    names, files that are `read`, and programs. Options that are `switches` take no word."""
    found: dict[str, str] = {}
    place = 0
    for name, value in pairs(words, switches):
        place += name is None
        key = f"input-{place}" if name is None else plain(name)
        names = {key} if name is not None else {f"argument-{place}", f"data-{place}"}
        if value is None or value in read or NUMBER.match(value) or any(one in known for one in names):
            continue
        is_program = Path(value).suffix in SCRIPTS
        if (
            is_program
            or not 0 < len(key) <= _LONGEST_NAME
            or (name is not None and not _may_be_input(key, cwd / value))
        ):
            continue
        is_input = not RESULTS.search(value.removeprefix(f"{cwd}/")) and _exists(cwd / value)
        called = data_of(value.lower()) if is_input else None
        if called is not None:
            found[key] = f"file-{short_digest(NUMBER_IN_NAME.sub('#', called))}"
    return found


def resumed_bytes(path: Path) -> float | None:
    """The size of what a run goes on from, a file or a folder of files, in two digits; None where there is none.

    It is that of the network: checkpoints of one training hardly differ.
    """
    try:
        path = path.expanduser()
        files = [path] if path.is_file() else [one for one in path.iterdir() if one.is_file()]
        size = sum(one.stat().st_size for one in files)
    except (OSError, ValueError, RuntimeError):
        return None
    return float(f"{size:.1e}") if size else None


def _may_be_input(name: str, path: Path) -> bool:
    if _MODEL_FOLDER.fullmatch(name):
        return any(is_file(path / one) for one in _OF_MODEL)
    return meaning(name) not in _NO_INPUT


def _exists(path: Path) -> bool:
    try:
        path = path.expanduser()
        return path.is_file() or path.is_dir()
    except (OSError, ValueError, RuntimeError):
        return False
