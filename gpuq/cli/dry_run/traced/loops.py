"""The loops of a script around its training steps, made short once these have shown what they need.

What comes later may need more: a validation, images that grow with the epoch, an average of the weights from some step on, the
next fold. So the rest of the script is run through. Of a loop over numbers only those rounds are made at which something may
change: the next one, the last ones, some spread evenly between them, and those with which the script compares the number, as 999
and 1000 of `if step == 1000` and of `if step % 1000 == 0`. A number that is counted up by hand, `step += 1`, goes on to the next
of these. Of other loops three rounds more are made. All rounds are made of a loop whose number gives a size, which may be largest
anywhere, and of one in which an optimizer is made: each is a training of its own.
"""

from __future__ import annotations

import ast
import builtins
import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from itertools import islice
from typing import TYPE_CHECKING, Any

_ROUNDS, _MOST_LISTED, _MOST_NUMBERS, _SPREAD = 3, 32, 48, 16
_LOOPS = (ast.For, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What may be called to compute with what a number is compared.
_COMPUTING = frozenset({"len", "int", "round", "min", "max", "abs"})

if TYPE_CHECKING:  # Python 3.8 has no such types
    Place = tuple[str, int]
    """A file and the line of a loop in it, 0 for what is in no loop."""
    Limits = Sequence[tuple[str, Callable[[], Any]]]
    """Each with "=" or "%", see `_Marking`."""


class ScriptLoops:
    """Shortens the loops of the script's own code in which it made a step, those `around`, but for those that are `whole`."""

    def __init__(self, not_of_script: tuple[str, ...]) -> None:
        self._not_of_script = not_of_script
        self.around: set[Place] = set()
        self.whole: set[Place] = set()
        self.is_cut = False
        self._shown: set[Place] = set()
        self._coming: dict[tuple[Place, str], Iterator[int]] = {}

    @property
    def go_on(self) -> bool:
        """Whether steps are made in a loop of the script's own."""
        return any(line for _, line in self.around)

    def install(self) -> None:
        """Let the code that is loaded from now on run its loops so."""
        vars(builtins).update(__gpuq_over__=self.over, __gpuq_counted__=self.counted)
        load = SourceFileLoader.get_code

        def get_code(loader: Any, fullname: str) -> Any:
            path = loader.get_filename(fullname)
            if not path.startswith(self._not_of_script):
                with suppress(SyntaxError, ValueError, OSError, RecursionError):
                    tree = ast.parse(loader.get_data(path), path)
                    return compile(_marked(tree, path), path, "exec", dont_inherit=True)
            return load(loader, fullname)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]

    def over(self, items: Iterable[Any], place: Place, limits: Limits) -> Iterator[Any]:
        """What a loop at this place goes through; `limits`: see `_Marking`."""
        iterator = iter(items)
        # Of what the script has let go nothing may be held here.
        while item := [*islice(iterator, 1)]:
            if self.is_cut and place in self.around and place not in self.whole:
                # Within a loop around this one it comes again, and then shows no more.
                again = place in self._shown
                self._shown.add(place)
                few = _few(
                    item.pop(), iterator, getattr(items, "iterable", items), () if again else limits, spread=not again
                )
                yield from few
                return
            yield item.pop()

    def counted(self, number: Any, place: Place, name: str, limits: Limits) -> Any:
        """The number that something is counted up to, in place of the next one."""
        if not self.is_cut or place not in self.around or not isinstance(number, int):
            return number
        coming = self._coming.setdefault((place, name), iter(_telling(number, None, limits)))
        return next((one for one in coming if one >= number), number)


def _few(item: Any, iterator: Iterator[Any], of: Any, limits: Limits, *, spread: bool) -> Iterator[Any]:
    """This item and a few of those that follow, of a range also some that are `spread` over it."""
    if isinstance(of, range):
        yield from _telling(item, of, limits, _SPREAD if spread else 0)
    elif isinstance(of, (list, tuple)) and len(of) <= _MOST_LISTED:
        yield item
        yield from iterator
    elif isinstance(of, enumerate):
        yield from ((number, *item[1:]) for number in _telling(item[0], None, limits))
    else:
        yield item
        yield from islice(iterator, _ROUNDS - 1)


