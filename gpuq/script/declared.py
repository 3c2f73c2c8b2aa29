"""What a script makes of the words of its command: the options that it declares, and what it uses of them to choose from a list.

`--run train` of a script whose `--run` is one of `test` and `train` is no name of a run, and `--idx 3` of one that takes
`WIDTHS[args.idx]` is another network than `--idx 0`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuq.script.expressions import names_in
from gpuq.script.meaning import CHOSEN, NUMBERED, Meaning, may_be_size, meaning, plain
from gpuq.script.options import NUMBER
from gpuq.script.positional import positional_names
from gpuq.script.setting_value import is_size
from gpuq.script.survey import Survey

# These say what is done, where a parser lists their values or the script decides by them.
_MAY_CHOOSE = re.compile(
    r"(?:.*-)?(?:o|run|job|work|exp|experiment|out|outputs?|names?|tags?|results?|metrics|preds?|predictions?|id|notes?|comments?"
    r"|desc|description|prefix|suffix|dir|folder)"
)
# Numbers of these names tell one of several runs from the others, unless they are the places of something in a list.
_NUMBERS = re.compile(
    r"(?:.*-)?(?:seed|random-state|idx|index|trial|task|array|rep|replicate|repetition|run|job|exp|experiment|id|no|nr)"
)
_MAY_BE_CASE = re.compile(
    r"(?:.*-)?(?:idx|index|trial|task|rep|replicate|repetition|run|exp|experiment)(?:-(?:id|idx|index|no|nr))?"
)
# Keywords and variables that say which network or data there are.
_OF_WORK = re.compile(
    r"(?:.*-)?(?:model|arch|architecture|backbone|network|net|encoder|decoder|teacher|student|dataset|corpus|preset|variant|tokenizer)"
    r"(?:-(?:name|type|id|class|tag))*"
)
_SIZES = frozenset({Meaning.WIDTH, Meaning.DEPTH, Meaning.BATCH, Meaning.SEQUENCE, Meaning.SIDE, Meaning.EXPONENT})
_DRAWS = frozenset({"choice", "choices", "sample", "randint", "randrange", "integers"})
# Calls through which a parameter is followed.
_DEEPEST = 4


@dataclass(frozen=True)
class Declared:
    """What these files declare together, the script's own first."""

    surveys: Sequence[Survey] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Each spelling of an option, and its longest one, under which it is compared."""
    switches: Collection[str] = ()
    """Options without a value."""
    several: Collection[str] = ()
    """Options that take several words."""
    listed: Collection[str] = ()
    """Plain names of options whose values the parser lists."""
    indexing: Collection[str] = ()
    """Plain names of options and variables by which the script chooses from a list."""
    compared: Collection[str] = ()
    """Plain names of what decides what the script does."""
    typed: Mapping[str, bool] = field(default_factory=dict)
    """Plain name of an option, or of what is annotated -> whether it is declared to be a whole number."""
    draws: bool = False
    """Whether it draws sizes at random, so that they follow its seed."""
    positional: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, surveys: Sequence[Survey]) -> Declared:
        """What these surveys show."""
        options = [option for one in reversed(surveys) for option in one.options]
        return cls(
            surveys,
            names={name: max(option.names, key=len) for option in options for name in option.names},
            switches={name for option in options if option.switch for name in option.names},
            several={name for option in options if option.several for name in option.names},
            listed={plain(name) for option in options if option.listed for name in option.names},
            indexing={plain(name) for name in _indexing(surveys)},
            compared=frozenset(map(plain, _compared(surveys))),
            typed={
                **{plain(name): option.whole for option in options for name in option.names},
                **{plain(name): whole for one in surveys for name, whole in one.annotated.items()},
            },
            draws=any(_is_drawn(value) for _, value in _sizes(surveys)),
            positional=positional_names(surveys),
        )

    def decides(self, name: str) -> bool:
        """Whether another value of this name, which says that it is harmless, may be other work."""
        short = plain(name)
        draws = self.draws and bool(_NUMBERS.fullmatch(short))
        return draws or short in self.compared or short in self.indexing or self._is_size(short)

    def name_of(self, spelling: str) -> str:
        """The name under which an option is compared, which may be given by its beginning as argparse takes it."""
        if spelling in self.names or len(spelling) < 2:
            return self.names.get(spelling, spelling)
        meant = {name for option, name in self.names.items() if option.startswith(spelling)}
        return meant.pop() if len(meant) == 1 else spelling

    def chosen(self, name: str, text: str) -> tuple[str, str] | None:
        """Name and value of a setting that chooses what is done, in spite of its name; None for another."""
        short = plain(name)
        decides = short in self.listed or short in self.compared
        if decides and meaning(short) is Meaning.OUTPUT and _MAY_CHOOSE.fullmatch(short):
            return f"{CHOSEN}{short}", text
        # Places in a list are no quantities, so they are words.
        is_index = short in self.indexing or (self.draws and NUMBER.match(text))
        if is_index and _NUMBERS.fullmatch(short):
            return f"{CHOSEN}{short}", f"{NUMBERED}{text}"
        if short in self.compared and _MAY_BE_CASE.fullmatch(short):
            return f"{CHOSEN}{short}", f"{NUMBERED}{text}"
        if self._is_size(short) or (short not in self.typed and is_size(short, text)):
            return f"{CHOSEN}{short}", text
        return None

    def _is_size(self, short: str) -> bool:
        """Whether this option has the name of a factor and is none, as it is declared to be a whole number."""
        return self.typed.get(short, False) and may_be_size(short)


def _compared(surveys: Sequence[Survey]) -> set[str]:
    """The names of what decides what a script does: what is compared or looked up, or names a network, what that was assigned
    from, and what stands for a parameter for which that is so, as `args.exp` in `get_config(args.exp)`."""
    found = {name for one in surveys for name in one.compared}
    for one in surveys:
        works = (value for name, value, _ in one.named if _OF_WORK.fullmatch(plain(name)))
        found.update(name for value in works for name in names_in(value, one.aliases))
    within: dict[str, set[str]] = {}
    for function, names in (pair for one in surveys for pair in one.compared_in.items()):
        within.setdefault(function, set()).update(names)
    passed = list(_passed(surveys))
    for _ in range(_DEEPEST):
        for function, parameter, name, caller in passed:
            if parameter in within.get(function, ()):
                (found if caller is None else within.setdefault(caller, set())).add(name)
        for one in surveys:
            found.update(_assigned_from(one, found))
    # What no code of these calls is called by a parser of the command: its parameters are the options.
    called = {function for function, *_ in passed}
    return found.union(*(names for function, names in within.items() if function not in called))


def _passed(surveys: Sequence[Survey]) -> Iterator[tuple[str, str, str, str | None]]:
    """(function, parameter, name that it is given, the calling function if that name is a parameter of it) of calls of the
    script's own functions and classes."""
    parameters = {function: names for one in reversed(surveys) for function, names in one.parameters.items()}
    calls = [(one.aliases, call) for one in surveys for call in one.calls if call.last in parameters]
    for aliases, call in calls:
        caller = next((scope for scope in reversed(call.scopes) if scope != "__init__"), "")
        by_name = [(part.arg, part.value) for part in call.node.keywords if part.arg is not None]
        for parameter, value in (*zip(parameters[call.last], call.node.args, strict=False), *by_name):
            own = parameters.get(caller, ()) if isinstance(value, ast.Name) else ()
            yield from (
                (call.last, parameter, name, caller if name in own else None) for name in names_in(value, aliases)
            )


