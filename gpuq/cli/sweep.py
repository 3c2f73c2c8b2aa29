"""What --array, --grid and --sweep mean: the field `array` of a submission, and what can be read of all its tasks.

--array 0-99%8                        tasks 0 to 99, at most 8 at once
--grid lr=0.1,0.01 --grid seed=1..5   a task for each combination, the last one changes fastest
--sweep FILE                          a task for each row of CSV, JSON, JSON lines or YAML; - is stdin
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpuq import array
from gpuq.cli import capture
from gpuq.errors import BadInput

Row = Mapping[str, str]
_MOST_BYTES = 16 * 2**20
_NAME = re.compile(array.PARAMETER)
_SPAN = re.compile(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})(?:\.\.([0-9]{1,9}))?")
_SWEEP_FIX = "Write CSV with a line of names, a list of JSON or YAML objects, or one JSON object per line."


def field(options: argparse.Namespace) -> dict[str, Any] | None:
    """The field `array` of the submission; None for a single job. Raises BadInput."""
    if options.array is None and not options.grid and options.sweep is None:
        return None
    listed, at_once = _listed(options.array) if options.array is not None else ((), None)
    if not options.grid and options.sweep is None:
        if not listed:
            raise BadInput(
                f"--array `{options.array}` names no task.", fix="Write the numbers before it: --array 0-99%8."
            )
        return {"tasks": array.text_of(listed), **_limit(at_once)}
    found = grid_array(_grid(options.grid), _swept(options.sweep) if options.sweep is not None else [{}])
    if not listed:
        return {**found, **_limit(at_once)}
    count = len(array.numbers(found["tasks"]))
    if len(listed) != count:
        raise BadInput(
            f"--array names {len(listed):,} tasks, and there are {count:,} combinations of values.",
            fix=f"Leave the numbers out: --array %{at_once}." if at_once else "Leave --array out.",
        )
    return {**found, "tasks": array.text_of(listed), **_limit(at_once)}


def grid_array(grid: Mapping[str, Sequence[str]], rows: Sequence[Row] = ({},)) -> dict[str, Any]:
    """The field for a task for each combination, numbered from 0. Raises BadInput."""
    for name in grid:
        _check_name(name, "the grid")
    found = combinations(grid, rows)
    if not found:
        raise BadInput("the grid has no combination of values.", fix="Give each of its names at least one value.")
    params = {name: [row[name] for row in found] for name in found[0]}
    return {"tasks": array.text_of(range(len(found))), "params": params}


def task_values(found: Mapping[str, Any], place: int) -> dict[str, str]:
    """What the placeholders stand for in one task of this array; `place` counts its tasks from 0."""
    params = {name: values[place] for name, values in found.get("params", {}).items()}
    return {**params, array.TASK: str(array.numbers(found["tasks"])[place])}


def hints(
    command: capture.Command, folder: Path, found: Mapping[str, Any], env: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any] | None:
    """What can be read in the script that holds for every task of this array; None if there is nothing.

    It is read for the first task, and for each parameter with two other values; what differs is left out. That the script chooses
    by something from a list is kept with the value of the first task, so that the others get their own.
    """
    from gpuq.script.meaning import CHOSEN

    others = []
    for values in found.get("params", {}).values():
        different = [place for place, value in enumerate(values) if value != values[0]]
        others += [different[0], different[-1]] if different else []
    read: list[dict[str, Any]] = []
    for place in dict.fromkeys([0, *others]):
        filling = task_values(found, place)
        words = tuple(array.filled(word, filling) for word in command.words)
        variables = {**env, **filling, **dict.fromkeys(array.TASK_VARIABLES, filling[array.TASK])}
        read.append(capture.hints(replace(command, words=words), folder, variables) or {})
    kept = {name: _in_all([one.get(name) for one in read]) for name in read[0]}
    if chosen := {name: value for name, value in read[0].get("values", {}).items() if name.startswith(CHOSEN)}:
        kept["values"] = {**(kept["values"] or {}), **chosen}
        kept["given"] = sorted({*(kept.get("given") or ()), *(chosen.keys() & set(read[0].get("given", ())))})
    return {name: value for name, value in kept.items() if value} or None


def _in_all(values: Sequence[Any]) -> Any:
    """The value if all are equal; of dictionaries the entries that are in all of them."""
    first, *others = values
    if isinstance(first, dict):
        return {k: v for k, v in first.items() if all(isinstance(one, dict) and one.get(k) == v for one in others)}
    return first if all(one == first for one in others) else None


def combinations(grid: Mapping[str, Sequence[str]], rows: Sequence[Row]) -> list[Row]:
    """Each row with each combination of the grid's values; the last name of the grid changes fastest. Raises BadInput."""
    if both := sorted(grid.keys() & rows[0].keys()):
        raise BadInput(f"--grid and --sweep both give `{both[0]}`.", fix="Leave one of them out.")
    count = len(rows)
    for values in grid.values():
        count *= len(values)
    if count > array.MOST_TASKS:
        raise array.too_many(count)
    return [{**row, **dict(zip(grid, values, strict=True))} for row in rows for values in product(*grid.values())]


