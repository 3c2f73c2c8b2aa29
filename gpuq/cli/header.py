"""The options that a script brings along: lines `#GPUQ --gpus 2` at its head, and Slurm's `#SBATCH` where gpuq has the like.

They stand among the comments before the script's first command, as `sbatch` reads them. What is typed on the command line goes
before them, and `#GPUQ` before `#SBATCH`. A script with a line of `#SBATCH` gets Slurm's variables too.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from gpuq.cli import console, dependencies, device_options
from gpuq.cli.quantities import whole
from gpuq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from gpuq.cli.capture import Command

_HEAD_BYTES = 64 * 1024
_MARK = re.compile(r"#(GPUQ|SBATCH)\s+(.+)")
_SIGNAL = re.compile(r"(?:B:)?([A-Za-z]+[12]?|[0-9]+)(?:@([0-9]+))?")
_SLURMS_VARIABLE = re.compile(r"\$\{?(SLURM_\w+)(?!\w|:?[-=+])")
_NUMBERED = {"1": "HUP", "2": "INT", "10": "USR1", "12": "USR2", "15": "TERM"}
_GRES = re.compile(r"(?:gres[/:])?gpu(?:[:=](?![0-9]+$)([A-Za-z0-9_.-]+))?(?:[:=]([0-9]+))?")
_SOCKETS = re.compile(r"\(S:[^)]*\)")
# Slurm's words for a job that no time limit ends.
_NO_LIMIT = {"0", "UNLIMITED", "INFINITE"}


def options_of(script: str, text: str, parse: Callable[[list[str]], object]) -> list[str]:
    """The options in the head of the script of this name and text, as words for gpuq's parser.

    `parse` raises BadInput for words that are no options of gpuq. Notes which of Slurm's options have no effect. Raises
    BadInput with the line's number, also for what the job cannot do without.
    """
    own: list[str] = []
    slurms: list[str] = []
    ignored: list[str] = []
    for number, kind, line in _lines(text):
        try:
            words = shlex.split(line, comments=True)
            if kind == "GPUQ":
                parse(words)
                own += words
            else:
                found, unknown = translated(words)
                parse(found)
                slurms += words
                ignored += [f"{' '.join(unknown)} (line {number})"] if unknown else []
        except ValueError as error:
            raise BadInput(f"{script}, line {number}: {error}.", fix="Close the quotes.") from error
        except BadInput as error:
            fix = "`gpuq submit --help` lists the options." if kind == "GPUQ" else error.fix
            raise BadInput(f"{script}, line {number}: {error.message}", fix=fix) from error
    if ignored:
        console.note(f"gpuq: {script}: without effect here: {', '.join(ignored)}")
    try:
        # All lines together: GPUs of a host count as often as there are hosts.
        return [*translated(slurms)[0], *(["--slurm-env"] if slurms else []), *own]
    except BadInput as error:
        raise BadInput(f"{script}: {error.message}", fix=error.fix) from error


def text_of(script: Path) -> str:
    """The first 64 KiB of the script; empty for what cannot be read."""
    try:
        if not script.is_file():
            return ""
        with script.open("rb") as file:
            return file.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def slurms_variables(command: Command) -> set[str]:
    """The variables of Slurm that the words or the script of a shell read, but for those with a default: `${SLURM_JOB_ID:-0}`."""
    is_python = command.script is not None and command.script.suffix == ".py"
    script = command.stdin or (text_of(command.script) if command.script is not None and not is_python else "")
    return {match[1] for text in (*command.words, script) for match in _SLURMS_VARIABLE.finditer(text)}


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """(number, `GPUQ` or `SBATCH`, the rest) of each such line before the first that is no comment."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            return
        if match := _MARK.match(line):
            yield number, match[1], match[2]


def translated(words: list[str]) -> tuple[list[str], list[str]]:
    """(words for gpuq's parser, words without effect) of one line of `#SBATCH`. Raises BadInput."""
    values, unknown = _slurms_options().parse_known_args(words)
    hosts = _hosts(values.nodes, len(device_options.hosts("--nodelist", values.nodelist)))
    found = _variables(values.export, unknown)
    per_host = _tasks_per_host(values.ntasks, values.ntasks_per_node, hosts)
    type_, gpus = _gpus(values, int(hosts or "1"), per_host or 1, unknown)
    if values.time is not None and values.time.upper() in _NO_LIMIT:
        values.time = None
    found += [] if per_host is None else [f"--env=SLURM_NTASKS_PER_NODE={per_host}"]
    for option, value in (
        ("--name", values.job_name),
        ("--time", values.time),
        ("--chdir", values.chdir),
        ("--project", values.account),
        ("--gpus", gpus),
        ("--gpu-type", type_),
        ("--hosts", hosts),
        ("--nodelist", values.nodelist),
        ("--exclude", values.exclude),
        ("--constraint", values.constraint),
        ("--array", values.array),
        ("--priority", None if values.nice is None else str(-values.nice)),
        ("--begin", values.begin),
    ):
        found += [] if value is None else [f"{option}={value}"]
    found += [] if values.signal is None else [f"--signal={_signal(values.signal)}"]
    found += [] if values.dependency is None else dependencies.of_slurm(values.dependency)
    return found + [f"--{name}" for name in ("hold", "requeue", "exclusive") if getattr(values, name)], unknown


