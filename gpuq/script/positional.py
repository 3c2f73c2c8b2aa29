"""How a script calls the words that its command gives without a name: `seed` of `train.py 7`.

By its parser, or by what it unpacks `sys.argv` into, loops over or calls with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gpuq.script.expressions import dotted, keyword, text_of
from gpuq.script.survey import Survey


def positional_names(surveys: Sequence[Survey]) -> dict[int, str]:
    """Place, from 1 on -> name, of the first file that names any. Empty where subcommands take words of their own."""
    for one in surveys:
        commands = sum(call.last == "command" for call in one.calls)
        if commands > 1 or any(call.last in ("add_subparsers", "add_parser", "group") for call in one.calls):
            return {}
        if found := {**dict(enumerate(_declared(one), 1)), **dict(_unpacked(one))}:
            return found
    return {}


def _declared(one: Survey) -> Iterator[str]:
    """The positional arguments of argparse and click, up to the first that takes several words or none."""
    for call in one.calls:
        name = text_of(call.node.args[0]) if call.node.args else None
        if call.last in ("add_argument", "argument") and name and not name.startswith("-"):
            yield name
            if keyword(call.node, "nargs") is not None:
                return


def _unpacked(one: Survey) -> Iterator[tuple[int, str]]:
    assigned = [*one.unpacked, *(((name,), value) for name, value, _ in one.named)]
    # `main(int(sys.argv[1]))` calls it as `def main(seed)` does.
    for call in one.calls:
        named = zip(one.parameters.get(call.name, ()), call.node.args, strict=False)
        assigned += [((name,), value) for name, value in named]
    for names, value in assigned:
        index = _of_argv(value, one)
        several = isinstance(index, ast.Slice)
        first = index.lower if isinstance(index, ast.Slice) else index
        # `words = sys.argv[1:]` names none of them.
        if several == (len(names) > 1) and isinstance(first, ast.Constant) and isinstance(first.value, int):
            yield from enumerate(names, first.value)


def _of_argv(node: ast.expr, one: Survey) -> ast.expr | None:
    """The index of `sys.argv` in `int(sys.argv[1])`, `sys.argv[1] if … else 3`, `map(int, sys.argv[1:])` and the like."""
    for _ in range(4):
        if isinstance(node, ast.Subscript):
            return node.slice if dotted(node.value, one.aliases) == "sys.argv" else None
        if isinstance(node, ast.Call) and node.args:
            node = node.args[-1]
        elif isinstance(node, ast.IfExp):
            node = node.body
        elif isinstance(node, ast.GeneratorExp | ast.ListComp):
            node = node.generators[0].iter
        else:
            return None
    return None
