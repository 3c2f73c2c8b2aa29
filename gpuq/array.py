"""Arrays as the command and the API write them: the numbers of the tasks, `0-9:3,20`, and the placeholders in a command's words.

A placeholder is `{name}`, of a parameter or of `task`. `${name}` is the shell's, and `{{name}}` stands for the text `{name}`.
Standard library only: the command loads it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from gpuq.errors import BadInput

MOST_TASKS = 10_000
"""No array has more tasks."""
TASK = "task"
"""The placeholder for the number of the task."""
TASK_VARIABLES = ("GPUQ_ARRAY_TASK", "SLURM_ARRAY_TASK_ID")
"""Variables of a task that hold its number."""
PARAMETER = r"[A-Za-z_][A-Za-z0-9_.-]{0,99}"
"""The name of a parameter, as a regular expression."""

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_PLACEHOLDER = re.compile(rf"(?<![$]){{({{)?({PARAMETER})}}(?(1)}})")


# An array is asked for them again and again; but 10,000 numbers take 0.4 MB, and a request may have 10,000 arrays.
@lru_cache(maxsize=8)
def numbers(text: str) -> tuple[int, ...]:
    """The task numbers of `0-9:3,20`, ascending. Raises BadInput, before more than MOST_TASKS of them are counted out."""
    found: set[int] = set()
    count = 0
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise BadInput(
                f"`{text}` is no list of task numbers.", fix="Write 0-9, or with steps and single numbers 1,3,5-9:2."
            )
        first = int(match[1])
        last, step = int(match[2] or first), int(match[3] or 1)
        if last < first:
            raise BadInput(f"the range `{part}` runs backwards.", fix=f"Write {last}-{first}.")
        if step == 0:
            raise BadInput(f"the range `{part}` has steps of 0.", fix=f"Write {first}-{last}.")
        count += (last - first) // step + 1
        if count > MOST_TASKS:
            raise too_many(count)
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))


def too_many(count: int) -> BadInput:
    """The error for more tasks than an array may have."""
    return BadInput(f"an array of {count:,} tasks; {MOST_TASKS:,} is the limit.", fix="Submit it in several parts.")


def text_of(tasks: Sequence[int]) -> str:
    """Ascending task numbers in the shortest of these forms: `0-9:3,20`."""
    parts = []
    place = 0
    while place < len(tasks):
        end = place + 1
        step = tasks[end] - tasks[place] if end < len(tasks) else 1
        while end < len(tasks) and tasks[end] - tasks[end - 1] == step:
            end += 1
        if end - place == 1 or (end - place == 2 and step > 1):
            parts.append(str(tasks[place]))
            place += 1
        else:
            parts.append(f"{tasks[place]}-{tasks[end - 1]}" + (f":{step}" if step > 1 else ""))
            place = end
    return ",".join(parts)


def ranges(ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Ascending ids as (first, last) ranges."""
    found: list[tuple[int, int]] = []
    for each in ids:
        if found and found[-1][1] == each - 1:
            found[-1] = (found[-1][0], each)
        else:
            found.append((each, each))
    return tuple(found)


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ids of these ranges, each from a first to a last one, in as few ranges as there can be, in ascending order."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(set(ranges)):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def placeholders(words: Iterable[str]) -> set[str]:
    """The names of the placeholders in these words."""
    return {match[2] for word in words for match in _PLACEHOLDER.finditer(word) if not match[1]}


def filled(word: str, values: Mapping[str, str]) -> str:
    """The word with the values of `values` in place of their placeholders. Other names stay as they are."""

    def value(match: re.Match[str]) -> str:
        name = match[2]
        return f"{{{name}}}" if match[1] else values.get(name, match[0])

    return _PLACEHOLDER.sub(value, word)


def check_placeholders(words: Sequence[str], parameters: Collection[str]) -> None:
    """Raises BadInput for a placeholder without a parameter, and for a parameter that is in no word although others are."""
    used = placeholders(words)
    if not parameters:
        return
    for name in sorted(used - {*parameters, TASK}):
        raise BadInput(
            f"there is no parameter `{name}` for {{{name}}}.",
            fix=f"The parameters are {', '.join(parameters)}. Write {{{{{name}}}}} for the text {{{name}}} itself.",
        )
    unused = [name for name in parameters if name not in used]
    if used & set(parameters) and unused:
        raise BadInput(
            f"no word of the command has {{{unused[0]}}}.",
            fix=f"Write {{{unused[0]}}} where its value belongs, or leave the parameter out.",
        )
