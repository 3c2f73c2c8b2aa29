"""What matters for forecasts in a script: imports, options, constants, classes, functions, calls.

A `Survey` is made once per file; the values of its expressions depend on the command and are computed in `values`. Calls keep
the conditions in which they stand, so that code under `if args.amp:` counts only where that holds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuq.script.expressions import argument, dotted, keyword, names_in, text_of

Guards = tuple[tuple[ast.expr, bool], ...]


@dataclass(frozen=True)
class Call:
    """One call. `name` is dotted, with import aliases resolved; empty where what is called has no name."""

    name: str
    node: ast.Call
    guards: Guards = ()
    scopes: tuple[str, ...] = ()
    """The classes and functions it stands in, outermost first."""

    @property
    def last(self) -> str:
        """The last part of its name."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Option:
    """An option that the script declares: its names without leading dashes, and its default."""

    names: tuple[str, ...]
    default: ast.expr | None
    switch: bool = False
    listed: bool = False
    """Whether its values are listed."""
    several: bool = False
    """Whether it takes several words."""
    whole: bool = False
    """Whether it is declared to be a whole number."""


@dataclass
class Survey:
    """What was found in one file."""

    aliases: dict[str, str] = field(default_factory=dict)
    """Local name -> the dotted name it was imported as."""
    modules: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    values: dict[str, list[tuple[ast.expr, Guards]]] = field(default_factory=dict)
    """Name (of an attribute, its last part) -> what is assigned to it anywhere."""
    named: list[tuple[str, ast.expr, Guards]] = field(default_factory=list)
    """(name, value) of keywords, entries of dictionaries, assignments and parameters, in the order of the source."""
    annotated: dict[str, bool] = field(default_factory=dict)
    """Name of an annotated variable or parameter -> whether it is a whole number, anywhere."""
    unpacked: list[tuple[tuple[str, ...], ast.expr]] = field(default_factory=list)
    """(names, value) of assignments of one value to several names."""
    bases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Class -> the dotted names of its bases."""
    variables: set[str] = field(default_factory=set)
    """Names of the variables of the environment that it reads."""
    definitions: set[str] = field(default_factory=set)
    """Names of classes, and of functions that are no methods."""
    parameters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Function, or class -> the names of its parameters, or those of its `__init__`."""
    indices: set[str] = field(default_factory=set)
    """What stands in the brackets of `WIDTHS[args.idx]`, by the last part of its name."""
    compared: set[str] = field(default_factory=set)
    """What is compared with a constant, or looked up: `args.run == "fit"`, `NETS[args.run]`, `getattr(nets, run)`."""
    compared_in: dict[str, set[str]] = field(default_factory=dict)
    """The same of the parameters of functions, by function: what they stand for is said where it is called."""
    loops: set[tuple[tuple[str, ...], str]] = field(default_factory=set)
    """(scopes, name) of the variables of loops and `lambda`, which are no settings: `for name, _ in net.named_parameters()`."""


# Skipped: more than half of all nodes, with nothing of interest in them.
_LEAVES = frozenset({ast.Name, ast.Constant, ast.Load, ast.Store, ast.Del, ast.alias, ast.arg, ast.arguments, ast.Pass})
_PLAIN = frozenset(
    {ast.Expr, ast.Attribute, ast.Call, ast.Assign, ast.Return, ast.keyword, ast.BinOp, ast.Compare, ast.Tuple}
)
# Methods that declare options, which scripts shorten: `add = parser.add_argument`.
_DECLARE = frozenset({"add_argument", "add_option", "add_arg"})
# What is compared with these is looked at for whether it is given.
_NOTHING = frozenset({None, "", "-", 0, -1, "none", "None", "auto", "debug", "default"})
# What so many rounds of a loop are, by its variable. Steps may be those of an unrolled network.
_LOOPS = {
    **dict.fromkeys(("e", "ep", "epoch"), "epochs"),
    **dict.fromkeys(("step", "it", "iter", "iteration"), "num-steps"),
    **{name: f"{name}s" for name in ("seed", "episode", "fold", "trial")},
}
# These take the name of what they make or load: `create_model(args.name)`.
_MAKERS = frozenset(
    {
        *(
            "create_model",
            "get_model",
            "from_pretrained",
            "from_preset",
            "SentenceTransformer",
            "YOLO",
            "vision_learner",
        ),
        *("load_dataset", "import_module", "__import__", "run_module", "locate", "get_class"),
    }
)
_BEGINS = frozenset({"startswith", "endswith"})
# A part of a name that may choose: no sign, suffix or protocol.
_TELLING = re.compile(r"(?!\.)(?!.*://).*[A-Za-z]{2}", re.DOTALL)
# Of these each is as good as another: `folds[args.fold]`.
_EQUALS = re.compile(
    r"fold|split|seed|device|gpu|cuda|part|shard|chunk|port|color|host|rank|result|metric|score|history|loss|record|stats"
)