def _telling(number: int, of: range | None, limits: Limits, spread: int = 0) -> list[int]:
    """This number and a few later ones of a range: those at which something may change, and so many that are spread over it."""
    found = {number, number + 1}
    for what, value in limits:
        with suppress(Exception):  # it may not be known yet, or in another function
            given = value()
            for limit in given if isinstance(given, (list, tuple, set, range)) else [given]:
                at = math.ceil(limit)
                at = (number // at + 1) * at if what == "%" else at
                found.update((at - 1, at, at + 1))
    if of is None:
        return [one for one in sorted(found) if one >= number][:_MOST_NUMBERS]
    rest = of[of.index(number) :]
    evenly = rest[:: max(1, len(rest) // spread)] if spread else ()
    later = sorted((one for one in {*found, *rest[:2], *evenly} if one in rest), key=rest.index)
    return [*dict.fromkeys((*later[:_MOST_NUMBERS], *rest[-2:]))]


def _marked(tree: ast.Module, path: str) -> ast.Module:
    tests: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            tests.append(node.test)
        elif isinstance(node, (ast.Assign, ast.Return)) and node.value is not None:  # `is_last = step == steps`
            tests.append(node.value)
    compared = [part for test in tests for part in ast.walk(test) if isinstance(part, (ast.Compare, ast.BinOp))]
    _Marking(path, compared).visit(tree)
    return ast.fix_missing_locations(tree)


class _Marking(ast.NodeTransformer):
    """Writes `for x in __gpuq_over__(items, place, limits)` for `for x in items`, and `step = __gpuq_counted__(step + 1, …)` for
    `step += 1`. The limits are what the number is compared with ("="), and what it is divided by for its rest ("%"), each as a
    function, since it may change."""

    def __init__(self, path: str, compared: Sequence[ast.AST]) -> None:
        self._path, self._compared = path, compared
        self._line = 0

    def visit(self, node: ast.AST) -> Any:
        before = self._line
        if isinstance(node, (*_LOOPS, *_FUNCTIONS)):
            self._line = node.lineno if isinstance(node, _LOOPS) else 0
        self.generic_visit(node)
        if isinstance(node, ast.For):
            node.iter = self._call("__gpuq_over__", node.iter, *self._place(), self._limits(_counter(node.target)))
        self._line = before
        return self._counting(node)

    def _counting(self, node: ast.AST) -> ast.AST:
        """`step += 1` or `step = step + 1`, counted; any other statement as it is."""
        target: ast.expr | None = None
        value = getattr(node, "value", None)
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            target = node.target
        elif isinstance(node, ast.Assign) and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            target = node.targets[0] if ast.dump(value.left) == ast.dump(_loaded(node.targets[0])) else None
            value = value.right
        if target is None or not isinstance(value, ast.Constant) or value.value != 1 or not (name := _last(target)):
            return node
        number = ast.BinOp(_loaded(target), ast.Add(), value)
        counted = self._call("__gpuq_counted__", number, *self._place(), ast.Constant(name), self._limits(name))
        return ast.copy_location(ast.Assign([target], counted), node)

    def _place(self) -> list[ast.expr]:
        return [ast.Tuple([ast.Constant(self._path), ast.Constant(self._line)], ast.Load())]

    def _limits(self, counter: str) -> ast.expr:
        found: list[ast.expr] = []
        for part in self._compared if counter else ():
            for what, limit in _limits_in(part, counter):
                if _is_computed(limit):
                    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
                    function = ast.Lambda(nothing, _loaded(limit))
                    found.append(ast.Tuple([ast.Constant(what), function], ast.Load()))
        return ast.Tuple(found, ast.Load())

    def _call(self, name: str, *given: ast.expr) -> ast.Call:
        return ast.Call(ast.Name(name, ast.Load()), list(given), [])


def _limits_in(part: ast.AST, counter: str) -> Iterator[tuple[str, ast.expr]]:
    """What a number of this name is compared with here."""
    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and _mentions(part.left, counter):
        yield "%", part.right
    if isinstance(part, ast.Compare):
        sides = (part.left, *part.comparators)
        if any(_mentions(one, counter) for one in sides):
            yield from (("=", one) for one in sides if not _mentions(one, counter))


def _counter(target: ast.expr) -> str:
    return _last(target.elts[0] if isinstance(target, ast.Tuple) else target)


def _last(node: ast.expr) -> str:
    return getattr(node, "id", getattr(node, "attr", ""))


def _mentions(node: ast.expr, name: str) -> bool:
    return any(_last(part) == name for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute)))


def _is_computed(node: ast.expr) -> bool:
    """Whether this can be computed without doing anything else."""
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
    forbidden = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda)
    return all(_last(one.func) in _COMPUTING for one in calls) and not any(
        isinstance(one, forbidden) for one in ast.walk(node)
    )


def _loaded(node: ast.expr) -> ast.expr:
    """A copy of this expression, to be read."""
    found = copy.deepcopy(node)
    for part in ast.walk(found):
        if isinstance(getattr(part, "ctx", None), ast.Store):
            part.ctx = ast.Load()  # type: ignore[attr-defined]
    return found
