"""The paths that expressions of a script stand for, as far as they can be worked out without running it.

`os.path.join("configs", name)`, `Path(__file__).parent / "base.yaml"`, `f"configs/{args.exp}.yaml"`. What is not known of a path
is one `UNKNOWN_PART` in its text.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuq.script.expressions import dotted, text_of
from gpuq.script.operations import UNKNOWN
from gpuq.script.options import pairs
from gpuq.script.values import Values

UNKNOWN_PART = "\0"
_DEEPEST = 12
_JOINING = frozenset(
    {"os.path.join", "join", "path.join", "osp.join", "joinpath", "os.path.expanduser", "osp.expanduser"}
)
_SAME = frozenset(
    {"abspath", "realpath", "resolve", "absolute", "expanduser", "str", "fspath", "to_absolute_path", "as_posix"}
)
_PATHS = frozenset({"Path", "PurePath", "PosixPath"})
_PLACE_HOLDERS = re.compile(r"\{[^{}]*\}|%[-\d.]*[sdif]")


class PathTexts:
    """Path expressions of one script under one command and its variables."""

    def __init__(self, values: Values, script: Path, words: Sequence[str], env: Mapping[str, str]) -> None:
        self._values, self._script, self._env = values, script, env
        self._positional = [value for name, value in pairs(words) if name is None and value is not None]

    def within(self, path: str) -> str:
        """The path from the script's folder on, if it is in there."""
        return path.removeprefix(f"{self._script.parent}/")

    def of(self, node: ast.expr | None, depth: int = 0) -> str:
        """The text; `UNKNOWN_PART` alone for what is no path, or not known."""
        if node is None or depth > _DEEPEST:
            return UNKNOWN_PART
        if (text := text_of(node)) is not None:
            return text
        if isinstance(node, ast.JoinedStr):
            return "".join(self.of(part, depth + 1) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self.of(node.value, depth + 1)
        if isinstance(node, ast.BinOp):
            return self._combined(node, depth + 1)
        if isinstance(node, ast.Call):
            return self._call(node, depth + 1)
        if isinstance(node, ast.Attribute) and node.attr == "parent":
            return posixpath.dirname(self.of(node.value, depth + 1)) or "."
        if isinstance(node, ast.Subscript) and (found := self._looked_up(node, depth + 1)) is not None:
            return found
        if isinstance(node, ast.Name) and node.id == "__file__":
            return str(self._script)
        value = self._values.of(node)
        if isinstance(value, str | int):
            return str(value)
        stands_for = self._values.node(node)
        return UNKNOWN_PART if stands_for is node or value is not UNKNOWN else self.of(stands_for, depth + 1)

    def _combined(self, node: ast.BinOp, depth: int) -> str:
        left, right = self.of(node.left, depth), self.of(node.right, depth)
        if isinstance(node.op, ast.Div):
            return posixpath.join(left, right)
        if isinstance(node.op, ast.Add):
            return left + right
        return _PLACE_HOLDERS.sub(UNKNOWN_PART, left) if isinstance(node.op, ast.Mod) else UNKNOWN_PART

    def _call(self, node: ast.Call, depth: int) -> str:
        name = dotted(node.func, {})
        last = name.rpartition(".")[2]
        # A method of a path, or a function of one.
        holder = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None
        first = node.args[0] if node.args else holder
        if last == "joinpath" and isinstance(node.func, ast.Attribute):
            return posixpath.join(self.of(node.func.value, depth), *(self.of(one, depth) for one in node.args))
        if node.args and (name in _JOINING or last in _PATHS):
            return posixpath.join(*(self.of(one, depth) for one in node.args))
        if last in _SAME and first is not None:
            return self.of(first, depth)
        if last == "dirname" and node.args:
            return posixpath.dirname(self.of(first, depth)) or "."
        if last in ("cwd", "getcwd"):
            return "."
        if last == "format" and isinstance(node.func, ast.Attribute):
            return _PLACE_HOLDERS.sub(UNKNOWN_PART, self.of(node.func.value, depth))
        if last in ("get", "getenv") and (key := text_of(first)) is not None:
            return self._env.get(key) or self.of(node.args[1] if len(node.args) > 1 else None, depth)
        return UNKNOWN_PART

    def _looked_up(self, node: ast.Subscript, depth: int) -> str | None:
        """What `sys.argv[1]`, `os.environ["CONFIG"]` and `path.parents[1]` stand for; None for other things."""
        of, key = dotted(node.value, {}), self._values.of(node.slice)
        if of == "sys.argv" and isinstance(key, int):
            return self._positional[key - 1] if 0 < key <= len(self._positional) else UNKNOWN_PART
        if of == "os.environ" and isinstance(key, str):
            return self._env.get(key, UNKNOWN_PART)
        if isinstance(node.value, ast.Attribute) and node.value.attr == "parents" and isinstance(key, int):
            folder = Path(self.of(node.value.value, depth))
            return str(folder.parents[key]) if 0 <= key < len(folder.parents) else "."
        return None