@dataclass(frozen=True)
class _Place:
    guards: Guards = ()
    scopes: tuple[str, ...] = ()
    class_: str | None = None


def survey(tree: ast.Module) -> Survey:
    """Survey one tree. Uses a stack instead of recursion, so that deep nesting is no danger."""
    found = Survey()
    stack: list[tuple[ast.AST, _Place]] = [(tree, _Place())]
    while stack:
        node, place = stack.pop()
        _note(found, node, place)
        stack.extend(reversed([pair for pair in _children(node, place) if type(pair[0]) not in _LEAVES]))
    return found


def _children(node: ast.AST, place: _Place) -> Iterator[tuple[ast.AST, _Place]]:
    if type(node) in _PLAIN:
        yield from ((child, place) for child in ast.iter_child_nodes(node))
        return
    if isinstance(node, ast.If | ast.IfExp):
        yes = _with(place, (node.test, True))
        no = _with(place, (node.test, False))
        yield node.test, place
        yield from ((one, yes) for one in (node.body if isinstance(node, ast.If) else [node.body]))
        yield from ((one, no) for one in (node.orelse if isinstance(node, ast.If) else [node.orelse]))
        return
    if isinstance(node, ast.ClassDef):
        place = _Place(place.guards, (*place.scopes, node.name), node.name)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        name = getattr(node, "name", "")
        place = _Place(place.guards, (*place.scopes, name) if name else place.scopes)
    yield from ((child, place) for child in ast.iter_child_nodes(node))


def _with(place: _Place, guard: tuple[ast.expr, bool]) -> _Place:
    # Of deeper nesting the innermost conditions count, which bounds the work for odd scripts.
    return _Place((*place.guards, guard)[-12:], place.scopes, place.class_)


def _note(found: Survey, node: ast.AST, place: _Place) -> None:
    if isinstance(node, ast.Import | ast.ImportFrom):
        _note_import(found, node)
    elif isinstance(node, ast.ClassDef):
        found.bases[node.name] = tuple(dotted(base, found.aliases) for base in node.bases)
        found.definitions.add(node.name)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        _note_function(found, node, place)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            _note_assignment(found, target, node.value, place)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        _note_assignment(found, node.target, node.value, place)
        _note_annotation(found, getattr(node.target, "id", ""), node.annotation)
    elif isinstance(node, ast.Dict):
        keyed = ((text_of(key), value) for key, value in zip(node.keys, node.values, strict=True))
        found.named += [(name, value, place.guards) for name, value in keyed if name]
    elif isinstance(node, ast.Call):
        _note_call(found, node, place)
    else:
        _note_use(found, node, place)


