"""The configuration files that a command or its script names, as flat settings, and what of them was not understood.

Reads JSON, TOML, INI, assignments of Python and gin, files of arguments, and of YAML the lines that training configurations
consist of: a YAML parser would be a dependency of every `gpuq submit`. All else is the `rest` of a file, which is only compared.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from gpuq.script.meaning import RESULTS, Meaning, meaning, plain
from gpuq.script.options import canonical, pairs, parsed
from gpuq.script.source import digest, is_file, parse, text

LARGEST_BYTES = 64 * 1024
MOST_FILES = 40
SUFFIXES = frozenset({".json", ".toml", ".yaml", ".yml", ".ini", ".cfg"})
_VARIABLES = ".env"
# These are read where the command names them: in the source of a script such names are rather data.
_MORE_SUFFIXES = frozenset({".py", ".gin", ".jsonnet", ".libsonnet", ".prototxt", ".conf", ".txt", ".xml"})
_MOST_ENTRIES = 2000
_LONGEST_LINE = 1000
_NAMES_FILE = re.compile(r"conf|cfg|(?:flag|args|env)-?file|recipe|^source$")
# Where a configuration may be that is named without its suffix: `--config small`.
_FOLDERS = ("conf", "config", "configs")
_PARENTS = frozenset({"_base_", "__base__", "base", "inherits", "extends"})
_LINE = re.compile(r"""^(\s*)(- +)?("[^"]+"|'[^']+'|[\w./@-]+)\s*:(?:\s+(.*?))?\s*$""")
_ITEM = re.compile(r"^(\s*)- +(.+?)\s*$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
# What a value of YAML may begin with where more follows, or where another place says what it is.
_NOT_PLAIN = re.compile(r"[{&*!|>%@`]|\[(?!.*\]$)|\"(?!.*\"$)|'(?!.*'$)")
_FLOW = re.compile(
    r"""\s*(?:([{}\[\],]|:(?=[\s\[{]))|"([^"]*)"|'([^']*)'|([^\s{}\[\],:"'](?:[^{}\[\],:]|:(?![\s\[{]))*?)(?=\s*(?:[{}\[\],]|:[\s\[{]|$)))"""
)
_ASSIGNED = re.compile(r"^\s*(?:export\s+)?([\w./@-]+)\s*=\s*(\S.*?)\s*$")
_SECTION = re.compile(r"^\[([^\]]+)\]\s*$", re.MULTILINE)
NOT_TRAINING = re.compile(
    r"(^|[._-])(val|valid|validation|test|eval|evaluation|predict|inference)([._-]|$)", re.IGNORECASE
)

Entry = tuple[tuple[str, ...], Any]


@dataclass(frozen=True)
class ConfigFile:
    """What one file says: (keys from the outermost on, value), and the text that none of these stands for."""

    entries: list[Entry] = field(default_factory=list)
    rest: str = ""
    modules: tuple[str, ...] = ()
    """The modules that a file of Python imports."""


def configured(files: Iterable[ConfigFile]) -> dict[str, Any]:
    """Setting -> value of all these files; a later file overrides an earlier one.

    A key counts by its last part; of several with the same last part the first that is not about validation.
    """
    found: dict[str, Any] = {}
    for one in files:
        own: dict[str, Any] = {}
        for keys, value in one.entries:
            if isinstance(value, list) or NOT_TRAINING.search(".".join(keys)):
                continue
            # `fp16: {enabled: true}`, as DeepSpeed has it.
            name = keys[-2] if keys[-1] == "enabled" and len(keys) > 1 else keys[-1]
            own.setdefault(canonical(name), value)
        found |= own
    return found


def entries(files: Iterable[ConfigFile]) -> list[Entry]:
    """(keys from the outermost on, value) of all these files; a later file overrides an earlier one."""
    return list({keys: value for one in files for keys, value in one.entries}.items())


def named_files(words: Sequence[str], cwd: Path) -> dict[str, Path]:
    """Word -> the configuration file that it names. Where results go is none."""
    found: dict[str, Path] = {}
    for name, value in pairs(words):
        about = plain(name or "")
        if value and len(value) < 1024 and meaning(about) is not Meaning.OUTPUT:
            path = _found(
                _at(cwd, value.removeprefix("@")),
                bool(_NAMES_FILE.search(about)) or value.startswith("@"),
            )
            if path is not None:
                found[value] = path
            elif ".py:" in value and is_file(_at(cwd, file := value.partition(":")[0])):
                # Of `configs/default.py:large` the file is read, and the whole says what it is to make.
                found[file] = _at(cwd, file)
    return found


def configs_of_models(words: Sequence[str], cwd: Path) -> list[Path]:
    """The files in which folders of networks that a command names say what they are: `--model ./bert` has `bert/config.json`."""
    found = []
    for name, value in pairs(words):
        if name and value and len(value) < 1024 and meaning(plain(name)) is Meaning.CHOICE:
            path = _at(cwd, value) / "config.json"
            found += [path] if is_file(path) else []
    return found


def _at(cwd: Path, word: str) -> Path:
    return cwd / os.path.expanduser(word)  # noqa: PTH111 - `Path.expanduser` raises for users that are not known


def is_config(path: Path) -> bool:
    """Whether a file with this name is a configuration file wherever it is named."""
    return path.suffix.lower() in SUFFIXES or _kind(path) == _VARIABLES


def _kind(path: Path) -> str:
    """The suffix in lower case, also of a file that is called by it alone."""
    return path.suffix.lower() or path.name.lower()


def _found(path: Path, without_suffix: bool) -> Path | None:
    if is_config(path) or path.suffix.lower() in _MORE_SUFFIXES:
        candidates = [path]
    else:
        folders = [path.parent, *(path.parent / name for name in _FOLDERS)]
        names = [path.name, *(path.name + suffix for suffix in sorted(SUFFIXES))]
        candidates = [folder / name for folder in folders for name in names] if without_suffix else []
    return next((one for one in candidates if is_file(one)), None)


def with_named(paths: Iterable[Path], cwd: Path) -> list[Path]:
    """These files, each after those beside it or in `cwd` that it names, as its base or otherwise (`model_config: net.yaml`); at
    most `MOST_FILES`."""
    found: dict[Path, None] = {}

    def add(path: Path, deepest: int) -> None:
        if path in found or len(found) >= MOST_FILES or deepest < 0:
            return
        for keys, value in read(path).entries:
            for name in value if isinstance(value, list) else [value]:
                if isinstance(name, str) and (named := _named_by(path.parent, cwd, keys, name)) is not None:
                    add(named, deepest - 1)
        found[path] = None

    for path in paths:
        add(path, 4)
    return list(found)


def _named_by(folder: Path, cwd: Path, keys: tuple[str, ...], name: str) -> Path | None:
    """The configuration file that an entry of a file in this folder names. One that is no base may also be data, or a result."""
    suffix = Path(name).suffix.lower() if len(name) < _LONGEST_LINE else ""
    if keys[-1].lower() in _PARENTS:
        return folder / name if suffix in SUFFIXES | {".py"} else None
    if suffix not in SUFFIXES or RESULTS.search(name) or meaning(".".join(map(plain, keys))) is Meaning.OUTPUT:
        return None
    path = next((above / name for above in (folder, cwd) if is_file(above / name)), None)
    return path if path is not None and text(path, LARGEST_BYTES) is not None else None


def read(path: Path) -> ConfigFile:
    """What one file says; nothing for what is no regular file. Of a large file only a digest."""
    body = text(path, LARGEST_BYTES)
    if body is None:
        return ConfigFile(rest=digest(path) or "")
    try:
        found = _READERS.get(_kind(path), _unread)(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return ConfigFile(rest=repr(body))
    return found if len(found.entries) <= _MOST_ENTRIES else ConfigFile(rest=repr(body))


def _unread(source: str) -> ConfigFile:
    return ConfigFile(rest=source)


def _json(source: str) -> ConfigFile:
    import json

    return ConfigFile(list(_leaves((), json.loads(source))))


def _toml(source: str) -> ConfigFile:
    import tomllib

    return ConfigFile(list(_leaves((), tomllib.loads(source))))


def _leaves(keys: tuple[str, ...], value: Any) -> Iterator[Entry]:
    if isinstance(value, dict):
        for name, inside in value.items():
            yield from _leaves((*keys, str(name)), inside)
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for place, inside in enumerate(value):
            yield from _leaves((*keys, str(place)), inside)
    elif keys:
        yield keys, value if isinstance(value, int | float | str | list | None) else str(value)


def _ini(source: str) -> ConfigFile:
    """Sections of one name are several, as the layers of Darknet's networks."""
    import configparser

    numbers: dict[str, Iterator[int]] = {}

    def numbered(found: re.Match[str]) -> str:
        number = next(numbers.setdefault(found[1], count()))
        return f"[{found[1]}.{number}]" if number else found[0]

    reader = configparser.ConfigParser(interpolation=None)
    try:
        reader.read_string(_SECTION.sub(numbered, source))
    except configparser.Error as error:
        raise ValueError(str(error)) from None
    return ConfigFile(
        [((section, name), parsed(value)) for section in reader.sections() for name, value in reader.items(section)]
    )


def _python(source: str) -> ConfigFile:
    """Names to which a literal is assigned, or `dict(...)` of literals, also within a function that returns a configuration
    (`config.model.width = 64`); of all other statements what they do."""
    tree = parse(source.encode())
    if tree is None:
        return ConfigFile(rest=source)
    found: list[Entry] = []
    rest: list[str] = []
    for node in _statements(tree):
        keys = _assigned_keys(node)
        try:
            assert isinstance(node, ast.Assign)
            assert keys is not None
            found += _leaves(keys, ast.literal_eval(_AsDisplays().visit(node.value)))
        except (AssertionError, ValueError, TypeError):
            rest.append(ast.dump(node))
    return ConfigFile(found, "\n".join(rest), tuple(_imported(tree)))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{one.name}" for one in node.names)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a file, and those of its functions without parameters in their place."""
    for node in tree.body:
        arguments = node.args if isinstance(node, ast.FunctionDef) else None
        if isinstance(node, ast.FunctionDef) and arguments is not None and not (arguments.args or arguments.kwonlyargs):
            is_docstring = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
            yield from node.body[is_docstring:]
        else:
            yield node


def _assigned_keys(node: ast.stmt) -> tuple[str, ...] | None:
    """Under which keys an entry stands: `("model", "width")` of `config.model.width = …`; None for what is no such assignment."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    keys: list[str] = []
    while isinstance(target, ast.Attribute):
        keys.append(target.attr)
        target = target.value
    return tuple(reversed(keys or [target.id])) if isinstance(target, ast.Name) else None


class _AsDisplays(ast.NodeTransformer):
    """`dict(depth=50)` as `{"depth": 50}`, and `ConfigDict(…)` as what it is given."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "ConfigDict" and len(node.args) == 1 and not node.keywords:
            return node.args[0]
        if name not in ("dict", "ConfigDict") or node.args or any(one.arg is None for one in node.keywords):
            return node
        keys: list[ast.expr | None] = [ast.Constant(one.arg) for one in node.keywords]
        return ast.Dict(keys, [one.value for one in node.keywords])


def _assignments(source: str) -> ConfigFile:
    """Lines `name = value`, as gin has them."""
    lines = [line for line in (_COMMENT.sub("", line) for line in source.splitlines()) if line.strip()]
    found = [(line, _ASSIGNED.match(line)) for line in lines]
    return ConfigFile(
        [((one[1],), parsed(one[2].strip("'\""))) for _, one in found if one],
        "\n".join(line for line, one in found if one is None),
    )


def _arguments(source: str) -> ConfigFile:
    """Arguments in one or many lines, as behind `@` or `--flagfile`."""
    found = list(pairs(shlex.split(source, comments=True)))
    return ConfigFile(
        [((name,), True if value is None else parsed(value)) for name, value in found if name],
        "\n".join(value or "" for name, value in found if not name),
    )


def _flow(text: str) -> dict[str, Any] | None:
    """What `{lr: 0.1, betas: [0.9, 0.99]}` says; None for other values."""
    tokens = [(found[1], found[2] or found[3] or found[4] or "") for found in _FLOW.finditer(text)]
    if not (text.startswith("{") and text.endswith("}")) or "".join(_FLOW.split(text)[::5]).strip():
        return None
    try:
        found, left = _flow_value(tokens)
    except (ValueError, IndexError, RecursionError):
        return None
    return found if isinstance(found, dict) and not left else None


_Tokens = list[tuple[str | None, str]]


def _flow_value(tokens: _Tokens) -> tuple[Any, _Tokens]:
    """(the value at the beginning of these tokens, the others)."""
    (sign, text), tokens = tokens[0], tokens[1:]
    if sign is None:
        if text[:1] in "&*!":
            raise ValueError(text)
        return parsed(text), tokens
    if sign not in ("{", "["):
        raise ValueError(sign)
    items: list[Any] = []
    entries_: dict[str, Any] = {}
    while tokens[0][0] not in ("}", "]"):
        value, tokens = _flow_value(tokens)
        if sign == "{":
            key, value = value, None
            if tokens[0][0] == ":":
                value, tokens = _flow_value(tokens[1:])
            entries_[str(key)] = value
        items.append(value)
        tokens = tokens[1:] if tokens[0][0] == "," else tokens
    return (entries_ if sign == "{" else items), tokens[1:]


class _Yaml:
    """Keys with a plain value, under the keys and the numbers of the items that they are indented beneath."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.rest: list[str] = []
        self._above: list[tuple[int, str, bool]] = []  # (column, key or number, whether it is an item)
        self._listed: dict[tuple[str, ...], list[Any]] = {}
        self._items: dict[tuple[str, ...], Iterator[int]] = {}

    def read(self, source: str) -> ConfigFile:
        for line in source.splitlines():
            plainly = _COMMENT.sub("", line)
            if plainly.strip() not in ("", "---", "..."):
                self._read_line(plainly)
        return ConfigFile([*self.entries, *self._listed.items()], "\n".join(self.rest))

    def _read_line(self, line: str) -> None:
        found = _LINE.match(line) if len(line) < _LONGEST_LINE else None
        item = _ITEM.match(line) if found is None and len(line) < _LONGEST_LINE else None
        flow = _flow(found[4] or "") if found is not None else None
        if found is not None and (flow is not None or not _NOT_PLAIN.match(found[4] or "")):
            column, dash, key, value = len(found[1]), found[2] or "", found[3].strip("'\""), found[4]
            if dash:
                self._leave(column, is_item=True)
                path = self._path()
                self._above.append((column, str(next(self._items.setdefault(path, count()))), True))
            self._leave(column + len(dash), is_item=False)
            if flow is not None:
                self.entries += _leaves((*self._path(), key), flow)
            elif value:
                self.entries.append(((*self._path(), key), parsed(value.strip("'\""))))
            else:
                self._above.append((column + len(dash), key, False))
        elif item is not None and self._above and not _NOT_PLAIN.match(item[2]):
            self._leave(len(item[1]), is_item=True)
            self._listed.setdefault(self._path(), []).append(parsed(item[2].strip("'\"")))
        else:
            self.rest.append(line)

    def _leave(self, column: int, *, is_item: bool) -> None:
        """Close the blocks that a key or an item at this column is not part of; items may stand at the column of their key."""
        while self._above and (
            self._above[-1][0] > column or (self._above[-1][0] == column and (self._above[-1][2] or not is_item))
        ):
            self._above.pop()

    def _path(self) -> tuple[str, ...]:
        return tuple(name for _, name, _ in self._above)


_READERS: Mapping[str, Callable[[str], ConfigFile]] = {
    ".json": _json,
    ".toml": _toml,
    ".ini": _ini,
    ".cfg": _ini,
    ".py": _python,
    ".gin": _assignments,
    ".sh": _assignments,
    _VARIABLES: _assignments,
    ".conf": _assignments,
    ".txt": _arguments,
    **dict.fromkeys((".yaml", ".yml"), lambda source: _Yaml().read(source)),
}
