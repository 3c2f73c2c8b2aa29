"""What a command runs behind its launchers: the script in `timeout 3600 srun -n 2 python -u train.py --lr 0.1`.

Understands launchers (`env`, `nice`, `srun`, `torchrun`, `uv run`, `docker run`, …), interpreters with their options, modules
that launch another program, and shell code that runs one command after `cd`, `source` and the like. What cannot be understood is
named by its digest, so that different code is never taken for the same work.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gpuq.script.containers import ENVIRONMENT, Container, container, container_by_options, first_value, value_of
from gpuq.script.digests import short_digest
from gpuq.script.inputs import NUMBER_IN_NAME
from gpuq.script.interpreters import PYTHON, SHELLS, Source, given_to
from gpuq.script.launchers import (
    ALSO_TO_FOLDER,
    BY_FOLDER,
    FILES_OF_WORK,
    FOLDERS_OF_WORK,
    LAUNCHERS,
    LAUNCHING_MODULES,
    SUBCOMMANDS,
    SWITCH,
    TAKE_MODULES,
    TO_FOLDER,
    said,
)
from gpuq.script.meaning import Meaning, meaning, plain
from gpuq.script.options import pairs
from gpuq.script.shell import ASSIGNMENT, absolute, only_command


class ProgramKind(StrEnum):
    """What the name of a program is."""

    SCRIPT = "script"
    """The absolute path of a file that an interpreter reads, or of a program."""
    MODULE = "module"
    """A module of Python; it may be one of the working folder."""
    CODE = "code"
    """`-c` or `-` for standard input, and the digest of the code."""
    COMMAND = "command"
    """A program that is looked up on PATH, or one of a container's image."""


@dataclass(frozen=True)
class Program:
    """What a command runs."""

    kind: ProgramKind
    name: str
    arguments: tuple[str, ...]
    """Those of the program."""
    cwd: str | None
    """The folder of the host in which it runs; None for one of a container's image."""
    first: int | None
    """Where the arguments begin in the command's words; None where they are within a word: `sh -c "python train.py --lr 0.1"`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What the command sets for it."""
    launched: tuple[tuple[str, str], ...] = ()
    """(name, value) of the options of its launchers that are part of what it is."""
    around: tuple[str, ...] = ()
    """What else its launchers, its container and files that are read before it say of its settings, as words `--name=value`."""
    of: str = ""
    """What else its work depends on: a script or an input file that it is given, the folder whose files say what it does, or the
    image of its container."""
    files: tuple[str, ...] = ()
    """Absolute paths of files, apart from a script or module that it is, that say what it does; not all of them need exist."""


SCRIPT = re.compile(r"\.(py|pyc|ipynb|sh|bash|zsh|R|r|Rmd|jl|js|lua|pl|rb)$")
_TELLING = frozenset({"nproc-per-node", "num-processes", "num-gpus", "np", "nnodes", "num-machines", "mixed-precision"})
_DEEPEST = 8
# What a command starts is named by one of its first words. Each may be that of a launcher, which looks through those behind it.
_MOST_WORDS = 256

_NUMBER_LIKE = re.compile(r"[\d.,:+-]+[smhdkKMGTB%]*")
# An input file by its look. What a configuration file holds is read as settings.
_CONFIG = re.compile(r"\.(json|toml|ya?ml|ini|cfg)$")
_FILE = re.compile(r"(?!.*://)(?!.*\.(?:json|toml|ya?ml|ini|cfg)$)(?:[^\s/]*/\S*|[^\s/]*[\w-]\.[A-Za-z]\w*)")
# What options of these meanings hold is compared as a setting, or is no part of the work.
_NO_INPUT = frozenset({Meaning.CHOICE, Meaning.OUTPUT, Meaning.HARMLESS, Meaning.PRIVATE})


def program(command: Sequence[str], cwd: str, *, stdin: str | None = None) -> Program:
    """What this command runs in the folder `cwd`; `stdin` is the text that it is given. Never raises."""
    words = tuple(command)
    if not words:
        return Program(ProgramKind.COMMAND, "", (), cwd, 0)
    found = _run_by(words, cwd, stdin, _DEEPEST)
    before = words[1 : found.first] if found.first is not None else ()
    own = tuple((name, value) for name, value in _launched(before) if name in _TELLING)
    return replace(found, launched=(*own, *found.launched)) if own else found