def _note_use(found: Survey, node: ast.AST, place: _Place) -> None:
    """What a place makes of names: it compares them, looks something up by them, or lets them run through a loop."""
    if isinstance(node, ast.Subscript):
        _note_subscript(found, node, place)
    elif isinstance(node, ast.Compare):
        _note_comparison(found, node, place)
    elif isinstance(node, ast.Match):
        _note_decision(found, node.subject, place)
    elif isinstance(node, ast.Lambda):
        found.loops.update((place.scopes, one.arg) for one in node.args.args)
    elif isinstance(node, ast.For | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for loop in [node] if isinstance(node, ast.For) else node.generators:
            found.loops.update((place.scopes, one.id) for one in ast.walk(loop.target) if isinstance(one, ast.Name))
        # In a class it may be a part of a network, which is unrolled.
        if isinstance(node, ast.For) and found.bases.keys().isdisjoint(place.scopes):
            _note_loop(found, node, place)


def _note_decision(found: Survey, node: ast.expr, place: _Place) -> None:
    """The names in this expression decide what is done."""
    function = next((one for one in reversed(place.scopes) if one != "__init__"), "")
    parameters = found.parameters.get(function, ())
    for name, is_alone in _settings_in(found, node, place):
        of_function = is_alone and name in parameters
        (found.compared_in.setdefault(function, set()) if of_function else found.compared).add(name)


def _settings_in(found: Survey, node: ast.expr, place: _Place) -> Iterator[tuple[str, bool]]:
    """(name, whether it stands alone and not as `args.name`) in an expression, without the variables of loops."""
    attributes = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    for name in names_in(node, found.aliases):
        if name in attributes or (place.scopes, name) not in found.loops:
            yield name, name not in attributes


def _note_subscript(found: Survey, node: ast.Subscript, place: _Place) -> None:
    of, text = dotted(node.value, found.aliases), text_of(node.slice)
    if of == "os.environ" and text:
        found.variables.add(text)
    elif isinstance(node.ctx, ast.Load) and not _EQUALS.search(of.lower()):
        found.indices.update(name for name, _ in _settings_in(found, node.slice, place))
        if _offers(found, node.value):
            _note_decision(found, node.slice, place)


def _offers(found: Survey, node: ast.expr) -> bool:
    """Whether this is a table that is written out, read from a file or imported, or a constant of a module; results are collected
    in others."""
    if isinstance(node, ast.Dict | ast.Call):
        return True
    of = dotted(node, found.aliases).rpartition(".")[2]
    made = [value for value, _ in found.values.get(of, ())]
    return (
        of.isupper()
        or of == "__dict__"
        or any(
            (isinstance(one, ast.Dict) and one.keys) or (isinstance(one, ast.Call) and "load" in ast.unparse(one.func))
            for one in made
        )
    )


def _note_comparison(found: Survey, node: ast.Compare, place: _Place) -> None:
    sides = (node.left, *node.comparators)
    parts = [part for one in sides for part in (one.elts if isinstance(one, ast.Tuple | ast.List | ast.Set) else [one])]
    values = [one.value for one in parts if isinstance(one, ast.Constant)]
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        values = [value for value in values if isinstance(value, str) and _TELLING.match(value)]
    elif not isinstance(node.ops[0], ast.Eq | ast.NotEq):
        return
    elif any(_runs_through(found, one, place) for one in sides):
        # `if number != args.job: continue` takes one of several.
        for one in (one for one in sides if not _runs_through(found, one, place)):
            _note_decision(found, one, place)
    if any(value not in _NOTHING for value in values) and "__name__" not in (getattr(one, "id", "") for one in sides):
        for one in sides:
            _note_decision(found, one, place)


def _runs_through(found: Survey, node: ast.expr, place: _Place) -> bool:
    """Whether an expression is of the variable of a loop."""
    return any(isinstance(one, ast.Name) and (place.scopes, one.id) in found.loops for one in ast.walk(node))


def _note_loop(found: Survey, node: ast.For, place: _Place) -> None:
    """`for epoch in range(30)` are 30 epochs, and the values of `for seed in (1, 2)` are seeds."""
    target = node.target.id.lower() if isinstance(node.target, ast.Name) else ""
    count = node.iter.args[0] if isinstance(node.iter, ast.Call) and len(node.iter.args) == 1 else None
    if target == "seed" and isinstance(node.iter, ast.Tuple | ast.List):
        found.named.append((target, node.iter, place.guards))
    elif count is not None and target in _LOOPS and dotted(getattr(node.iter, "func", node.iter), {}) == "range":
        found.named.append((_LOOPS[target], count, place.guards))


def _note_import(found: Survey, node: ast.Import | ast.ImportFrom) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            found.modules.add(alias.name)
            found.aliases[alias.asname or top] = alias.name if alias.asname else top
        return
    module = node.module or ""
    found.modules.add("." * node.level + module)
    for alias in node.names:
        found.aliases[alias.asname or alias.name] = f"{module}.{alias.name}" if module else alias.name


def _note_function(found: Survey, node: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place) -> None:
    arguments = [*node.args.posonlyargs, *node.args.args]
    defaults = [None] * (len(arguments) - len(node.args.defaults)) + list(node.args.defaults)
    pairs = [(argument.arg, default) for argument, default in zip(arguments, defaults, strict=True)]
    pairs += [(one.arg, default) for one, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    names = tuple(one.arg for one in (*arguments, *node.args.kwonlyargs))
    for one in (*arguments, *node.args.kwonlyargs):
        _note_annotation(found, one.arg, one.annotation)
    if place.class_ is None:
        found.definitions.add(node.name)
        found.parameters[node.name] = names
    elif node.name == "__init__":
        found.parameters[place.class_] = names[1:]
    found.named += [(name, default, place.guards) for name, default in pairs if default is not None]


def _note_annotation(found: Survey, name: str, annotation: ast.expr | None) -> None:
    if annotation is not None:
        found.annotated[name] = found.annotated.get(name, False) or _is_int(annotation)


def _note_assignment(found: Survey, target: ast.expr, value: ast.expr, place: _Place) -> None:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, its in zip(target.elts, value.elts, strict=True):
            _note_assignment(found, one, its, place)
        return
    if isinstance(target, ast.Tuple):
        found.unpacked.append((tuple(getattr(one, "id", "") for one in target.elts), value))
        return
    if isinstance(target, ast.Name) and getattr(value, "attr", "") in _DECLARE:
        found.aliases[target.id] = f".{value.attr}"  # type: ignore[attr-defined]
    if isinstance(target, ast.Name | ast.Attribute):
        name = target.id if isinstance(target, ast.Name) else target.attr
    elif isinstance(target, ast.Subscript) and (key := text_of(target.slice)):
        name = key
    else:
        return
    found.values.setdefault(name, []).append((value, place.guards))
    found.named.append((name, value, place.guards))


def _note_call(found: Survey, node: ast.Call, place: _Place) -> None:
    call = Call(dotted(node.func, found.aliases), node, place.guards, place.scopes)
    found.calls.append(call)
    if call.name in ("os.getenv", "os.environ.get") and (name := text_of(argument(node, 0, "key"))):
        found.variables.add(name)
    if (chosen := _chosen_by(found, call)) is not None:
        for part in chosen.values if isinstance(chosen, ast.JoinedStr) else [chosen]:
            _note_decision(found, getattr(part, "value", part) if isinstance(part, ast.FormattedValue) else part, place)
    option = _option(call)
    if option is not None:
        found.options.append(option)
        return
    found.named += [(one.arg, one.value, place.guards) for one in node.keywords if one.arg]


def _chosen_by(found: Survey, call: Call) -> ast.expr | None:
    """By what this call chooses what is made, loaded or done: the name in `getattr(nets, name)` and `NETS.get(name)`."""
    node, last = call.node, call.last
    if call.name in ("getattr", "torch.hub.load"):
        return node.args[1] if len(node.args) > 1 else None
    if last in _MAKERS or call.name == "eval":
        return node.args[0] if node.args else None
    of = node.func.value if isinstance(node.func, ast.Attribute) else None
    if of is not None and last == "get" and node.args and not _EQUALS.search(call.name.lower()) and _offers(found, of):
        return node.args[0]
    if of is not None and last in _BEGINS and node.args and _TELLING.match(text_of(node.args[0]) or ""):
        return of
    return None


def _option(call: Call) -> Option | None:
    """The option that this call declares: argparse's, click's, typer's or absl's."""
    node, last = call.node, call.last
    texts = [text_of(argument) for argument in node.args]
    default = keyword(node, "default")
    if last.startswith("DEFINE_") and texts and texts[0]:
        default = node.args[1] if len(node.args) > 1 else default
        is_switch, is_listed = last in ("DEFINE_bool", "DEFINE_boolean"), last.startswith("DEFINE_enum")
        return Option((texts[0],), default, is_switch, is_listed, whole=last == "DEFINE_integer")
    if last not in _DECLARE and last not in ("option", "Option"):
        return None
    # `--shout/--no-shout`, as click has it.
    spellings = [text.partition("/")[0] for text in texts if text and text.startswith("-")]
    names = [spelling.lstrip("-") for spelling in spellings]
    destination = text_of(keyword(node, "dest"))
    action = keyword(node, "action")
    switch = _takes_no_value(action) or keyword(node, "is_flag", "count") is not None
    switch = switch or any(text and "/-" in text for text in texts)
    if destination:
        names.append(destination)
    if last == "Option" and default is None and node.args and texts[0] is None:
        default = node.args[0]
    if switch and default is None:
        default = ast.Constant(text_of(action) == "store_false")
    of_type = keyword(node, "type")
    listed = keyword(node, "choices") is not None or getattr(getattr(of_type, "func", None), "attr", "") == "Choice"
    nargs = getattr(keyword(node, "nargs"), "value", None)
    several = nargs in ("+", "*") or (isinstance(nargs, int) and nargs > 1)
    # Click takes the type of the default.
    whole = _is_int(of_type) or (of_type is None and last in ("option", "Option") and _is_whole_number(default))
    return Option(tuple(names), default, switch, listed, several, whole) if names else None


def _is_int(type_: ast.expr | None) -> bool:
    return isinstance(type_, ast.Name) and type_.id == "int"


def _is_whole_number(node: ast.expr | None) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int) and not isinstance(value, bool)


def _takes_no_value(action: ast.expr | None) -> bool:
    """Whether an option with this action of argparse is a switch."""
    name = str(text_of(action) or getattr(action, "attr", getattr(action, "id", "")))
    return name.startswith("store_") or name in ("count", "append_const", "BooleanOptionalAction")
