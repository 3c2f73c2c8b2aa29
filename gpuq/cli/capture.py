"""What a submission takes along from where it was typed: the command with its interpreter, and what can be read of its program.

Raises BadInput for what could not start. `variables` has the environment, `git` the state of the work tree.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from gpuq.cli import git, piped
from gpuq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpuq.script.program import Program

# The longest string that execve accepts (MAX_ARG_STRLEN); `gpuq.messages.submission` has the same number.
MAX_TEXT = 131_072
# The limit of `gpuq.messages.submission`, less the interpreter that is put before a script.
MAX_WORDS = 4095
HASHED_BYTES = 16 * 2**20
# The program that runs a file which names none itself.
_PROGRAMS = {
    ".R": "Rscript",
    ".r": "Rscript",
    ".jl": "julia",
    ".py": "python",
    ".ipynb": "jupyter execute",
}
OPERATOR = re.compile(r"\d?>>?(?:&\d?)?|&>>?|<|\|\|?|&&?|;")
"""What a shell takes as a redirection, a pipe, or the start of a second command."""
# A line with such a sign is one for a shell, and so is one whose first word is no program.
_FOR_A_SHELL = re.compile(r"[|&;<>$()`\n]|^\s*(?:\.|source|cd|export|eval|exec|set|ulimit|module|if|for|while)\s")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=.*", re.DOTALL)
_NO_FOLDER = "/dev/null"
# The kernel reads this much of a `#!` line.
_FIRST_LINE_BYTES = 256


@dataclass(frozen=True)
class Command:
    """The words to execute, the script among them if there is one, and the text for standard input if any."""

    words: tuple[str, ...]
    script: Path | None = None
    stdin: str | None = None


def command(  # noqa: PLR0913 - what was typed, and where
    words: Sequence[str],
    *,
    verbatim: bool,
    python: str | None,
    environ: Mapping[str, str],
    cwd: Path,
    read: Callable[[], str] = piped.read,
    modules: bool = False,
) -> Command:
    """The command for the typed `words`. `verbatim`: they followed `--`; `read` returns a script from standard input. With
    `modules`, which may bring programs, the host looks for those that are named without a path.

    Raises BadInput for what could not start.
    """
    if not words:
        raise BadInput(
            "there is nothing to run.",
            fix="Name a script, as train.py, or a command after --, as -- CMD ARGS.",
        )
    _check_text(words)
    _check_first(words[0], cwd)
    first = words[0]

    def found(name: str) -> str:
        return name if modules and "/" not in name else _program(name, environ, cwd)

    if first == piped.HERE and not verbatim:
        # The script runs as the same file would.
        script, arguments = read(), words[1:]
        named = _interpreter_in(script)
        if named is not None:
            return Command((found(named[0]), *named[1:], "/dev/stdin", *arguments), stdin=script)
        return Command((interpreter(python, cwd / "-", environ, cwd, modules=modules), "-", *arguments), stdin=script)
    if not verbatim:
        path = absolute(first, cwd)
        if first.endswith(".py"):
            _check_script(path, cwd)
            return Command((interpreter(python, path, environ, cwd, modules=modules), str(path), *words[1:]), path)
        if path.is_file():
            if named := _needed_interpreter(path, first):
                return Command((found(named[0]), *named[1:], str(path), *words[1:]), path)
            words = [str(path), *words[1:]]
    full = (found(words[0]), *words[1:])
    stdin = read() if piped.reads_program(full) else None
    return Command(full, _script_of(words, cwd, stdin, environ), stdin)


def in_image(
    words: Sequence[str], *, verbatim: bool, python: str | None, cwd: Path, read: Callable[[], str] = piped.read
) -> Command:
    """As `command`, for words whose programs are those of an image: only a script is looked up here. Raises BadInput."""
    if not words:
        raise BadInput("there is nothing to run.", fix="Name a script, or a command of the image after --.")
    _check_text(words)
    _check_first(words[0], cwd)
    first, interpreter_there = words[0], python or "python3"
    if first == piped.HERE and not verbatim:
        script = read()
        named = _interpreter_in(script)
        before = (interpreter_there, "-") if named is None else (*named, "/dev/stdin")
        return Command((*before, *words[1:]), stdin=script)
    path = absolute(first, cwd)
    if not verbatim and first.endswith(".py"):
        _check_script(path, cwd)
        return Command((interpreter_there, str(path), *words[1:]), path)
    if not verbatim and path.is_file():
        return Command((*_needed_interpreter(path, first), str(path), *words[1:]), path)
    return Command(tuple(words), _script_of(words, cwd))


def interpreter(
    named: str | None, script: Path, environ: Mapping[str, str], cwd: Path, *, modules: bool = False
) -> str:
    """The Python for `script`: `named`, else the active environment's, else a `.venv` beside it or here, else PATH's, with
    `modules` that of the host.

    Links in the path are kept, because a virtual environment identifies itself by them.
    """
    if named and modules and "/" not in named:
        return named
    if named:
        path = absolute(named, cwd)
        if path.is_dir():
            raise BadInput(f"--python `{named}` is a folder.", fix=f"Name the interpreter in it: {named}/bin/python")
        if "/" in named and not path.exists():
            fix = "Name an interpreter, or leave --python out."
            raise BadInput(f"--python `{named}`: there is no such file.", fix=fix)
        if "/" not in named and shutil.which(named, path=environ.get("PATH")) is None:
            raise BadInput(f"--python `{named}` is not on PATH.", fix="Name an interpreter by its path.")
        return _program(named, environ, cwd)
    folders = [Path(environ[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)]
    for folder in (*folders, script.parent / ".venv", cwd / ".venv"):
        if os.access(folder / "bin" / "python", os.X_OK):
            return str(cwd / folder / "bin" / "python")
    if modules:
        return "python3"
    found = shutil.which("python3", path=environ.get("PATH"))
    if found is None:
        raise BadInput("there is no python3 on PATH.", fix="Activate an environment, or name one with --python.")
    return str(cwd / found)


def umask() -> int:
    """The umask of this process. The kernel only gives it in exchange for another; nothing is created in between."""
    found = os.umask(0o077)
    os.umask(found)
    return found


def absolute(typed: str, cwd: Path) -> Path:
    """The absolute path of a typed one, with `..` resolved, because the script's path identifies the kind of work."""
    path = cwd / Path(typed).expanduser()
    return path.parent.resolve() / path.name if ".." in path.parts else path