def _run_by(words: tuple[str, ...], cwd: str, stdin: str | None, deepest: int) -> Program:
    """What these words run. Those behind the first `_MOST_WORDS` are arguments."""
    first, others = words[:_MOST_WORDS], words[_MOST_WORDS:]
    found = _behind(first, 0, cwd, stdin, deepest) or _named(first, cwd)
    return replace(found, arguments=(*found.arguments, *others)) if others and found.first is not None else found


def _launched(words: Sequence[str]) -> list[tuple[str, str]]:
    return [(name.replace("_", "-").lower(), value) for name, value in pairs(words) if name and value]


def _behind(words: tuple[str, ...], start: int, cwd: str, stdin: str | None, deepest: int) -> Program | None:
    """What runs behind the word at `start`, an interpreter or launcher; None if it is neither, or shows nothing."""
    name = posixpath.basename(words[start]) if start < len(words) else ""
    if deepest <= 0:
        return None
    if (box := container(name, words, start + 1, cwd)) is not None:
        return _contained(box, stdin, deepest)
    if name in LAUNCHERS:
        found = _launched_by(name, words, start + 1, cwd, stdin, deepest)
        box = None if found is None else container_by_options(name, words[start + 1 : found.first], cwd)
        return found if found is None or box is None else _on_host(found, box)
    return _interpreted(words, start, cwd, stdin, deepest)


def _interpreted(words: tuple[str, ...], start: int, cwd: str, stdin: str | None, deepest: int) -> Program | None:
    """The script, module or code that an interpreter is given; None where it is given nothing."""
    given = given_to(words, start)
    if given is None:
        return None
    source, text, after = given
    arguments, is_shell = words[after:], posixpath.basename(words[start]) in SHELLS
    if source is Source.FILE:
        return Program(ProgramKind.SCRIPT, absolute(text, cwd), arguments, cwd, after)
    if source is Source.MODULE:
        return _module(words, text, after, cwd, stdin, deepest)
    code = text if source is Source.CODE else stdin
    if code is None:
        return None
    # Arguments of code are values of variables in it.
    found = _of_code(code, cwd, deepest) if is_shell and (source is Source.CODE or not arguments) else None
    mark = "-c" if source is Source.CODE else "-"
    return found or Program(ProgramKind.CODE, f"{mark} {short_digest(code)}", arguments, cwd, after)


def _module(
    words: tuple[str, ...], module: str, after: int, cwd: str, stdin: str | None, deepest: int
) -> Program | None:
    if module == ENVIRONMENT and "--" in words[after:-1]:
        return _in_environment(words, after, cwd, stdin, deepest)
    if module in LAUNCHING_MODULES:
        found = _launched_by(module, words, after, cwd, stdin, deepest)
        if found is not None:
            return found
    return _given_script(Program(ProgramKind.MODULE, module, words[after:], cwd, after), cwd)


def _in_environment(words: tuple[str, ...], options: int, cwd: str, stdin: str | None, deepest: int) -> Program:
    """What runs behind gpuq's own `--module` and `--image`, which begin at `options` and end with `--`."""
    start = words.index("--", options) + 1
    found = _script_at(words, start, cwd, stdin, deepest) or replace(_named(words[start:], cwd), first=start + 1)
    box = container_by_options(ENVIRONMENT, words[options:start], cwd)
    return found if box is None else _on_host(found, box)