def _sizes(surveys: Sequence[Survey]) -> Iterator[tuple[Survey, ast.expr]]:
    """(file, expression) of what stands under the name of a size."""
    yield from ((one, value) for one in surveys for name, value, _ in one.named if meaning(plain(name)) in _SIZES)


def _is_drawn(value: ast.expr) -> bool:
    """Whether a size is drawn from whole numbers that are written out: `random.choice([64, 512])`, `rng.integers(1, 32)`."""
    calls = [one for one in ast.walk(value) if isinstance(one, ast.Call)]
    for call in (one for one in calls if getattr(one.func, "attr", getattr(one.func, "id", "")) in _DRAWS):
        parts = [one for part in call.args for one in (part.elts if isinstance(part, ast.List | ast.Tuple) else [part])]
        if len(parts) > 1 and all(isinstance(one, ast.Constant) and isinstance(one.value, int) for one in parts):
            return True
    return False


def _indexing(surveys: Sequence[Survey]) -> Iterator[str]:
    """What stands within the brackets of `WIDTHS[args.idx]`, what a size is computed from (`width = 64 * 2 ** args.idx`), and
    what either was assigned from: `i = int(os.environ["TASK"])`."""
    used = {name for one in surveys for name in one.indices}
    used.update(name for one, value in _sizes(surveys) for name in names_in(value, one.aliases))
    yield from used
    for one in surveys:
        yield from _assigned_from(one, used)


def _assigned_from(one: Survey, names: Collection[str]) -> list[str]:
    """The names that these are assigned from in a file, also with others: `row, column = divmod(task, 3)`."""
    alone = [value for name in one.values.keys() & names for value, _ in one.values[name]]
    together = [value for targets, value in one.unpacked if not set(targets).isdisjoint(names)]
    return [name for value in (*alone, *together) for name in names_in(value, one.aliases)]