def _limit(at_once: int | None) -> dict[str, int]:
    return {} if at_once is None else {"at_once": at_once}


def _listed(text: str) -> tuple[tuple[int, ...], int | None]:
    """(task numbers, how many at once) of --array; no numbers for `%8` alone. Raises BadInput."""
    wanted, percent, limit = text.strip().partition("%")
    if percent and not (limit.isdecimal() and 1 <= int(limit) <= array.MOST_TASKS):
        raise BadInput(f"--array `{text}`: `%{limit}` is no number of tasks at once.", fix="Write --array 0-99%8.")
    try:
        return array.numbers(wanted) if wanted or not percent else (), int(limit) if percent else None
    except BadInput as error:
        raise BadInput(f"--array: {error.message}", fix=error.fix) from error


def _grid(texts: Iterable[str]) -> dict[str, list[str]]:
    """Name -> values of all --grid options. Raises BadInput."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        if not equals or not listed:
            raise BadInput(f"--grid `{text}` gives no values.", fix="Write --grid lr=0.1,0.01 or --grid seed=1..5.")
        _check_name(name, "--grid")
        if name in found:
            raise BadInput(f"--grid gives `{name}` twice.", fix=f"Write all values at once: --grid {name}=1,2,3.")
        found[name] = [value for part in next(csv.reader([listed])) for value in _span(part)]
        if len(found[name]) > array.MOST_TASKS:
            raise array.too_many(len(found[name]))
    return found


def _span(part: str) -> Iterator[str]:
    """The numbers of `1..5` or `0..100..25`, both ends included; any other text is itself."""
    match = _SPAN.fullmatch(part)
    if match is None:
        yield part
        return
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if last < first or step == 0:
        raise BadInput(f"--grid `{part}` names no numbers.", fix="Write 1..5, or with steps 0..100..25.")
    if (last - first) // step >= array.MOST_TASKS:
        raise array.too_many((last - first) // step + 1)
    yield from map(str, range(first, last + 1, step))


def _check_name(name: str, where: str) -> None:
    if not _NAME.fullmatch(name) or name == array.TASK:
        fix = "Names begin with a letter and have letters, digits and _ . - only; `task` is the number of the task."
        raise BadInput(f"{where}: `{name}` cannot be the name of a parameter.", fix=fix)


# --- files -----------------------------------------------------------------------------------------------------------


def _swept(name: str) -> list[Row]:
    """The rows of --sweep. Raises BadInput with the file's name."""
    text, suffix = _read(name)
    try:
        rows = _rows(text, suffix)
        for column in rows[0] if rows else ():
            _check_name(column, "its head")
    except BadInput as error:
        raise BadInput(
            f"--sweep {name}: {error.message}", fix=_SWEEP_FIX if error.fix == BadInput.fix else error.fix
        ) from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise BadInput(f"--sweep {name}: {error}.", fix=_SWEEP_FIX) from error
    if not rows:
        raise BadInput(f"--sweep {name} has no rows.", fix=_SWEEP_FIX)
    return rows


