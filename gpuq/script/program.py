"""What a command runs behind its launchers: the script in `timeout 3600 srun -n 2 python -u train.py --lr 0.1`.

Understands launchers (`env`, `nice`, `srun`, `torchrun`, `uv run`, `docker run`, …), interpreters with their options, modules
that launch another program, and shell code that runs one command after `cd`, `source` and the like. What cannot be understood is
named by its digest, so that different code is never taken for the same work.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gpuq.script.options import pairs


class ProgramKind(StrEnum):
    """What the name of a program is."""

    SCRIPT = "script"
    """The absolute path of a file that an interpreter reads, or of a program."""
    MODULE = "module"
    """A module of Python; it may be one of the working folder."""
    CODE = "code"
    """`-c` or `-` for standard input, and the digest of the code."""
    COMMAND = "command"
    """A program that is looked up on PATH."""


@dataclass(frozen=True)
class Program:
    """What a command runs."""

    kind: ProgramKind
    name: str
    arguments: tuple[str, ...]
    """Those of the program."""
    cwd: str
    """Where it runs."""
    first: int | None
    """Where the arguments begin in the command's words; None where they are within a word: `sh -c "python train.py --lr 0.1"`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What the command sets for it."""
    launched: tuple[tuple[str, str], ...] = ()
    """(name, value) of the options of its launchers that change the work."""
    of: str = ""
    """A path on which the work of a command depends: a script that it is given, or the folder whose files say what it does."""


