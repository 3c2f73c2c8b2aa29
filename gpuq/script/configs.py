"""The configuration files that a command or its script names, as flat settings.

Reads JSON, TOML and INI, and of YAML the lines `key: value`, of which training configurations consist: a YAML parser would be
a dependency of every `gpuq submit`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from gpuq.script.options import canonical, pairs, parsed
from gpuq.script.source import text

LARGEST_BYTES = 64 * 1024
MOST_FILES = 12
SUFFIXES = frozenset({".json", ".toml", ".yaml", ".yml", ".ini", ".cfg"})
_MOST_ENTRIES = 2000
_LINE = re.compile(r"^(\s*)(?:- )?([A-Za-z_][\w.-]*)\s*:\s*(.*?)\s*(?:#.*)?$")
_ITEM = re.compile(r"^\s*-\s+([^:#]+?)\s*(?:#.*)?$")
_NOT_TRAINING = re.compile(
    r"(^|[._-])(val|valid|validation|test|eval|evaluation|predict|inference)([._-]|$)", re.IGNORECASE
)

Entry = tuple[tuple[str, ...], Any]


def configured(files: Sequence[Path]) -> dict[str, Any]:
    """Setting -> value of all these files; a later file overrides an earlier one.

    A key counts by its last part; of several with the same last part the first that is not about validation.
    """
    found: dict[str, Any] = {}
    for entries in map(read_entries, files):
        own: dict[str, Any] = {}
        for keys, value in entries:
            if isinstance(value, list) or _NOT_TRAINING.search(".".join(keys)):
                continue
            # `fp16: {enabled: true}`, as DeepSpeed has it.
            name = keys[-2] if keys[-1] == "enabled" and len(keys) > 1 else keys[-1]
            own.setdefault(canonical(name), value)
        found |= own
    return found


def entries(files: Sequence[Path]) -> list[Entry]:
    """(keys from the outermost on, value) of all these files; a later file overrides an earlier one."""
    return list({keys: value for found in map(read_entries, files) for keys, value in found}.items())


def named_files(words: Sequence[str], cwd: Path) -> list[Path]:
    """The files that the words name."""
    values = [value for _, value in pairs(words) if value is not None]
    return [cwd / Path(value) for value in values if len(value) < 1024 and Path(value).suffix.lower() in SUFFIXES]


def read_entries(path: Path) -> list[Entry]:
    """(keys from the outermost on, value) of one file; none where it cannot be read."""
    body = text(path, LARGEST_BYTES)
    return [] if body is None else list(islice(_entries(path.suffix.lower(), body), _MOST_ENTRIES))


def _entries(suffix: str, body: bytes) -> Iterable[Entry]:
    try:
        source = body.decode("utf-8-sig")
        if suffix == ".json":
            import json

            return list(_leaves((), json.loads(source)))
        if suffix == ".toml":
            import tomllib

            return list(_leaves((), tomllib.loads(source)))
        if suffix in {".ini", ".cfg"}:
            return list(_ini(source))
    except (ValueError, RecursionError):
        return ()
    return _yaml(source)


def _leaves(keys: tuple[str, ...], value: Any) -> Iterator[Entry]:
    if isinstance(value, dict) and len(keys) < 12:
        for name, inside in value.items():
            yield from _leaves((*keys, str(name)), inside)
    elif keys and isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for place, inside in enumerate(value[:100]):
            yield from _leaves((*keys, str(place)), inside)
    elif keys and isinstance(value, int | float | str | list | None):
        yield keys, value


def _ini(source: str) -> Iterator[Entry]:
    import configparser

    reader = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        reader.read_string(source)
    except configparser.Error as error:
        raise ValueError(str(error)) from None
    for section in reader.sections():
        yield from (((section, name), parsed(value)) for name, value in reader.items(section))


def _yaml(source: str) -> Iterator[Entry]:
    """Keys with a plain value, under the keys that they are indented beneath; a list of plain values as one value."""
    above: list[tuple[int, str]] = []
    listed: dict[tuple[str, ...], list[Any]] = {}
    for line in source.splitlines():
        found = _LINE.match(line) if len(line) < 1000 else None
        if found is None:
            item = _ITEM.match(line) if above and len(line) < 1000 else None
            if item is not None:
                listed.setdefault(tuple(name for _, name in above), []).append(parsed(item[1].strip("'\"")))
            continue
        depth, key, value = len(found[1]), found[2], found[3]
        while above and above[-1][0] >= depth:
            above.pop()
        if value:
            plain = value[1:-1] if value[0] in "'\"" and value[-1] == value[0] else value
            yield (*(name for _, name in above), key), parsed(plain)
        else:
            above.append((depth, key))
    yield from listed.items()
