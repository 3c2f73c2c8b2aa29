"""What an expression of a script says without being run: its name, its text, the arguments of a call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

# A word of a script that goes with a submission, as `gpuq.messages.submission.Word` requires it.
_LONGEST_WORD = 100
_WORD = re.compile(r"[\w.,:/@+ -]+")
_TEXT_METHODS = frozenset(
    {"lower", "upper", "casefold", "strip", "split", "rsplit", "replace", "removeprefix", "removesuffix"}
)


def dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """`a.b.c` with the alias of `a` resolved; empty for anything but names and attributes."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return f".{parts[0]}" if parts else ""
    parts.append(aliases.get(node.id, node.id))
    return ".".join(reversed(parts))


def text_of(node: ast.expr | None) -> str | None:
    """A string constant's text; None for other expressions."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def word(value: Any) -> str | None:
    """The value, if it is a text that is short and plain enough for `gpuq.messages.submission.Word`; else None."""
    return value if isinstance(value, str) and len(value) <= _LONGEST_WORD and _WORD.fullmatch(value) else None


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    """The value of the first of these keywords that the call has; None for none."""
    return next((one.value for one in call.keywords if one.arg in names), None)


def argument(call: ast.Call, place: int, *names: str) -> ast.expr | None:
    """The value of the first of these keywords, else the positional argument at this place; None for neither."""
    found = keyword(call, *names)
    return call.args[place] if found is None and place < len(call.args) else found


def names_in(node: ast.expr, aliases: dict[str, str]) -> Iterator[str]:
    """The names that an expression is computed from by arithmetic alone, of dotted ones the last part, and variables of the
    environment: not `seed` of `generator(seed)`."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Subscript) and dotted(node.value, aliases) == "os.environ":
        yield text_of(node.slice) or ""
    elif isinstance(node, ast.Call) and dotted(node.func, aliases) in ("os.getenv", "os.environ.get") and node.args:
        yield text_of(node.args[0]) or ""
    elif isinstance(node, ast.Call) and dotted(node.func, aliases) in ("int", "divmod", "str"):
        yield from (name for one in node.args for name in names_in(one, aliases))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_METHODS:
        yield from names_in(node.func.value, aliases)
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):  # of a text that is split
        yield from names_in(node.value, aliases)
    elif isinstance(node, ast.BinOp):
        yield from (name for one in (node.left, node.right) for name in names_in(one, aliases))
    elif isinstance(node, ast.IfExp):
        yield from (name for one in (node.body, node.orelse) for name in names_in(one, aliases))
    elif isinstance(node, ast.Tuple):
        yield from (name for one in node.elts for name in names_in(one, aliases))