SCRIPT = re.compile(r"\.(py|pyc|ipynb|sh|bash|zsh|R|r|Rmd|jl|js|lua|pl|rb)$")
_PYTHON = re.compile(r"(python|pypy|ipython)[\d.]*t?")
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash"})
_OTHERS = frozenset({"Rscript", "julia", "node", "lua", "perl", "ruby"})
# Options of interpreters whose value is the next word.
OF_PYTHON = frozenset({"-W", "-X", "--check-hash-based-pycs"})
OF_SHELLS = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_OF_OTHERS = frozenset(
    {"-r", "-I", "-J", "-L", "-C", "--require", "--import", "--load", "--sysimage", "--procs", "--threads"}
)
# fmt: off
_LAUNCHERS = frozenset({
    "env", "nice", "ionice", "chrt", "taskset", "numactl", "nohup", "setsid", "stdbuf", "unbuffer", "timeout", "time", "flock",
    "sudo", "doas", "runuser", "gosu", "tini", "dumb-init", "xvfb-run", "dbus-run-session", "systemd-run", "systemd-inhibit",
    "cgexec", "exec", "command", "script", "proxychains", "proxychains4", "caffeinate", "srun", "mpirun", "mpiexec",
    "mpiexec.hydra", "orterun", "prun", "jsrun", "aprun", "ibrun", "horovodrun", "torchrun", "accelerate", "deepspeed",
    "fabric", "composer", "colossalai", "torchx", "uv", "uvx", "poetry", "pdm", "hatch", "pipenv", "pixi", "rye", "conda",
    "mamba", "micromamba", "pyenv", "mise", "direnv", "dotenv", "apptainer", "singularity", "docker", "podman", "nerdctl",
    "enroot", "shifter", "ch-run", "nsys", "ncu", "nvprof", "rocprof", "py-spy", "scalene", "viztracer", "kernprof", "coverage",
    "memray", "fil-profile", "pyinstrument", "mprof", "strace", "ltrace", "perf", "valgrind", "gdb", "cuda-gdb",
    "compute-sanitizer", "catchsegv", "cuda-memcheck", "ddtrace-run", "opentelemetry-instrument", "debugpy",
})
_LAUNCHING_MODULES = frozenset({
    "torch.distributed.run", "torch.distributed.launch", "torch.utils.bottleneck", "accelerate.commands.launch", "accelerate",
    "deepspeed", "deepspeed.launcher.runner", "horovod.runner", "mpi4py", "mpi4py.futures", "IPython", "cProfile", "profile",
    "pdb", "ipdb", "debugpy", "trace", "coverage", "scalene", "viztracer", "memray", "kernprof", "memory_profiler",
    "line_profiler", "pyinstrument", "runpy", "faulthandler", "colossalai.cli",
})
# Launchers whose own `-m` or `--module` names a module of Python.
_TAKE_MODULES = frozenset({
    "torchrun", "accelerate", "deepspeed", "coverage", "uv", "kernprof", "scalene", "viztracer", "memray", "pyinstrument",
})
# Words between a launcher and the program that it runs: `uv run`, `accelerate launch`, `docker exec`.
_SUBCOMMANDS = frozenset({"run", "exec", "launch", "record", "stat", "profile"})
# These do what a file of the folder says: the same words mean other work in another one.
_BY_FOLDER = frozenset({
    "make", "gmake", "cmake", "ninja", "just", "task", "invoke", "inv", "nox", "tox", "doit", "rake", "snakemake", "nextflow",
    "npm", "yarn", "pnpm", "cargo", "bazel", "go", "poe", "scons", "waf", "dvc", "guild", "mlflow", "wandb",
})
# fmt: on
_TELLING = frozenset({"nproc-per-node", "num-processes", "num-gpus", "np", "nnodes", "num-machines", "mixed-precision"})
_NUMBER_LIKE = re.compile(r"[\d.,:+-]+[smhdkKMGTB%]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_DEEPEST = 8

# --- shell code ---

_REDIRECTION = re.compile(r"(?:^|(?<=\s))(?:\d|&)?>>?\s*(?:&\d|[^\s'\"|;&()<>]+)|(?:^|(?<=\s))\d?<\s*/dev/null(?=\s|$)")
_NOT_SIMPLE = re.compile(r"[$`#*?(){}]|<<|\|\||(?:^|[^&])&(?!&)")
# fmt: off
_SETTING_UP = frozenset({
    "cd", "source", ".", "export", "set", "module", "ml", "ulimit", "umask", "echo", "printf", "date", "hostname", "pwd",
    "mkdir", "nvidia-smi", "sleep", "true", ":", "whoami", "uname",
})
# fmt: on
_ENVIRONMENTS = frozenset({"conda", "mamba", "micromamba", "spack", "pyenv"})
_READERS = frozenset({"tee", "cat", "grep", "tail", "head", "ts", "sed", "awk", "logger"})
_KEYWORDS = frozenset(
    {"for", "while", "until", "if", "case", "select", "function", "[", "[[", "!", "do", "then", "eval"}
)


def program(command: Sequence[str], cwd: str, *, stdin: str | None = None) -> Program:
    """What this command runs in the folder `cwd`; `stdin` is the text that it is given. Never raises."""
    words = tuple(command)
    if not words:
        return Program(ProgramKind.COMMAND, "", (), cwd, 0)
    found = _behind(words, 0, cwd, stdin, _DEEPEST)
    if found is None:
        found = _named(words, cwd)
    before = words[1 : found.first] if found.first is not None else ()
    own = tuple((name, value) for name, value in _launched(before) if name in _TELLING)
    return replace(found, launched=(*own, *found.launched)) if own else found


def _launched(words: Sequence[str]) -> list[tuple[str, str]]:
    return [(name.replace("_", "-").lower(), value) for name, value in pairs(words) if name and value]


def _behind(words: tuple[str, ...], start: int, cwd: str, stdin: str | None, deepest: int) -> Program | None:
    """What runs behind the word at `start`, an interpreter or launcher; None if it is neither, or shows nothing."""
    name = posixpath.basename(words[start]) if start < len(words) else ""
    if deepest <= 0:
        return None
    if _PYTHON.fullmatch(name) or name in _SHELLS or name in _OTHERS:
        return _interpreted(words, start, cwd, stdin, deepest)
    if name in _LAUNCHERS:
        return _launched_by(words, start + 1, cwd, stdin, deepest, takes_modules=name in _TAKE_MODULES)
    return None


def _interpreted(words: tuple[str, ...], start: int, cwd: str, stdin: str | None, deepest: int) -> Program | None:
    """The script, module or code that an interpreter is given."""
    name = posixpath.basename(words[start])
    is_python, is_shell = bool(_PYTHON.fullmatch(name)), name in _SHELLS
    of_code = "c" if is_python or is_shell else "eE"
    with_value = OF_PYTHON if is_python else OF_SHELLS if is_shell else _OF_OTHERS
    place, has_code = start + 1, False
    while place < len(words):
        word = words[place]
        if word == "--":
            place += 1
            break
        if word in ("-", "/dev/stdin") or not word.startswith(("-", "+")):
            break
        letters = "" if word.startswith(("--", "-W", "-X", "+")) else word[1:]
        if is_python and "m" in letters and "c" not in letters.partition("m")[0]:
            module, after = _value(letters.partition("m")[2], words, place)
            return _module(words, module, after, cwd, stdin, deepest)
        code = next((at for at, letter in enumerate(letters) if letter in of_code), None)
        if code is not None and not is_shell:
            text, after = _value(letters[code + 1 :], words, place)
            return Program(ProgramKind.CODE, f"-c {digest(text)}", words[after:], cwd, after)
        if is_shell and "s" in letters and not has_code and code is None:
            return _of_stdin(words, place + 1, cwd, stdin, is_shell=True, deepest=deepest)
        has_code = has_code or code is not None
        place += 2 if word in with_value else 1
        if not (is_python or is_shell) and place < len(words) and _NUMBER_LIKE.fullmatch(words[place]):
            place += 1  # `julia -t 4 train.jl`
    if place >= len(words) or words[place] in ("-", "/dev/stdin"):
        return _of_stdin(words, place + 1, cwd, stdin, is_shell=is_shell, deepest=deepest)
    if has_code:
        found = _of_code(words[place], cwd, deepest)
        named = f"-c {digest(words[place])}"
        return found or Program(ProgramKind.CODE, named, words[place + 1 :], cwd, place + 1)
    return Program(ProgramKind.SCRIPT, absolute(words[place], cwd), words[place + 1 :], cwd, place + 1)


def _value(rest: str, words: tuple[str, ...], place: int) -> tuple[str, int]:
    """(the value of the option at `place`: the rest of its word, or else the next word; where it ends)."""
    if rest:
        return rest, place + 1
    return (words[place + 1] if place + 1 < len(words) else ""), place + 2


def _module(
    words: tuple[str, ...], module: str, after: int, cwd: str, stdin: str | None, deepest: int
) -> Program | None:
    if module in _LAUNCHING_MODULES:
        found = _launched_by(words, after, cwd, stdin, deepest, takes_modules=True)
        if found is not None:
            return found
    return Program(ProgramKind.MODULE, module, words[after:], cwd, after)


def _of_stdin(
    words: tuple[str, ...], after: int, cwd: str, stdin: str | None, *, is_shell: bool, deepest: int
) -> Program | None:
    """A program on standard input has no name: its digest stands for it, so that another one is other work."""
    if stdin is None:
        return None
    found = _of_code(stdin, cwd, deepest) if is_shell and after >= len(words) else None
    return found or Program(ProgramKind.CODE, f"- {digest(stdin)}", words[after:], cwd, after)


def _launched_by(
    words: tuple[str, ...], start: int, cwd: str, stdin: str | None, deepest: int, *, takes_modules: bool
) -> Program | None:
    """What a launcher starts, whose own options begin at `start`: an interpreter, a script, or else the likeliest word."""
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
        elif assigned := _ASSIGNMENT.fullmatch(word):
            env[assigned[1]] = assigned[2]
        elif takes_modules and before in ("-m", "--module"):
            found = Program(ProgramKind.MODULE, word, words[place + 1 :], cwd, place + 1)
        elif not word.startswith("-") and word not in _SUBCOMMANDS:
            found = _behind(words, place, cwd, stdin, deepest - 1)
            if found is None and SCRIPT.search(word):
                found = Program(ProgramKind.SCRIPT, absolute(word, cwd), words[place + 1 :], cwd, place + 1)
        if found is not None:
            return replace(found, env={**env, **found.env})
    likeliest = [
        place
        for place in range(start, len(words))
        if not words[place].startswith("-")
        and words[place] not in _SUBCOMMANDS
        and not _NUMBER_LIKE.fullmatch(words[place])
        and not _ASSIGNMENT.fullmatch(words[place])
    ]
    if not likeliest:
        return None
    # What follows an option may be its value: `srun -p gpu ./simulate`.
    place = next((one for one in likeliest if one == start or not words[one - 1].startswith("-")), likeliest[0])
    return replace(_named(words[place:], cwd), first=place + 1, env=env)


def _named(words: tuple[str, ...], cwd: str) -> Program:
    """The program that the first word names, and, where it is none that is known, the script or interpreter that it is given."""
    head, name = words[0], posixpath.basename(words[0]) or words[0]
    shown = name if "/" not in head else absolute(head, cwd)
    kind = ProgramKind.COMMAND if "/" not in head else ProgramKind.SCRIPT
    if name in _BY_FOLDER:
        folder = next((value for option, value in pairs(words[1:]) if option == "C" and value), ".")
        return Program(kind, shown, words[1:], cwd, 1, of=absolute(folder, cwd))
    for place in range(1, len(words)):
        base = posixpath.basename(words[place])
        follows_option = words[place - 1].startswith("-")
        is_interpreter = bool(_PYTHON.fullmatch(base)) or base in _SHELLS
        if is_interpreter and (found := _behind(words, place, cwd, None, _DEEPEST)) is not None:
            return Program(kind, shown, words[1:], cwd, 1, found.env, of=found.name)
        if SCRIPT.search(words[place]) and not words[place].startswith("-") and not follows_option:
            return Program(kind, shown, words[1:], cwd, 1, of=absolute(words[place], cwd))
    return Program(kind, shown, words[1:], cwd, 1)


def _of_code(code: str, cwd: str, deepest: int) -> Program | None:
    """The one command that shell code runs, apart from commands that only prepare it; None where it is not that simple."""
    env: dict[str, str] = {}
    found: Program | None = None
    for words in _simple_commands(code) or ():
        while words and (assigned := _ASSIGNMENT.fullmatch(words[0])):
            env[assigned[1]] = assigned[2]
            words = words[1:]  # noqa: PLW2901 - the rest of the same command
        if not words:
            continue
        if words[0] in _KEYWORDS or any(word.startswith(("$", "`")) for word in words[:1]):
            return None
        if words[0] == "cd":
            cwd = absolute(words[1], cwd) if len(words) == 2 else cwd
        elif words[0] == "export":
            env |= {one[1]: one[2] for word in words[1:] if (one := _ASSIGNMENT.fullmatch(word))}
        elif words[0] in _SETTING_UP or (
            words[0] in _ENVIRONMENTS and len(words) > 1 and words[1] in ("activate", "load")
        ):
            continue
        elif found is not None:
            return None
        else:
            found = _behind(tuple(words), 0, cwd, None, deepest - 1) or _named(tuple(words), cwd)
    return None if found is None else replace(found, first=None, env={**env, **found.env})


def _simple_commands(code: str) -> list[list[str]] | None:
    """The words of each command of simple shell code; None where it has variables, loops, pipes into programs, and the like."""
    lines = [line for line in code.replace("\\\n", " ").splitlines() if not line.lstrip().startswith("#")]
    lines = [_REDIRECTION.sub(" ", line) for line in lines]
    if any(_NOT_SIMPLE.search(line) for line in lines):
        return None
    commands: list[list[str]] = []
    try:
        for line in lines:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
            lexer.whitespace_split, lexer.commenters = True, ""
            words: list[str] = []
            commands.append(words)
            for part in lexer:
                if part in (";", "&&"):
                    commands.append(words := [])
                elif part == "|":
                    words = []  # what reads the output is not kept
                    if lexer.get_token() not in _READERS:
                        return None
                elif set(part) <= set(";&|<>"):
                    return None
                else:
                    words.append(part)
    except ValueError:  # a quote that does not end in its line
        return None
    return commands


def absolute(path: str, cwd: str) -> str:
    """The path from the root, with `..` resolved."""
    return posixpath.normpath(posixpath.join(cwd, path))


def digest(text: str) -> str:
    """Eight hexadecimal digits of the SHA-256 of the text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
