"""Operators and built-in functions on the plain values of scripts: numbers, texts, tuples, None, or UNKNOWN.

UNKNOWN is the result for anything that rests on an unknown value, and for what would take much time or memory. What Python
itself would reject raises as in Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

UNKNOWN: Any = object()
MOST_ITEMS = 64
_LONGEST_TEXT = 4096
_LARGEST = 10**15
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_TURN_TO: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "len": len,
    "tuple": tuple,
    "list": tuple,
    "sorted": lambda values: tuple(sorted(values)),
    "max": max,
    "min": min,
}


def operated(how: ast.operator | ast.cmpop, left: Any, right: Any) -> Any:
    """`left how right`."""
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if isinstance(how, ast.Pow):
        return left**right if numbers and abs(left) < 1e4 and abs(right) < 8 else UNKNOWN
    # A text may not be multiplied or formatted: it could fill the memory.
    if isinstance(how, ast.Mult | ast.Mod) and not numbers:
        return UNKNOWN
    return _OPERATORS[type(how)](left, right)


def negated(how: ast.unaryop, value: Any) -> Any:
    """`not value` and `-value`."""
    if value is UNKNOWN:
        return UNKNOWN
    return not value if isinstance(how, ast.Not) else -value if isinstance(how, ast.USub) else UNKNOWN


def turned(function: str, value: Any) -> Any:
    """The result of the built-in function of this name; UNKNOWN for other functions."""
    return _TURN_TO[function](value) if function in _TURN_TO and value is not UNKNOWN else UNKNOWN


def bounded(value: Any) -> Any:
    """The value; UNKNOWN if it is too large to continue with."""
    if isinstance(value, bool) or value is None or value is UNKNOWN:
        return value
    if isinstance(value, int | float):
        return value if abs(value) <= _LARGEST else UNKNOWN
    return value if len(value) <= (MOST_ITEMS if isinstance(value, tuple) else _LONGEST_TEXT) else UNKNOWN