def _gpus(values: argparse.Namespace, hosts: int, tasks: int, unknown: list[str]) -> tuple[str | None, int | None]:
    """The type of the GPUs and how many they are on all hosts, where the options say so. With `tasks` on each host. Raises
    BadInput."""
    # The first that is given counts. Those of jobs name the GPUs only by their number, or `TYPE:NUMBER`.
    for name, prefix, factor in (
        ("gres", "", hosts),
        ("gpus", "gpu:", 1),
        ("gpus_per_node", "gpu:", hosts),
        ("tres_per_node", "", hosts),
        ("gpus_per_task", "gpu:", hosts * tasks),
        ("tres_per_task", "", hosts * tasks),
    ):
        option = f"--{name.replace('_', '-')}"
        words = _SOCKETS.sub("", getattr(values, name) or "").split(",")
        wanted = {word: _GRES.fullmatch(prefix + word) for word in words if word}
        unknown += [f"{option}={word}" for word, match in wanted.items() if match is None]
        matches = [match for match in wanted.values() if match is not None]
        if len(matches) > 1:
            raise BadInput(
                f"`{option}={','.join(words)}` asks for GPUs of several types.",
                fix="Name one type, or the number alone.",
            )
        if matches:
            return matches[0][1], int(matches[0][2] or "1") * factor
    return None, None


def _hosts(nodes: str | None, named: int) -> str | None:
    """On how many hosts it runs: as `--nodes` says, else on all that are named; None for one. Raises BadInput for a range, which
    leaves it open."""
    least, _, most = (nodes or str(max(1, named))).partition("-")
    if most not in {"", least}:
        raise BadInput(f"`--nodes={nodes}` leaves open on how many hosts it runs.", fix="Write one number.")
    return None if least == "1" and named < 2 else least


def _variables(export: str | None, unknown: list[str]) -> list[str]:
    """`--env` for each variable that `--export` sets, or names and is set here. `ALL` adds none to those that gpuq passes."""
    named = [] if export is None else [word for word in export.split(",") if word not in {"ALL", "NIL", ""}]
    if "NONE" in named:
        unknown.append("--export=NONE")
        return []
    return [f"--env={word}" for word in named if "=" in word or word in os.environ]


def _tasks_per_host(tasks: str | None, per_host: str | None, hosts: str | None) -> int | None:
    """How many tasks `srun` starts on each host; None if nothing says so. Raises BadInput."""
    count = whole("--ntasks-per-node", per_host, 1, 1024)
    all_tasks = whole("--ntasks", tasks, 1, 1024)
    if count is not None or all_tasks is None:
        return count
    if all_tasks % int(hosts or "1"):
        raise BadInput(
            f"`--ntasks={tasks}` cannot be divided evenly among {hosts} hosts.", fix="Use --ntasks-per-node."
        )
    return all_tasks // int(hosts or "1")


def _signal(text: str) -> str:
    """Ours for Slurm's `[B:]USR1[@60]`. Here each process that listens for the signal gets it, the script among them. Raises
    BadInput."""
    match = _SIGNAL.fullmatch(text)
    if match is None:
        raise BadInput(f"`--signal={text}` is more than gpuq can do.", fix="Write USR1@60: a signal, and seconds.")
    return f"{_NUMBERED.get(match[1], match[1])}@{match[2] or 60}"


class _SlurmsOptions(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message.removeprefix('argument ')}.", fix="Write it as sbatch takes it.")


def _slurms_options() -> argparse.ArgumentParser:
    """The options of `sbatch` that gpuq has, under another name perhaps, and those that it must not ignore."""
    parser = _SlurmsOptions(add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("--job-name", "-J")
    add("--time", "-t")
    add("--chdir", "-D")
    add("--account", "-A")
    add("--gpus", "-G")
    add("--gpus-per-node")
    add("--gpus-per-task")
    add("--gres")
    add("--tres-per-node")
    add("--tres-per-task")
    add("--nice", nargs="?", const=100, type=int)
    add("--hold", "-H", action="store_true")
    add("--requeue", action="store_true")
    add("--exclusive", nargs="?", const="yes")
    add("--array", "-a")
    add("--dependency", "-d")
    add("--begin", "-b")
    add("--nodes", "-N")
    add("--signal")
    add("--nodelist", "-w")
    add("--exclude", "-x")
    add("--constraint", "-C")
    add("--ntasks", "-n")
    add("--ntasks-per-node")
    add("--export")
    return parser
