"""Whether a script is to make optimizers again, or larger steps, after those that were seen: by what its code has in store from
the place on where it is.

`for width in 64, 4096: fit(width)` and `fit(small); fit(large)` train several models in turn, and what the first one needs says
nothing of the others. Only the script's own code is looked at, that of installed packages is not.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

NOT_OF_SCRIPT = (
    *{sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    os.path.dirname(os.path.abspath(__file__)) + os.sep,  # noqa: PTH100, PTH120 - as in `main`
    "<frozen ",
)
_LOOPS = (ast.For, ast.While, ast.AsyncFor)
# Variables of loops over sizes and over parts of a training.
_SIZES = re.compile(r"(?:^|_)(?:sizes?|res|resolution|len|length|width|dim|depth|bs|stage|phase)$", re.IGNORECASE)
_DISPLAYS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# These run in frames of their own, but for lists, sets and dictionaries from Python 3.12 on.
_OF_DISPLAYS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Of `match`, from Python 3.10 on. It has no place of its own, its statements have.
_CASE = getattr(ast, "match_case", ())
_COUNTING = frozenset({"range", "trange", "count", "enumerate"})
# What calls a function that it is given several times: `map`, and searches of Optuna, hyperopt, W&B, scikit-optimize and joblib.
_REPEATING = frozenset(
    {
        *("map", "starmap", "imap", "imap_unordered", "Parallel", "optimize", "fmin", "agent", "minimize"),
        *("gp_minimize", "forest_minimize", "dummy_minimize"),
    }
)


class Origins:
    """From where optimizers were made: the calls in progress at that time. No frame is kept, as it would keep its tensors."""

    def __init__(self) -> None:
        self._called: dict[tuple[int, CodeType], set[str]] = {}
        self._places: dict[tuple[CodeType, int], set[tuple[str, int]]] = {}
        self._trees: dict[str, ast.Module | None] = {}
        self._classes: set[str] = set()

    def note(self, frame: FrameType | None, classes: Collection[str]) -> None:
        """An optimizer is being made in this frame; `classes` are the names of all optimizers."""
        wanted = self._classes = set(classes)
        for one in self._of_script(frame):
            statements = list(_statements(self._body(one), one.f_lineno))
            called = {_name(call) for statement in statements for call in _calls(statement)}
            # What the script calls of a package, as `trainer.fit`, has another name than what that calls in the script.
            names = wanted if called & wanted else {_name(call) for call in map(_outermost, statements) if call}
            self._called.setdefault((id(one), one.f_code), set()).update(names)
            wanted = {one.f_code.co_name}

    def again(self, frame: FrameType | None) -> str | None:
        """The place in the script that will make an optimizer again, as `train.py:7`; None where none is seen."""
        for one in self._of_script(frame):
            names = self._called.get((id(one), one.f_code), set())
            body = self._body(one)
            for call in _to_come(body, one.f_lineno, names):
                if _name(call) in names or self._makes(call, one.f_code.co_filename, one.f_globals):
                    return _place(one, call)
        return None

    def searched(self, frame: FrameType | None) -> str | None:
        """The place in the script from which a package calls this training several times, with what it draws."""
        inner = None
        for one in self._of_script(frame):
            body = self._body(one)
            called = [call for statement in _statements(body, one.f_lineno) for call in _calls(statement)]
            # What is called here by its name is called once.
            if inner is not None and inner not in map(_name, called):
                for call in (call for call in called if _name(call) in _REPEATING):
                    return _place(one, call)
            inner = one.f_code.co_name
        return None

    def _makes(self, call: ast.Call, file: str, names: Mapping[str, Any]) -> bool:
        """Whether this call is of a function or class of the script that makes an optimizer, also through others."""
        waiting, seen = [(call, file, names)], set()
        while waiting:
            call, file, names = waiting.pop()
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            of = getattr(names.get(name), "__module__", None)
            if of != names.get("__name__") and of in sys.modules:  # it is imported
                file, names = getattr(sys.modules[of], "__file__", None) or "", vars(sys.modules[of])
            if not name or (file, name) in seen or file.startswith(NOT_OF_SCRIPT):
                continue
            seen.add((file, name))
            for one in ast.walk(self._tree(file) or ast.Module([], [])):
                if isinstance(one, _DEFINITIONS) and one.name == name:
                    calls = [part for part in ast.walk(one) if isinstance(part, ast.Call)]
                    if not self._classes.isdisjoint(map(_name, calls)):
                        return True
                    waiting += [(inside, file, names) for inside in calls]
        return False

    def grows(self, frame: FrameType | None) -> tuple[str, tuple[str, int] | None] | None:
        """What later steps are larger by: the variable of a loop over sizes around them, `for size in 32, 64`, or a size that
        follows the number of the round, `length = 64 * (1 + epoch)`, or what is frozen until some round.

        Returns a sentence's part with its place, and (file, line) of the loop of which any round may be the largest.
        """
        for one in self._of_script(frame):
            for loop in _loops_around(self._body(one), one.f_lineno):
                whole = one.f_code.co_filename, loop.lineno
                names = (part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name))
                if size := next(filter(_SIZES.search, names), None):
                    return f"{size} at {_place(one, loop)}", whole
                for branch in _thawing(loop):
                    return f"what is unfrozen at {_place(one, branch)}", None
                for size, assigned in _following(loop):
                    return f"{size} at {_place(one, assigned)}", whole
        return None

    def places(self, frame: FrameType | None) -> set[tuple[str, int]]:
        """(file, line) of the loops of the script around this frame, and (file, 0) of what is in none of them."""
        found: set[tuple[str, int]] = set()
        for one in self._of_script(frame):
            key = one.f_code, one.f_lineno
            if key not in self._places:
                file = one.f_code.co_filename
                loops = _loops_around(self._body(one), one.f_lineno, _LOOPS)
                self._places[key] = {(file, 0), *((file, loop.lineno) for loop in loops)}
            found |= self._places[key]
        return found

    def _of_script(self, frame: FrameType | None) -> Iterator[FrameType]:
        """The frames of the script's own code, the innermost first."""
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(NOT_OF_SCRIPT) and code.co_name not in _OF_DISPLAYS:
                yield frame
            frame = frame.f_back

    def _body(self, frame: FrameType) -> ast.AST | None:
        """The function, or the module, that this frame runs; None where its source is not known."""
        tree, line = self._tree(frame.f_code.co_filename), frame.f_code.co_firstlineno
        if tree is None or frame.f_code.co_name == "<module>":
            return tree
        # A function's code begins at its first decorator.
        found = (one for one in ast.walk(tree) if getattr(one, "name", "<lambda>") == frame.f_code.co_name)
        functions = [one for one in found if isinstance(one, _SCOPES)]
        return next((one for one in functions if _begins(one) <= line <= one.lineno), None)

    def _tree(self, file: str) -> ast.Module | None:
        if file not in self._trees:
            try:
                self._trees[file] = ast.parse("".join(linecache.getlines(file)))
            except (SyntaxError, ValueError):
                self._trees[file] = None
        return self._trees[file]


