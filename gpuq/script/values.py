"""Evaluates expressions of a script under one command, as far as that is possible without running it.

Results are plain values (numbers, texts, tuples) or UNKNOWN. Where a value came from is tracked: an argument goes before a
configuration file, that before a default of the script, that before a literal in it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gpuq.script.expressions import dotted, text_of
from gpuq.script.operations import MOST_ITEMS, UNKNOWN, bounded, negated, operated, turned
from gpuq.script.options import canonical, parsed
from gpuq.script.survey import Guards, Survey

ORIGINS = ("argument", "config file", "default", "script")
"""Where a value may come from, strongest first."""

_DEEPEST = 24
# A hundredth of this is usual. Without a limit, names that refer to each other twice would take exponential time.
_MOST_STEPS = 50_000


class Values:
    """Evaluates expressions for one command. The surveys are those of one script, its own file first."""

    def __init__(
        self,
        surveys: Sequence[Survey],
        arguments: Mapping[str, str | None],
        configured: Mapping[str, object],
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._surveys, self._env = surveys, env
        self._arguments = {canonical(name).replace("-", "_"): value for name, value in arguments.items()}
        self._configured = {canonical(name).replace("-", "_"): value for name, value in configured.items()}
        self._options = {
            name.replace("-", "_"): option
            for one in reversed(surveys)
            for option in one.options
            for name in option.names
        }
        self._origin = len(ORIGINS) - 1
        self._opened: set[str] = set()
        self._steps = 0

    def of(self, node: ast.expr | None) -> Any:
        """The value of an expression; UNKNOWN where it cannot be evaluated."""
        return self.traced(node)[0]

    def traced(self, node: ast.expr | None) -> tuple[Any, str]:
        """The value, and the strongest origin that it rests on."""
        before, self._origin = self._origin, len(ORIGINS) - 1
        value = UNKNOWN if node is None else self._safe(node, 0)
        found, self._origin = ORIGINS[self._origin], min(before, self._origin)
        return value, found

    def option(self, name: str) -> tuple[Any, str]:
        """The value that the script's option of this name has under this command, and its origin."""
        return self.traced(ast.Attribute(ast.Name("options"), name.replace("-", "_")))

    def holds(self, guards: Guards) -> bool:
        """Whether no condition around a place is known to be false."""
        for test, wanted in guards:
            value = self._safe(test, 0)
            if value is not UNKNOWN and bool(value) is not wanted:
                return False
        return True

    def node(self, expression: ast.expr, depth: int = 0) -> ast.expr:
        """The expression that a name, or an entry of a literal dictionary, stands for; itself where that is not certain."""
        if depth > _DEEPEST:
            return expression
        if isinstance(expression, ast.Name | ast.Attribute):
            name = expression.id if isinstance(expression, ast.Name) else expression.attr
            only = self._assigned(name)
            return expression if only is None or only is expression else self.node(only, depth + 1)
        if isinstance(expression, ast.Subscript):
            inside = self.node(expression.value, depth + 1)
            if isinstance(inside, ast.Dict):
                wanted = self._safe(expression.slice, depth + 1)
                for key, value in zip(inside.keys, inside.values, strict=True):
                    if wanted is not UNKNOWN and key is not None and self._safe(key, depth + 1) == wanted:
                        return self.node(value, depth + 1)
        return expression

    def _safe(self, node: ast.expr, depth: int) -> Any:
        try:
            return bounded(self._of(node, depth))
        except (ArithmeticError, TypeError, ValueError, KeyError, IndexError, RecursionError, MemoryError):
            return UNKNOWN

    def _of(self, node: ast.expr, depth: int) -> Any:
        self._steps += 1
        if depth > _DEEPEST or self._steps > _MOST_STEPS:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, int | float | str | bool | None) else UNKNOWN
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            values = tuple(self._safe(one, depth + 1) for one in node.elts[: MOST_ITEMS + 1])
            return UNKNOWN if UNKNOWN in values else values
        if isinstance(node, ast.Name):
            return self._assigned_value(node.id, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, depth)
        if isinstance(node, ast.IfExp):
            test = self._safe(node.test, depth + 1)
            return UNKNOWN if test is UNKNOWN else self._safe(node.body if test else node.orelse, depth + 1)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Dict):
            keys = tuple(self._safe(key, depth + 1) if key else UNKNOWN for key in node.keys[: MOST_ITEMS + 1])
            return UNKNOWN if UNKNOWN in keys else keys  # enough for `in`, `len` and `sorted`
        return self._computed(node, depth)

    def _computed(self, node: ast.expr, depth: int) -> Any:
        if isinstance(node, ast.UnaryOp):
            return negated(node.op, self._safe(node.operand, depth + 1))
        if isinstance(node, ast.BoolOp):
            wanted = isinstance(node.op, ast.Or)
            values = [self._safe(one, depth + 1) for one in node.values]
            decisive = next((one for one in values if one is not UNKNOWN and bool(one) is wanted), UNKNOWN)
            return values[-1] if decisive is UNKNOWN and UNKNOWN not in values else decisive
        if isinstance(node, ast.BinOp):
            return operated(node.op, self._safe(node.left, depth + 1), self._safe(node.right, depth + 1))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = self._safe(node.left, depth + 1), self._safe(node.comparators[0], depth + 1)
            return operated(node.ops[0], left, right)
        return UNKNOWN

    def _attribute(self, node: ast.Attribute, depth: int) -> Any:
        """`args.x`, `cfg.model.x`, `self.x`: an option of that name, else what is assigned to it."""
        found = self._option(node.attr, depth)
        if found is not UNKNOWN:
            return found
        if isinstance(node.value, ast.Name) and node.value.id in {"torch", "jnp", "tf", "np", "jax"}:
            return node.attr  # torch.float16
        return self._assigned_value(node.attr, depth)

    def _option(self, name: str, depth: int) -> Any:
        """The value of the option of this name: from the command, a configuration file, or its default."""
        option = self._options.get(name)
        spellings = [name] if option is None else [spelling.replace("-", "_") for spelling in option.names]
        for spelling in spellings:
            if spelling in self._arguments:
                self._origin = 0
                value = self._arguments[spelling]
                if option is not None and option.switch:
                    return True
                return True if value is None else parsed(value)
        for spelling in spellings:
            if spelling in self._configured:
                self._origin = min(self._origin, 1)
                return self._configured[spelling]
        if option is None or option.default is None:
            return UNKNOWN
        self._origin = min(self._origin, 2)
        return self._safe(option.default, depth + 1)

    def _subscript(self, node: ast.Subscript, depth: int) -> Any:
        key = text_of(node.slice)
        if key is not None:
            found = self._option(key, depth)
            if found is not UNKNOWN:
                return found
        stands_for = self.node(node)
        if stands_for is not node:
            return self._safe(stands_for, depth + 1)
        if key is not None:
            return self._assigned_value(key, depth)
        base = self._safe(node.value, depth + 1)
        if isinstance(node.slice, ast.Slice):
            ends = [None if one is None else self._safe(one, depth + 1) for one in (node.slice.lower, node.slice.upper)]
            return UNKNOWN if node.slice.step is not None or UNKNOWN in (base, *ends) else base[ends[0] : ends[1]]
        index = self._safe(node.slice, depth + 1)
        return UNKNOWN if UNKNOWN in (base, index) else base[index]

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = dotted(node.func, {})
        values = [self._safe(one, depth + 1) for one in node.args[:4]]
        if name == "range" and values and all(isinstance(one, int) for one in values):
            return tuple(range(*values)[: MOST_ITEMS + 1])
        if name == "field":
            default = next((one.value for one in node.keywords if one.arg == "default"), None)
            return UNKNOWN if default is None else self._safe(default, depth + 1)
        if name in {"typer.Option", "Option", "Argument", "typer.Argument"} and values:
            return values[0]
        if name in {"os.environ.get", "os.getenv", "environ.get", "getenv"} and values:
            return self._variable(values[0], values[1] if len(values) > 1 else UNKNOWN)
        return turned(name, values[0]) if len(values) == 1 else UNKNOWN

    def _variable(self, name: Any, default: Any) -> Any:
        """The value of a variable of the job's environment, as far as the command gives any."""
        if name in self._env:
            self._origin = 0
            return self._env[name]
        self._origin = min(self._origin, 2)
        return default

    def _assigned_value(self, name: str, depth: int) -> Any:
        only = self._assigned(name)
        if only is None or name in self._opened:
            return UNKNOWN
        self._opened.add(name)
        try:
            return self._safe(only, depth + 1)
        finally:
            self._opened.discard(name)

    def _assigned(self, name: str) -> ast.expr | None:
        """The only expression assigned to a name in the first file that has it, given the conditions; None if ambiguous."""
        # The conditions that choose between assignments may mention the name itself: then it stays undecided.
        if f"={name}" in self._opened:
            return None
        for one in self._surveys:
            found = one.values.get(name)
            if found is None:
                continue
            if len(found) == 1:
                return found[0][0]
            if len(found) > 8:
                return None
            self._opened.add(f"={name}")
            try:
                left = [node for node, guards in found if self.holds(guards)]
            finally:
                self._opened.discard(f"={name}")
            return left[0] if left and (len(left) == 1 or _same_constant(left)) else None
        return None


def _same_constant(nodes: Sequence[ast.expr]) -> bool:
    values = [node.value if isinstance(node, ast.Constant) else UNKNOWN for node in nodes]
    return UNKNOWN not in values and len(set(values)) == 1
