"""The configuration files that Hydra composes for a script: the main one, and those that `defaults` of each file name.

A word of the command (`model=big`, `+experiment=e1`) chooses another file of a group, and so does `override /model: big` in
one of the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuq.script.configs import SUFFIXES, read
from gpuq.script.expressions import argument, text_of
from gpuq.script.survey import Survey

_CHOSEN = re.compile(r"\+{0,2}([\w/-]+)(?:@[\w.]*)?=([\w./-]+)")
_ITEM = re.compile(r"(?:(override|optional)\s+)?(/?[\w/.-]+)(?:@[\w./]*)?(?:\s*:\s*(.+))?")
_OF_ENV = re.compile(r"\$\{(?:oc\.)?env:(\w+)(?:,\s*([^}]*))?\}")
_MOST_FILES = 32


def composed(
    surveys: Sequence[Survey],
    script: Path,
    words: Sequence[str],
    given: Mapping[str, str | None],
    env: Mapping[str, str],
) -> list[Path]:
    """These files, each before those that it names."""
    chosen = {found[1]: found[2] for word in words if (found := _CHOSEN.fullmatch(word))}
    files: dict[Path, None] = {}
    for folder, name in _roots(surveys, script, given):
        composer = _Composer(folder, dict(chosen), env)
        # What a chosen file overrides holds for all others.
        for group, option in chosen.items():
            composer.add(group, option)
        composer.found.clear()
        composer.add("", name)
        for group, option in chosen.items():
            composer.add(group, option)
        files |= composer.found
    return list(files)


def _roots(surveys: Sequence[Survey], script: Path, given: Mapping[str, str | None]) -> Iterator[tuple[Path, str]]:
    """(folder, name of the main file) of `@hydra.main` and of `initialize` with `compose`."""
    calls = [call for one in surveys for call in one.calls]
    for call in (call for call in calls if call.name == "hydra.main"):
        place = given.get("config-dir") or given.get("config-path") or text_of(argument(call.node, 0, "config_path"))
        if name := given.get("config-name") or text_of(argument(call.node, 1, "config_name")):
            yield script.parent / (place or "."), name
    names = [text_of(argument(call.node, 0, "config_name")) for call in calls if call.last == "compose"]
    for start in (call for call in calls if call.last in ("initialize", "initialize_config_dir")):
        place = text_of(argument(start.node, 0, "config_path", "config_dir"))
        yield from ((script.parent / (place or "."), name) for name in names if name)


class _Composer:
    def __init__(self, folder: Path, chosen: dict[str, str], env: Mapping[str, str]) -> None:
        self._folder, self._chosen, self._env = folder, chosen, env
        self.found: dict[Path, None] = {}

    def add(self, group: str, option: str) -> None:
        """The file of this option of a group, and what its defaults name."""
        name = option if Path(option).suffix in SUFFIXES else f"{option}.yaml"
        path = self._folder / group.strip("/") / name
        if path in self.found or len(self.found) >= _MOST_FILES:
            return
        self.found[path] = None
        # A group is one of the folder that this file is in.
        within = str(Path(group.strip("/"), name).parent)
        for kind, named, value in _defaults(path):
            inside = named.strip("/") if named.startswith("/") or within == "." else f"{within}/{named}"
            if value is None and named != "_self_":
                self.add(within, named)
            elif value is not None and kind == "override":
                self._chosen.setdefault(named.strip("/"), self._evaluated(value))
            elif value is not None:
                self.add(inside, self._chosen.get(inside) or self._evaluated(value))

    def _evaluated(self, text: str) -> str:
        return _OF_ENV.sub(lambda found: self._env.get(found[1], found[2] or ""), text)


def _defaults(path: Path) -> Iterator[tuple[str | None, str, str | None]]:
    """("override" or "optional", group or file, option of the group) of each item of its list of defaults."""
    for keys, value in read(path).entries:
        if keys[0] != "defaults":
            continue
        texts: list[Any] = value if isinstance(value, list) else [value]
        for text in texts:
            # `- model: small` has the group as its last key, and a plain item has a number or none.
            item = f"{keys[-1]}: {text}" if len(keys) > 1 and not keys[-1].isdigit() else str(text)
            if found := _ITEM.fullmatch(item):
                yield found[1], found[2], found[3]
