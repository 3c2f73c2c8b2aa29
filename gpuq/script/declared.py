"""What a script makes of the words of its command: the options that it declares, and what it uses of them to choose from a list.

`--run train` of a script whose `--run` is one of `test` and `train` is no name of a run, and `--idx 3` of one that takes
`WIDTHS[args.idx]` is another network than `--idx 0`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuq.script.meaning import CHOSEN, NUMBERED, plain
from gpuq.script.positional import positional_names
from gpuq.script.survey import Survey, names_in

# These say what is done, where a parser lists their values.
_MAY_CHOOSE = re.compile(r"o|run|job|work|exp|experiment|out|outputs?|name|tags?|results?|metrics|preds?|predictions?")
# Numbers of these names tell one of several runs from the others, unless they are the places of something in a list.
_NUMBERS = re.compile(
    r"(?:.*-)?(?:seed|idx|index|trial|task|array|rep|replicate|repetition|run|job|exp|experiment|id|no|nr)"
)
_MAY_BE_CASE = re.compile(
    r"(?:.*-)?(?:idx|index|trial|task|rep|replicate|repetition|run|exp|experiment)(?:-(?:id|idx|index|no|nr))?"
)


@dataclass(frozen=True)
class Declared:
    """What these files declare together, the script's own first."""

    surveys: Sequence[Survey] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Each spelling of an option, and its longest one, under which it is compared."""
    switches: Collection[str] = ()
    """Options without a value."""
    listed: Collection[str] = ()
    """Plain names of options whose values the parser lists."""
    indexing: Collection[str] = ()
    """Plain names of options and variables by which the script chooses from a list."""
    compared: Collection[str] = ()
    """Plain names of what decides what the script does."""
    positional: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, surveys: Sequence[Survey]) -> Declared:
        """What these surveys show."""
        options = [option for one in reversed(surveys) for option in one.options]
        return cls(
            surveys,
            names={name: max(option.names, key=len) for option in options for name in option.names},
            switches={name for option in options if option.switch for name in option.names},
            listed={plain(name) for option in options if option.listed for name in option.names},
            indexing={plain(name) for name in _indexing(surveys)},
            compared={plain(name) for one in surveys for name in one.compared},
            positional=positional_names(surveys),
        )

    def name_of(self, spelling: str) -> str:
        """The name under which an option is compared, which may be given by its beginning as argparse takes it."""
        if spelling in self.names or len(spelling) < 2:
            return self.names.get(spelling, spelling)
        meant = {name for option, name in self.names.items() if option.startswith(spelling)}
        return meant.pop() if len(meant) == 1 else spelling

    def chosen(self, name: str, text: str) -> tuple[str, str] | None:
        """Name and value of a setting that chooses what is done, in spite of its name; None for another."""
        short = plain(name)
        if (short in self.listed or short in self.compared) and _MAY_CHOOSE.fullmatch(short):
            return f"{CHOSEN}{short}", text
        # Places in a list are no quantities, so they are words.
        if short in self.indexing and _NUMBERS.fullmatch(short):
            return f"{CHOSEN}{short}", f"{NUMBERED}{text}"
        if short in self.compared and _MAY_BE_CASE.fullmatch(short):
            return f"{CHOSEN}{short}", f"{NUMBERED}{text}"
        return None


def _indexing(surveys: Sequence[Survey]) -> Iterator[str]:
    """What stands within the brackets of `WIDTHS[args.idx]`, and what that was assigned from: `i = int(os.environ["TASK"])`."""
    used = {name for one in surveys for name in one.indices}
    yield from used
    for one in surveys:
        for name in used & one.values.keys():
            for value, _ in one.values[name]:
                yield from names_in(value, one.aliases)