def _launched_by(
    launcher: str, words: tuple[str, ...], start: int, cwd: str, stdin: str | None, deepest: int
) -> Program | None:
    """What a launcher starts, whose own options begin at `start`: an interpreter, a script, or else the likeliest word."""
    takes_modules = launcher in TAKE_MODULES or launcher in LAUNCHING_MODULES
    to_folder, outside = (*TO_FOLDER, *ALSO_TO_FOLDER.get(launcher, ())), cwd
    env: dict[str, str] = {}
    for place in range(start, len(words)):
        word, before = words[place], words[place - 1]
        # `env -S "python train.py"`, as a first line of a script has it.
        split = (
            word[2:] if word.startswith("-S") and " " in word else word if before in ("-S", "--split-string") else None
        )
        found: Program | None = None
        if split is not None:
            found = _of_code(split, cwd, deepest - 1)
            found = None if found is None else replace(found, arguments=(*found.arguments, *words[place + 1 :]))
        elif (folder := value_of(to_folder, words, place)) is not None:
            cwd = absolute(folder, cwd)
        elif place > start and before in to_folder:
            continue
        elif assigned := ASSIGNMENT.fullmatch(word):
            env[assigned[1]] = assigned[2]
        elif takes_modules and before in ("-m", "--module"):
            found = _given_script(Program(ProgramKind.MODULE, word, words[place + 1 :], cwd, place + 1), cwd)
        elif not word.startswith("-") and word not in SUBCOMMANDS:
            found = _script_at(words, place, cwd, stdin, deepest)
        if found is not None:
            around = (*said(launcher, words[start:place]), *found.around)
            return replace(found, env={**env, **found.env}, around=around)
    found = _likeliest(words, start, cwd)
    if found is None:
        return None
    if launcher in BY_FOLDER and found.kind is ProgramKind.COMMAND and not found.files:
        found = _by_folder(found, _folder_of_work(words[start : found.first], outside, cwd), BY_FOLDER[launcher])
    return replace(found, env=env, around=said(launcher, words[start : (found.first or start + 1) - 1]))


def _script_at(words: tuple[str, ...], place: int, cwd: str, stdin: str | None, deepest: int) -> Program | None:
    """What runs behind the word at `place`, also if that is a script itself."""
    found = _behind(words, place, cwd, stdin, deepest - 1)
    if found is None and SCRIPT.search(words[place]):
        found = Program(ProgramKind.SCRIPT, absolute(words[place], cwd), words[place + 1 :], cwd, place + 1)
    return found


def _likeliest(words: tuple[str, ...], start: int, cwd: str) -> Program | None:
    """The word after a launcher that most likely names a program. What follows an option may be its value, as in
    `srun -p gpu ./simulate`."""
    likely = [
        place
        for place in range(start, len(words))
        if not words[place].startswith("-")
        and words[place] not in SUBCOMMANDS
        and not _NUMBER_LIKE.fullmatch(words[place])
        and not ASSIGNMENT.fullmatch(words[place])
    ]
    if not likely:
        return None
    alone = (one for one in likely if not words[one - 1].startswith("-") or SWITCH.fullmatch(words[one - 1]))
    place = likely[0] if likely[0] == start else next(alone, likely[0])
    return replace(_named(words[place:], cwd), first=place + 1)


def _contained(box: Container, stdin: str | None, deepest: int) -> Program:
    """What runs in a container, by its paths on the host where it has such."""
    words, start = box.words, box.start
    if start >= len(words) or words[start].startswith("-"):
        is_file = box.sees_host and "://" not in box.image
        image = absolute(box.image, box.cwd) if is_file else box.image
        kind = ProgramKind.SCRIPT if is_file else ProgramKind.COMMAND
        folder = box.outside(box.cwd)
        around = box.settings(box.cwd)
        return Program(kind, image, words[start:], folder, start, box.env, around=around, of=folder or "")
    found = _script_at(words, start, box.cwd, stdin, deepest)
    return _on_host(found or replace(_named(words[start:], box.cwd), first=start + 1), box)


def _on_host(found: Program, box: Container) -> Program:
    """The program with its paths on the host. What is in the image differs from one image to another."""

    def outside(path: str) -> str | None:
        return box.outside(path) or (path if box.sees_host else None)

    is_path = found.kind is ProgramKind.SCRIPT
    name = outside(found.name) if is_path else found.name
    inside = found.name if is_path else found.cwd or ""
    is_mounted = found.kind in (ProgramKind.SCRIPT, ProgramKind.MODULE) and box.outside(inside) is not None
    of = box.outside(found.of) or found.of
    return replace(
        found,
        kind=ProgramKind.COMMAND if name is None else found.kind,
        name=name or found.name,
        cwd=outside(found.cwd or ""),
        env={**box.env, **found.env},
        of=of if is_mounted else f"{of} {box.image}".strip(),
        around=(*box.settings(found.name if is_path else found.cwd or ""), *found.around),
        files=tuple(path for path in map(outside, found.files) if path),
    )