def _read(name: str) -> tuple[str, str]:
    """(text of the file, its suffix); of standard input no suffix. Raises BadInput."""
    try:
        if name == "-":
            if sys.stdin is None or sys.stdin.isatty():
                raise BadInput(
                    "--sweep - reads standard input, which is a terminal here.", fix="Pipe the rows into it."
                )
            raw, suffix = sys.stdin.buffer.read(_MOST_BYTES + 1), ""
        else:
            with Path(name).expanduser().open("rb") as file:
                raw, suffix = file.read(_MOST_BYTES + 1), Path(name).suffix.lower()
        if len(raw) > _MOST_BYTES:
            raise BadInput(f"--sweep {name} is larger than 16 MiB.", fix="Submit it in several parts.")
        if b"\0" in raw:
            raise BadInput(f"--sweep {name} is not a text.", fix=_SWEEP_FIX)
        return raw.decode("utf-8-sig"), suffix
    except OSError as error:
        raise BadInput(f"--sweep {name} cannot be read: {error.strerror}.", fix="Check the path.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"--sweep {name} is not UTF-8 text.", fix=_SWEEP_FIX) from error


def _rows(text: str, suffix: str) -> list[Row]:
    """The rows by their names. Raises BadInput, and ValueError for what is not in the format."""
    if suffix in {".yaml", ".yml"}:
        return _of_values(_yaml(text))
    start = text.lstrip()[:1]
    if start == "[" or suffix == ".json":
        return _of_values(json.loads(text))
    if start == "{" or suffix in {".jsonl", ".ndjson"}:
        return _of_values([_of_json(number, line) for number, line in _lines(text)])
    return _of_table(text)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, with their numbers."""
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _of_json(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number}, column {error.colno}: {error.msg}") from error


def _of_table(text: str) -> list[Row]:
    """The rows of CSV. No name of a parameter has a comma, a semicolon or a tab, so the head says which of them separates."""
    _, first = next(_lines(text), (0, ""))
    separator = next((sign for sign in ",;\t" if sign in first), ",")
    reader = csv.reader(text.splitlines(), strict=True, skipinitialspace=separator != "\t", delimiter=separator)
    head: list[str] = []
    rows: list[Row] = []
    for line in reader:
        if not line:
            continue
        if not head:
            head = line
        elif len(line) == len(head):
            rows.append(dict(zip(head, line, strict=True)))
        else:
            row = separator.join(line)
            raise BadInput(f"line {reader.line_num} has {len(line)} values, and the head {len(head)} names: {row}")
    if len(set(head)) < len(head):
        raise BadInput("its head has a name twice.")
    return rows


def _of_values(found: Any) -> list[Row]:
    """The rows of a list of objects, or of one object of lists, which is a grid. Raises BadInput."""
    if isinstance(found, Mapping):
        lists = {str(name): values if isinstance(values, list) else [values] for name, values in found.items()}
        return combinations({name: [_text(value) for value in values] for name, values in lists.items()}, [{}])
    if not isinstance(found, list) or not all(isinstance(one, Mapping) and one for one in found):
        raise BadInput("it is not a list of objects with names and values.")
    for row in found[1:]:
        if row.keys() != found[0].keys():
            raise BadInput(f"a row has {', '.join(map(str, row))}, and the first has {', '.join(map(str, found[0]))}.")
    return [{str(name): _text(row[name]) for name in found[0]} for row in found]


def _text(value: Any) -> str:
    """A value as a word of the command: texts as they are, all else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        fix = "pip install 'gpuq-daemon[yaml]', or write the rows as CSV or JSON."
        raise BadInput("PyYAML, which reads YAML, is not installed.", fix=fix) from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