def _place(frame: FrameType, node: ast.expr | ast.stmt) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{node.lineno}"  # noqa: PTH119 - as in `main`


def _begins(function: ast.AST) -> int:
    return min(getattr(one, "lineno", 0) for one in (function, *getattr(function, "decorator_list", ())))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What is within, less the bodies of functions in it, which run at another time."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, _CASE):
            yield from _children(one)
        elif not isinstance(one, _SCOPES):
            yield one


def _spans(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", line + 1) <= line <= (getattr(node, "end_lineno", None) or 0)


def _loops_around(node: ast.AST | None, line: int, of: tuple[Any, ...] = (ast.For, ast.AsyncFor)) -> Iterator[Any]:
    """The loops of these types that this line is in, by default those over something."""
    for one in () if node is None else _children(node):
        if _spans(one, line):
            if isinstance(one, of):
                yield one
            yield from _loops_around(one, line, of)


def _thawing(loop: ast.For | ast.AsyncFor) -> Iterator[ast.stmt]:
    """The statements of this loop that let more be trained from some round on: `if epoch == 3: weight.requires_grad = True`."""
    rounds = {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
    for branch in (part for statement in loop.body for part in ast.walk(statement) if isinstance(part, ast.If)):
        parts = list(ast.walk(branch.test))
        # Every second step, as of a GAN, is among those that were seen.
        is_late = any(isinstance(part, ast.Name) and part.id in rounds for part in parts)
        if is_late and not any(isinstance(part, ast.Mod) for part in parts):
            yield from (
                one for one in ast.walk(ast.Module(branch.body, [])) if isinstance(one, ast.stmt) and _thaws(one)
            )


def _thaws(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        is_true = isinstance(statement.value, ast.Constant) and statement.value.value is True
        return is_true and any(getattr(one, "attr", "") == "requires_grad" for one in statement.targets)
    call = _outermost(statement)
    if call is None or any(isinstance(one, ast.Constant) and one.value is False for one in call.args):
        return False
    return _name(call) == "requires_grad_" or _name(call).startswith("unfreeze")


def _following(loop: ast.For | ast.AsyncFor) -> Iterator[tuple[str, ast.Assign]]:
    """(name, assignment) of the sizes that are computed from the number of the round alone. `len(batch)` is none of these."""
    counts = any(_name(call) in _COUNTING for call in _calls(loop.iter))
    rounds = {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)} if counts else set()
    for one in (part for statement in loop.body for part in ast.walk(statement)):
        if not isinstance(one, ast.Assign) or not isinstance(one.targets[0], ast.Name):
            continue
        parts = list(ast.walk(one.value))
        of_rounds = any(isinstance(part, ast.Name) and part.id in rounds for part in parts)
        computed = all(not isinstance(part, (ast.Subscript, ast.Attribute)) for part in parts)
        if of_rounds and computed and _SIZES.search(one.targets[0].id):
            yield one.targets[0].id, one


def _statements(body: ast.AST | None, line: int) -> Iterator[ast.AST]:
    """The smallest statements at this line."""
    for one in () if body is None else _children(body):
        if _spans(one, line):
            inside = list(_statements(one, line))
            yield from inside or ([one] if isinstance(one, ast.stmt) else [])


def _outermost(statement: ast.AST) -> ast.Call | None:
    """The call whose result a statement is about."""
    value = getattr(statement, "value", None)
    return value if isinstance(value, ast.Call) else None


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    if isinstance(node, ast.Call):
        yield node
    for one in _children(node):
        yield from _calls(one)


def _name(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def _to_come(node: ast.AST | None, line: int, names: Collection[str]) -> Iterator[ast.Call]:
    """The calls that may be made after the statement at this line: behind it, and all of a loop around it. Of a condition's
    branches only the one that it is in. What a call of these names is given was made before it."""
    if node is None or ((call := _outermost(node)) is not None and _name(call) in names):
        return
    if isinstance(node, _LOOPS) and any(_spans(one, line) for one in node.body):
        yield from (call for one in node.body for call in _calls(one))
        return
    if isinstance(node, _DISPLAYS):
        yield from _calls(node)
        return
    # `else` of a loop, or of a `try`, comes after its body.
    others = getattr(node, "handlers", ())
    if isinstance(node, ast.If) and not _spans(node.test, line):
        others = node.orelse
    cases = [case.body for case in getattr(node, "cases", ())]
    if any(_spans(one, line) for body in cases for one in body):
        others = [one for body in cases for one in body if not any(_spans(part, line) for part in body)]
    for one in _children(node):
        if _spans(one, line):
            yield from _to_come(one, line, names)
        elif getattr(one, "lineno", 0) > line and one not in others:
            yield from _calls(one)