def _named(words: tuple[str, ...], cwd: str) -> Program:
    """The program that the first word names, with what says which work it does where it is none that is known."""
    head, name = words[0], posixpath.basename(words[0]) or words[0]
    kind, shown = (ProgramKind.COMMAND, name) if "/" not in head else (ProgramKind.SCRIPT, absolute(head, cwd))
    found = Program(kind, shown, words[1:], cwd, 1)
    if name in BY_FOLDER:
        return _by_folder(found, _folder_of_work(found.arguments, cwd, cwd), BY_FOLDER[name])
    for place in range(1, len(words)):
        base = posixpath.basename(words[place])
        if not PYTHON.fullmatch(base) and base not in SHELLS:
            continue
        inside = absolute(first_value(TO_FOLDER, words[1:place]) or ".", cwd)
        if (behind := _behind(words, place, inside, None, _DEEPEST)) is not None:
            files = (behind.name,) if behind.kind is ProgramKind.SCRIPT else ()
            return replace(found, env=behind.env, of=behind.name, files=files)
    given = _given_script(found, cwd)
    # A script that starts itself is one like those of interpreters: its arguments are settings.
    if given.of or SCRIPT.search(head):
        return given
    file = _input(found.arguments)
    if file is not None:
        return replace(found, of=_alike(file, cwd), files=(absolute(file, cwd),))
    # Such a program may read any file of the folder, unless it is one of it.
    return found if shown.startswith(f"{cwd}/") else replace(found, of=cwd)


def _by_folder(found: Program, folder: str, files: tuple[str, ...]) -> Program:
    """The program with the folder whose files say what it does, or those of them that its arguments name."""
    named = next((value for option, value in pairs(found.arguments) if option in FILES_OF_WORK and value), None)
    others = (value for _, value in _inputs(found.arguments) if value != named)
    target = next((value for value in others if _FILE.fullmatch(value) or _CONFIG.search(value)), None)
    inputs = [value for value in (named, target) if value is not None]
    of = ":".join([_alike(inputs[0], folder), *inputs[1:]]) if inputs else folder
    return replace(found, of=of, files=tuple(absolute(path, folder) for path in (*files, *inputs)))


def _folder_of_work(options: Sequence[str], outside: str, cwd: str) -> str:
    named = first_value(FOLDERS_OF_WORK, options)
    if named is None:
        return cwd
    folder = absolute(named, outside)
    return posixpath.dirname(folder) if _CONFIG.search(folder) else folder


def _given_script(found: Program, cwd: str) -> Program:
    """The program with the script or notebook among its arguments, if there is one. What follows an option may be its value:
    `jupyter nbconvert --execute a.ipynb`."""
    scripts = [(name, value) for name, value in _inputs(found.arguments) if SCRIPT.search(value)]
    path = next((value for name, value in sorted(scripts, key=lambda one: one[0] is not None)), None)
    return found if path is None else replace(found, of=absolute(path, cwd), files=(absolute(path, cwd),))


def _input(arguments: Sequence[str]) -> str | None:
    """The first argument that looks like an input file."""
    return next((value for _, value in _inputs(arguments) if _FILE.fullmatch(value)), None)


def _inputs(arguments: Sequence[str]) -> list[tuple[str | None, str]]:
    """(name, value) of the arguments that may be input files, by what is known of their names."""
    return [
        (name, value)
        for name, value in pairs(arguments)
        if value and not value.startswith("-") and (name is None or meaning(plain(name)) not in _NO_INPUT)
    ]


def _alike(path: str, cwd: str) -> str:
    """The path without its numbers, which tell parts of one data set apart, or repeated runs."""
    name, suffix = posixpath.splitext(absolute(path, cwd))
    return NUMBER_IN_NAME.sub("#", name) + suffix


def _of_code(code: str, cwd: str, deepest: int) -> Program | None:
    """The one command that shell code runs; None where the code is not that simple."""
    found = only_command(code, cwd)
    if found is None:
        return None
    runs = _run_by(found.words, found.cwd, None, deepest - 1)
    around = (*(f"--source={path}" for path in found.sourced), *runs.around)
    return replace(runs, first=None, env={**found.env, **runs.env}, around=around)
