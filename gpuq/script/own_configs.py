"""The configuration files that a script reads although the command does not name them.

Those are Hydra's configuration with the files of its groups, the default of an option such as `--config`, and files that the
script opens by a name that is written out in it. Files that it writes too are none of its configuration.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpuq.script.configs import SUFFIXES, read
from gpuq.script.options import canonical, pairs
from gpuq.script.survey import Survey, argument, keyword, text_of

_READING = frozenset(
    {
        *(
            "open",
            "load",
            "safe_load",
            "full_load",
            "read",
            "read_text",
            "from_json_file",
            "from_file",
            "from_yaml",
            "Path",
        ),
        *("parse_file", "load_config", "read_config", "get_config", "load_yaml", "load_json", "load_params"),
    }
)
# Data and results have such names too.
_IS_CONFIG = re.compile(r"conf|cfg|param|setting|option|hyper|arg|default|model|train|experiment|recipe", re.IGNORECASE)
_GROUP = re.compile(r"\+{0,2}([\w/]+)=([\w.-]+)")


def own_configs(surveys: Sequence[Survey], script: Path, words: Sequence[str], cwd: Path) -> list[Path]:
    """Files that may exist, in the order in which a later one overrides an earlier one."""
    given = {canonical(name): value for name, value in pairs(words) if name is not None}
    found = [*_of_hydra(surveys[:1], script, words, given)]
    folders = (cwd, script.parent)
    found += [_in(folders, name) for name in (*_defaults(surveys, given), *_opened(surveys))]
    return list(dict.fromkeys(found))


def _in(folders: Sequence[Path], name: str) -> Path:
    return next((folder / name for folder in folders if (folder / name).is_file()), folders[0] / name)


def _of_hydra(
    surveys: Sequence[Survey], script: Path, words: Sequence[str], given: Mapping[str, str | None]
) -> Iterator[Path]:
    for call in (call for one in surveys for call in one.calls if call.name == "hydra.main"):
        place = given.get("config-dir") or given.get("config-path")
        folder = script.parent / (place or text_of(argument(call.node, 0, "config_path")) or ".")
        name = given.get("config-name") or text_of(argument(call.node, 1, "config_name"))
        if name is None:
            continue
        main = folder / (name if Path(name).suffix in SUFFIXES else f"{name}.yaml")
        yield main
        groups = {
            keys[-1]: value
            for keys, value in read(main).entries
            if keys[0] == "defaults" and len(keys) in (2, 3) and isinstance(value, str)
        }
        groups |= {chosen[1]: chosen[2] for word in words if (chosen := _GROUP.fullmatch(word))}
        yield from (folder / group / f"{value}.yaml" for group, value in groups.items())


def _defaults(surveys: Sequence[Survey], given: Mapping[str, str | None]) -> Iterator[str]:
    for option in (option for one in surveys for option in one.options):
        name = text_of(option.default)
        if name and Path(name).suffix in SUFFIXES and given.keys().isdisjoint(map(canonical, option.names)):
            yield name


def _opened(surveys: Sequence[Survey]) -> Iterator[str]:
    read: list[str] = []
    written: set[str] = set()
    for call in (call for one in surveys for call in one.calls):
        name = text_of(call.node.args[0]) if call.node.args else None
        if name is None or Path(name).suffix not in SUFFIXES:
            continue
        if call.last in _READING and not _writes(call.node):
            read.append(name)
        else:
            written.add(name)
    yield from (name for name in read if name not in written and _IS_CONFIG.search(name))


def _writes(call: ast.Call) -> bool:
    mode = text_of(call.args[1]) if len(call.args) > 1 else text_of(keyword(call, "mode"))
    return bool(mode and set(mode) & set("wax+"))