def forget() -> None:
    """Read files again: between two submissions of one process, as of a notebook, a script may be edited, and committed."""
    from gpuq.script.hints import forget as forget_surveys

    git.state.cache_clear()
    _program_of.cache_clear()
    _sha256.cache_clear()
    forget_surveys()


@cache
def _program_of(command: Command, folder: Path) -> Program:
    from gpuq.script.program import program

    return program(command.words, str(folder), stdin=command.stdin)


def work_sha256(command: Command, folder: Path, env: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """SHA-256 over what says what the command does with these variables: the first 16 MiB of its script, and small files that
    this imports or names, or that the command names. None if none of them can be read."""
    found = _program_of(command, folder)
    files = tuple(Path(path).expanduser() for path in found.files)
    searched = {**env, **found.env}.get("PYTHONPATH", "")
    return _sha256(command.script, files, Path(found.cwd or folder).expanduser(), searched)


@cache
def _sha256(script: Path | None, files: tuple[Path, ...], cwd: Path, python_path: str) -> str | None:
    from hashlib import sha256

    from gpuq.script.hints import program_files

    digest, has_read = sha256(), False
    if script is not None:
        try:
            with script.open("rb") as file:
                digest.update(file.read(HASHED_BYTES))
                has_read = True
        except OSError:
            return None
    programs = files if script is None else (script, *files)
    for path, content in program_files(programs, cwd, {"PYTHONPATH": python_path}):
        if path != script:
            digest.update(content)
            has_read = True
    return digest.hexdigest() if has_read else None


def hints(command: Command, folder: Path, env: Mapping[str, str] = MappingProxyType({})) -> dict[str, object] | None:
    """What can be read of the job in its program, its command's arguments and the variables `env`; None for nothing."""
    from gpuq.script.hints import hints as read

    found = _program_of(command, folder)
    # In a container without a known folder only the script's own is known, and without a script no file by a relative path.
    cwd = found.cwd or (_NO_FOLDER if command.script is None else str(command.script.parent))
    files = [Path(path).expanduser() for path in found.files]
    return read(command.script, found.arguments, Path(cwd).expanduser(), files, {**env, **found.env}, found.around)


def _program(name: str, environ: Mapping[str, str], cwd: Path) -> str:
    """The absolute path of a program. Raises BadInput."""
    if "/" in name:
        path = absolute(name, cwd)
        _check_script(path, cwd)
        _check_executable(path, name)
        return str(path)
    found = shutil.which(name, path=environ.get("PATH"))
    if found is not None:
        return str(cwd / found)
    if (cwd / name).is_dir():
        raise _is_folder(cwd / name)
    if (cwd / name).exists():
        raise BadInput(f"there is no command `{name}` on PATH.", fix=f"Write ./{name} for the file here.")
    raise BadInput(
        f"there is no script here and no command on PATH named `{name}`.{_nearest(cwd, name)}",
        fix=f"Check the name; you are in {cwd}.",
    )


def _interpreter_of(script: Path, typed: str) -> list[str] | None:
    """What the `#!` line of a file names; None without one, and for Python, whose interpreter `--python` chooses. Raises
    BadInput."""
    try:
        with script.open("rb") as file:
            line = file.readline(_FIRST_LINE_BYTES)
    except OSError:
        return None
    _check_first_line(line, str(script), typed)
    return piped.interpreter_in(line.decode("utf-8", "replace"))


def _interpreter_in(script: str) -> list[str] | None:
    """The same of a script on standard input. Raises BadInput."""
    named = piped.interpreter_in(script)
    if named is not None:
        _check_first_line(script.encode(), "the script on standard input", "FILE")
    return named


def _check_first_line(head: bytes, what: str, typed: str) -> None:
    """Raises BadInput for a `#!` line that ends as on Windows: the name of its program would have a character more."""
    line = head.partition(b"\n")[0]
    if line.startswith(b"#!") and line.endswith(b"\r"):
        sentence = f"the lines of {what} end as on Windows, so that nothing is found that runs it."
        raise BadInput(sentence, fix=rf"sed -i 's/\r$//' {typed} mends them.")


def _check_script(path: Path, cwd: Path) -> None:
    if path.is_dir():
        raise _is_folder(path)
    if path.is_fifo():  # to open it would wait for who writes to it
        raise BadInput(
            f"{path} is a pipe, which is empty when the job starts.", fix="Pipe the script: gpuq submit - < FILE"
        )
    try:
        with path.open("rb"):
            return
    except FileNotFoundError:
        pass
    except PermissionError:
        # A program may be executable without being readable; a Python script may not.
        if os.access(path, os.X_OK) and path.suffix != ".py":
            return
        raise BadInput(f"{path} cannot be read.", fix=f"chmod u+r {path}") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be opened: {error.strerror}.", fix="Check the path.") from None
    raise BadInput(
        f"there is no script {path}.{_nearest(path.parent, path.name)}", fix=f"Check the path; you are in {cwd}."
    )


def _is_folder(path: Path) -> BadInput:
    return BadInput(f"{path} is a folder, not a script.", fix="Name the script in it.")


def _needed_interpreter(script: Path, typed: str) -> list[str]:
    """What has to stand before a file that may not be executed, as sbatch puts it there; nothing before one that may. Raises
    BadInput for one that could not start."""
    named = None if os.access(script, os.X_OK) else _interpreter_of(script, typed)
    if named is None:
        _check_executable(script, typed)
    return named or []


def _check_executable(path: Path, typed: str) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(_FIRST_LINE_BYTES)
    except OSError:  # a program may be executable without being readable
        head = b"#!"
    _check_first_line(head, str(path), typed)
    if not head.startswith(b"#!") and b"\0" not in head:
        fix = f"Name its interpreter, as in -- {_PROGRAMS.get(path.suffix, 'bash')} {typed}"
        raise BadInput(f"{path} has no first line `#!`, which would say what runs it.", fix=fix)
    if not os.access(path, os.X_OK):
        raise BadInput(f"{path} is not executable.", fix=f"chmod +x {typed}, or name its interpreter after --")


def _check_first(word: str, cwd: Path) -> None:
    """Raises BadInput for a command that was quoted as a whole, and for a variable that a shell would set."""
    if absolute(word, cwd).exists():
        return
    if " " in word.strip():
        from shlex import quote

        needs_shell = _FOR_A_SHELL.search(word)
        fix = f"Let a shell run it: -- bash -c {quote(word)}" if needs_shell else f"Leave the quotes out: -- {word}"
        raise BadInput(f"`{word}` is one word, because of its quotes.", fix=fix)
    if found := _ASSIGNMENT.fullmatch(word):
        fix = f"Set variables by -e, before the command: -e {word} -- COMMAND"
        if found[1] == "CUDA_VISIBLE_DEVICES":
            fix = "Leave it out: gpuq gives each job its devices; --device names one."
        raise BadInput(f"`{word}` is no command; a shell would set a variable by it.", fix=fix)


def _script_of(
    words: Sequence[str], cwd: Path, stdin: str | None = None, environ: Mapping[str, str] = MappingProxyType({})
) -> Path | None:
    """The file that identifies the kind of work: the script or program that the command runs, also through launchers, or the
    module of Python that it names, where that is in the folder, its `src` or on `PYTHONPATH`."""
    from gpuq.script.program import ProgramKind, program
    from gpuq.script.source import python_path

    found = program(words, str(cwd), stdin=stdin)
    if found.kind is ProgramKind.SCRIPT:
        candidates = [Path(found.name).expanduser()]
    elif found.kind is ProgramKind.MODULE and found.cwd is not None:
        inside = Path(found.cwd)
        folders = (inside, *python_path({**environ, **found.env}, inside), inside / "src")
        modules = [above.joinpath(*found.name.split(".")) for above in folders]
        candidates = [path for one in modules for path in (one.with_suffix(".py"), one / "__main__.py")]
    else:
        return None
    return next((path for path in candidates if path.is_file()), None)


def _nearest(folder: Path, name: str) -> str:
    """` Did you mean train.py?`, if one of the first thousand files of the folder has a similar name."""
    from difflib import get_close_matches
    from itertools import islice

    try:
        with os.scandir(folder) as entries:
            files = (entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file())
            near = get_close_matches(name, list(islice(files, 1000)), n=1, cutoff=0.7)
    except OSError:
        return ""
    return f" Did you mean {near[0]}?" if near else ""


def _check_text(words: Sequence[str]) -> None:
    if len(words) > MAX_WORDS:
        sentence = f"the command has {len(words):,} words; {MAX_WORDS:,} is the limit."
        raise BadInput(sentence, fix="Pass the arguments in a file.")
    for number, word in enumerate(words, start=1):
        if not is_text(word):
            sentence = f"word {number} of the command is not valid UTF-8."
            raise BadInput(sentence, fix="Rename the file or pass the value in a file.")
        if len(word) > MAX_TEXT:
            raise BadInput(f"word {number} of the command is longer than 128 KiB.", fix="Pass the value in a file.")
        if not word and number == 1:
            raise BadInput("the command's name is empty.", fix="Name a script or a command.")


def is_text(value: str) -> bool:
    """Whether the text is valid UTF-8, which words of a command line need not be."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def current_folder() -> Path:
    """The working directory. Raises BadInput if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise BadInput("the folder you are in no longer exists.", fix="cd to one that does.") from None
