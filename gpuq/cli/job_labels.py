"""What names and explains a job in one cell of a table: its label and its reason.

The label is the script and the arguments in which jobs of that script differ; a name given with `--name` stands in place of
the script. Scripts of one name get as much of their folder as tells them apart (`mnist/main.py`, `imagenet/main.py`). The
reason is the rule that keeps a job waiting, or for one that failed the exit code and the exception.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.client import Record
from gpuq.messages.environment import of_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# Values of options longer than this are cut to the last part of their path.
_LONG_VALUE = 16
_NO_INPUT = "EOFError: EOF when reading a line"
_EXIT = re.compile(r"^ended with exit code (\d+)(?:, as `timeout` gives it)?(?:: )?")
_SIGNAL = re.compile(r"^ended by (signal \d+ \(\w+\))(?:: )?")
# `[enforce fail at alloc_cpu.cpp:117] . ` names a line of PyTorch's source and precedes the message.
_NOISE = re.compile(r"\[enforce fail at [^\]]*\]\s*\.?\s*")
_ALLOCATION = re.compile(r"(?:tried|trying) to allocate [\d.,]+\s?\w+", re.IGNORECASE)


# A site may show only a summary of other users' jobs, without the command.
_HIDDEN = ["(not shown)"]


def id_of(job: Mapping[str, Any]) -> str:
    """The id of a job as it is shown: of a task of an array as `42_3`."""
    return str(job["id"]) if job.get("array") is None else f"{job['array']}_{job['task']}"


def labels(jobs: Sequence[Record]) -> list[console.Cell]:
    """A label for each job, with shorter forms for narrow columns: long paths cut to their last part, then left out."""
    split = [split_command(_submitted(job)) for job in jobs]
    shown = _script_names({script for script, _ in split})
    own_names = [_own_name(job, script) for job, (script, _) in zip(jobs, split, strict=True)]
    heads = [own_name or shown[script] for own_name, (script, _) in zip(own_names, split, strict=True)]
    groups: dict[str, list[int]] = defaultdict(list)
    for number, head in enumerate(heads):
        groups[head].append(number)
    found: dict[int, console.Cell] = {}
    for head, numbers in groups.items():
        units = [list(_units(split[number][1])) for number in numbers]
        common = set(units[0]).intersection(*units[1:])
        equal = all(set(one) == common for one in units)
        named = own_names[numbers[0]] is not None
        for number, own in zip(numbers, units, strict=True):
            # If the jobs do not differ, all arguments are shown, but none behind a name that the submitter chose.
            kept = ([] if named else own) if equal else [unit for unit in own if unit not in common]
            plain = [unit for unit in kept if _shortened(unit) == unit]
            forms = (kept, [_shortened(unit) for unit in kept], plain or kept)
            found[number] = console.Cell.of(*(fmt.clean(" ".join((head, *arguments))) for arguments in forms))
    return [found[number] for number in range(len(jobs))]


def _submitted(job: Record) -> list[str]:
    """The command without what gpuq has put around it: modules, an image, and the folder of a copy of the work tree."""
    _, words = of_environment(job["command"] or _HIDDEN)
    if not job.get("snapshot"):
        return words
    in_copy = (word.partition(f"/{job['snapshot']}/")[2] for word in words)
    return [f"/{path}" if path else word for path, word in zip(in_copy, words, strict=True)]


def split_command(command: Sequence[str]) -> tuple[str, list[str]]:
    """(script, module or program of a command, its arguments)."""
    head, *rest = command
    if not head.rpartition("/")[2].startswith("python"):
        return head, rest
    for number, word in enumerate(rest):
        if word == "-m" and number + 1 < len(rest):
            return rest[number + 1], rest[number + 2 :]
        if word == "-c":
            return f"{head.rpartition('/')[2]} -c", rest[number + 1 :]
        if not word.startswith("-"):
            return word, rest[number + 1 :]
    return head, rest


def _own_name(job: Record, script: str) -> str | None:
    """The name that the submitter chose; None for one that gpuq took from the command."""
    name, program = job.get("name") or "", _submitted(job)[0].rpartition("/")[2]
    # `python` may have been resolved to `python3.12`.
    taken = name in (program, script.rpartition("/")[2]) or (name.startswith("python") and program.startswith("python"))
    return None if not name or taken else str(name)


def _script_names(scripts: set[str]) -> dict[str, str]:
    """The shortest end of each script's path that differs from all others."""
    found = {}
    for script in scripts:
        parts = script.split("/") if script.startswith("/") else [script]
        for count in range(1, len(parts) + 1):
            tail = "/".join(parts[-count:])
            if not any(other != script and f"/{other}".endswith(f"/{tail}") for other in scripts):
                break
        found[script] = tail
    return found


def _units(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments, an option joined with its value: `--lr 0.1` is one."""
    words = list(arguments)
    while words:
        word = words.pop(0)
        # A word such as `-3` is a value: no option begins with a digit.
        is_value = words and (not words[0].startswith("-") or words[0][1:2].isdigit())
        if word.startswith("-") and "=" not in word and is_value:
            yield f"{_quoted(word)} {_quoted(words.pop(0))}"
        else:
            yield _quoted(word)


def _quoted(word: str) -> str:
    return f"'{word}'" if not word or " " in word else word


def _shortened(unit: str) -> str:
    """`--data=…/imagenet` of `--data=/srv/sets/imagenet`."""
    for sign in (" ", "=", ""):
        option, found, value = unit.partition(sign) if sign else ("", "", unit)
        if (found or not sign) and len(value) > _LONG_VALUE and "/" in value.rstrip("/"):
            return f"{option}{found}…/{value.rstrip('/').rpartition('/')[2]}"
    return unit


# --- reasons ---------------------------------------------------------------------------------------------------------


def short_reason(job: Record) -> console.Cell:
    """The reason for a cell of a table, with a shorter form where there is one; empty for a job that completed."""
    text = fmt.clean(job.get("reason") or "")
    if job["state"] == "COMPLETED":
        return console.Cell("")
    if job["state"] == "FAILED":
        return console.Cell(_SIGNAL.sub(r"\1: ", _EXIT.sub(r"exit \1: ", text)).removesuffix(": "))
    if job["state"] == "OUT_OF_MEMORY":
        text = _NOISE.sub("", re.sub(r"^(host )?out of memory: ", "", text))
        allocation = _ALLOCATION.search(text)
        return console.Cell.of(text, *([allocation[0].lower()] if allocation else []))
    return console.Cell(text)


def full_reason(job: Record) -> str | None:
    """The reason without the exit code and the state, which are shown beside it; None if nothing is left."""
    if job["state"] == "COMPLETED" or not job.get("reason"):
        return None
    reason = _EXIT.sub("", fmt.clean(job["reason"]))
    return f"{reason}; a job's standard input is empty" if reason.endswith(_NO_INPUT) else reason or None
