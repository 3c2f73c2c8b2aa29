"""The configuration files that a script reads although the command does not name them.

Those are Hydra's configuration with the files of its groups, the default of an option such as `--config`, and files that the
script opens by a name that can be worked out. Where a part of the name cannot, all such files of the folder are `unsure`. Files
that the script writes too are none of its configuration.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuq.script.configs import is_config
from gpuq.script.expressions import keyword, text_of
from gpuq.script.hydra import composed
from gpuq.script.meaning import RESULTS
from gpuq.script.options import canonical, pairs
from gpuq.script.path_texts import UNKNOWN_PART, PathTexts
from gpuq.script.source import is_file
from gpuq.script.survey import Call, Survey

# fmt: off
_READING = frozenset({
    "open", "load", "safe_load", "full_load", "read", "from_json_file", "from_file", "from_yaml", "parse_file", "load_config",
    "read_config", "get_config", "load_yaml", "load_json", "load_params", "merge_from_file", "parse_config_file", "fromfile",
    "Path",
})
_OF_VARIABLES = frozenset({"load_dotenv", "dotenv_values"})
# fmt: on
_READ_METHODS = frozenset({"read_text", "read_bytes", "open"})
_WRITE_METHODS = frozenset({"write_text", "write_bytes"})
_WRITING = frozenset(
    {"dump", "safe_dump", "save", "to_json", "to_yaml", "to_json_file", "save_json", "save_yaml", "write_json"}
)
# Data and results are kept as JSON too.
_IS_CONFIG = re.compile(
    r"conf|cfg|param|setting|option|hyper|arg|default|model|train|experiment|recipe|\.gin$", re.IGNORECASE
)
_HAS_CONFIGS = re.compile(r"conf|cfg|param|setting|option|hyper|recipe|preset", re.IGNORECASE)
_MOST_UNSURE = 64


class OwnConfigs(NamedTuple):
    """Files that may exist, in the order in which a later one overrides an earlier one; and files of which some are read."""

    files: list[Path]
    unsure: list[Path]


def own_configs(
    surveys: Sequence[Survey], script: Path, words: Sequence[str], cwd: Path, texts: PathTexts, env: Mapping[str, str]
) -> OwnConfigs:
    """What `script`, called with `words` in `cwd`, reads."""
    given = {canonical(name): value for name, value in pairs(words) if name is not None}
    folders = (cwd, script.parent)
    names = [*_defaults(surveys, given, texts), *_opened(surveys, texts)]
    known = [_in(folders, name) for name in names if UNKNOWN_PART not in name]
    unsure = [path for name in names if UNKNOWN_PART in name for path in _all_in(folders, name)]
    files = dict.fromkeys([*composed(surveys[:1], script, words, given, env), *known])
    return OwnConfigs(list(files), list(dict.fromkeys(unsure))[:_MOST_UNSURE])


def _in(folders: Sequence[Path], name: str) -> Path:
    return next((folder / name for folder in folders if is_file(folder / name)), folders[0] / name)


def _all_in(folders: Sequence[Path], name: str) -> Iterator[Path]:
    """The configuration files of the folder of a name that is known in part."""
    place = name.partition(UNKNOWN_PART)[0].rpartition("/")[0]
    for folder in folders if _HAS_CONFIGS.search(place) else ():
        try:
            found = sorted(path for path in (folder / place).iterdir() if is_config(path))
        except OSError:
            continue
        yield from found[:_MOST_UNSURE]


def _defaults(surveys: Sequence[Survey], given: Mapping[str, str | None], texts: PathTexts) -> Iterator[str]:
    for option in (option for one in surveys for option in one.options):
        name = texts.of(option.default)
        if _may_be_config(name) and given.keys().isdisjoint(map(canonical, option.names)):
            yield name


def _opened(surveys: Sequence[Survey], texts: PathTexts) -> Iterator[str]:
    read: list[str] = []
    written: set[str] = set()
    for call in (call for one in surveys for call in one.calls):
        if call.last in _OF_VARIABLES:
            read.append(texts.of(call.node.args[0]) if call.node.args else ".env")
            continue
        node = _path_in(call)
        name = texts.of(node)
        if node is None or not _may_be_config(name) or RESULTS.search(texts.within(name)):
            continue
        # `wandb.save` takes a copy of a file.
        if (call.last in _WRITING | _WRITE_METHODS and call.name != "wandb.save") or _writes(call.node):
            written.add(name)
        elif call.last in _READING | _READ_METHODS:
            is_data = name.endswith(".json") and not _IS_CONFIG.search(f"{name} {ast.unparse(node)}")
            read += [] if is_data else [name]
    yield from (name for name in read if name not in written)


def _path_in(call: Call) -> ast.expr | None:
    """What a call reads or writes: the path whose method it is, else its first argument."""
    node, of_path = call.node, call.last in _READ_METHODS | _WRITE_METHODS and isinstance(call.node.func, ast.Attribute)
    if of_path and (call.last in _WRITE_METHODS or not node.args or _is_mode(node.args[0])):
        return node.func.value if isinstance(node.func, ast.Attribute) else None
    return node.args[0] if node.args else None


def _is_mode(node: ast.expr) -> bool:
    return bool(re.fullmatch(r"[rwaxbt+]{1,3}", text_of(node) or ""))


def _may_be_config(name: str) -> bool:
    return name not in ("", UNKNOWN_PART) and "\n" not in name and (is_config(Path(name)) or name.endswith(".gin"))


def _writes(call: ast.Call) -> bool:
    given = next((one for one in call.args if _is_mode(one)), None)
    mode = text_of(given) or text_of(keyword(call, "mode"))
    return bool(mode and set(mode) & set("wax+"))
