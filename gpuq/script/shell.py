"""The one command that simple shell code runs: `python train.py` in `cd x && set -e; (python train.py || exit 1) | tee log`.

Commands that only prepare it, or read its output, are passed over. Code with loops, conditions, substitutions, several
programs, or a variable that may hold several words is not simple.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
# fmt: off
_SETTING_UP = frozenset({
    "cd", "source", ".", "export", "set", "module", "ml", "ulimit", "umask", "echo", "printf", "date", "hostname", "pwd",
    "mkdir", "nvidia-smi", "sleep", "true", ":", "whoami", "uname", "exit", "return",
})
# fmt: on
# Files that set up a shell, and say nothing of the job.
_OF_THE_SHELL = re.compile(
    r"(?:^|/)(?:activate|\.?(?:bash|zsh)rc|\.?(?:bash_)?profile|conda\.sh|mamba\.sh|setvars\.sh)$|^/(?:etc|usr|opt)/"
)
_ENVIRONMENTS = frozenset({"conda", "mamba", "micromamba", "spack", "pyenv"})
_READERS = frozenset({"tee", "cat", "grep", "tail", "head", "ts", "sed", "awk", "logger"})
_KEYWORDS = frozenset(
    {"for", "while", "until", "if", "case", "select", "function", "[", "[[", "!", "do", "then", "eval"}
)
_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r]|\\\n)+)
    |(?P<output>\d?>&\d|\d?>&-|(?:\d|&)?>>?\|?)
    |(?P<input>\d?<(?![<(&]))
    |(?P<operator>\n|;(?!;)|&&|\|\||\|&?|[()])
    |'(?P<single>[^']*)'
    |"(?P<double>(?:[^"\\]|\\.)*)"
    |\\(?P<escaped>.)
    |\$\{?(?P<variable>[A-Za-z_]\w*|[?\#$!])
    |(?P<plain>[^\s'"\\$`;&|<>()]+)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED_VARIABLE = re.compile(r"\\([\"\\$`])|\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*|[?#!]))|([$`])")
_BRACES = re.compile(r"\{([^{}]*)\}")
# Simple code is far below these. Each word looks at all variables, each parenthesis keeps them, and their values may double with
# every line: `a=$a$a`.
_LONGEST, _LONGEST_PATH, _MOST_VARIABLES, _DEEPEST = 2**16, 4096, 100, 8


class ShellCommand(NamedTuple):
    """One command: its words, the folder in which it runs, and the variables that the code sets for it."""

    words: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    sourced: tuple[str, ...] = ()
    """Absolute paths of the files of variables that it reads before."""


def only_command(code: str, cwd: str) -> ShellCommand | None:
    """The command that this code runs in the folder `cwd`; None where it is not that simple."""
    if len(code) > _LONGEST:
        return None
    reader = _Reader(cwd)
    try:
        for part in _split(code):
            reader.take(part)
        reader.take(";")
    except _NotSimpleError:
        return None
    return reader.found


# `--seed $2`, `--seed="${2:-1}"`, `SEED=$2`.
_GIVEN_ON = re.compile(r"""(?:--([\w.-]+)[= ]|(?<![\w-])([A-Za-z_]\w*)=)\s*["']?\$\{?([1-9])(?!\d)""")


def named_positions(code: str, words: Sequence[str]) -> tuple[str, ...]:
    """The words that a shell script is given, each by the option or variable that it is in the script: `--seed=7` for the second
    word where it runs `train.py --seed $2`. Words that have options among them stay as they are."""
    if any(word.startswith("-") for word in words):
        return tuple(words)
    names = {int(place): option or variable for option, variable, place in reversed(_GIVEN_ON.findall(code))}
    return tuple(
        f"--{names[place]}={word}" if place in names else word
        for place, word in enumerate(words, start=1)
        if names.get(place) != "CUDA_VISIBLE_DEVICES"
    )


def absolute(path: str, cwd: str) -> str:
    """The path from the root, or from the home folder for `~/x`, with `..` resolved."""
    return posixpath.normpath(path if path.startswith("~/") or path == "~" else posixpath.join(cwd, path))


class _NotSimpleError(Exception):
    pass


@dataclass(frozen=True)
class _Part:
    """A part of a word: text, or the name of a variable."""

    text: str
    is_variable: bool = False
    is_quoted: bool = False


_Word = list[_Part]


def _split(code: str) -> Iterator[str | _Word]:
    """The operators (text) and words (lists of parts) of the code. Redirected output is left out."""
    place, word, target = 0, _Word(), ""
    while place < len(code):
        if code[place] == "#" and not word:
            end = code.find("\n", place)
            place = len(code) if end < 0 else end
            continue
        found = _TOKEN.match(code, place)
        if found is None:
            raise _NotSimpleError
        place = found.end()
        what = found.lastgroup or ""
        if what == "variable" and found[0].startswith("${"):
            if code[place : place + 1] != "}":
                raise _NotSimpleError
            place += 1
        if what in ("space", "output", "input", "operator"):
            if word:
                yield from _unless_target(word, target)
                word, target = [], ""
            if what in ("output", "input") and "&" not in found[0][1:]:
                target = what
            elif what == "operator":
                yield found[0]
        else:
            word += _parts(what, found[what])
    if word:
        yield from _unless_target(word, target)


def _unless_target(word: _Word, redirected: str) -> Iterator[_Word]:
    """The word, unless it is the file that output goes to. Input of a file is a part of the work, which has no name."""
    if redirected == "input" and "".join(part.text for part in word) != "/dev/null":
        raise _NotSimpleError
    if not redirected:
        yield word


def _parts(what: str, text: str) -> Iterator[_Part]:
    if what == "plain" and any("," in inside or ".." in inside for inside in _BRACES.findall(text)):
        raise _NotSimpleError
    if what != "double":
        yield _Part(text, is_variable=what == "variable", is_quoted=what not in ("plain", "variable"))
        return
    place = 0
    for found in _QUOTED_VARIABLE.finditer(text):
        if found[4]:
            raise _NotSimpleError
        yield _Part(text[place : found.start()] + (found[1] or ""), is_quoted=True)
        if name := found[2] or found[3]:
            yield _Part(name, is_variable=True, is_quoted=True)
        place = found.end()
    yield _Part(text[place:], is_quoted=True)


@dataclass
class _Reader:
    """Takes tokens in their order, and keeps the one command that is no preparation."""

    cwd: str
    found: ShellCommand | None = None
    _env: dict[str, str] = field(default_factory=dict)
    _sourced: list[str] = field(default_factory=list)
    _words: list[str] = field(default_factory=list)
    _length: int = 0
    """Of all words so far, with the values of their variables."""
    _before: str = ";"
    """The operator before these words."""
    _outside: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Folder and variables around each open parenthesis."""

    def take(self, part: str | _Word) -> None:
        if not isinstance(part, str):
            self._words += self._expanded(part)
        elif part == "(":
            if self._words or len(self._outside) == _DEEPEST:
                raise _NotSimpleError
            self._outside.append((self.cwd, dict(self._env)))
        elif part == ")":
            if not self._outside:
                raise _NotSimpleError
            self._end()
            self.cwd, self._env = self._outside.pop()
        else:
            self._end()
            self._before = part

    def _expanded(self, word: _Word) -> list[str]:
        known = {"HOME": "~", "PWD": self.cwd, **self._env}
        if len(word) == 1 and word[0].is_variable and not word[0].is_quoted:
            # Alone and unquoted, an unknown variable may hold several options.
            value = known.get(word[0].text, "$")
            if "$" in value:
                raise _NotSimpleError
            self._count((value,))
            return value.split()
        texts = [known.get(part.text, f"${part.text}") if part.is_variable else part.text for part in word]
        self._count(texts)
        return ["".join(texts)]

    def _count(self, texts: Sequence[str]) -> None:
        self._length += sum(map(len, texts))
        if self._length > _LONGEST:
            raise _NotSimpleError

    def _end(self) -> None:
        """The words so far are a command."""
        words = [word for word in self._words if word not in ("{", "}")]
        self._words = []
        while words and (assigned := ASSIGNMENT.fullmatch(words[0])):
            self._env[assigned[1]] = assigned[2]
            words = words[1:]
        if words:
            self._take_command(words)
        if len(self._env) > _MOST_VARIABLES or len(self.cwd) > _LONGEST_PATH:
            raise _NotSimpleError

    def _take_command(self, words: list[str]) -> None:
        first = words[0]
        sets_up = first in _SETTING_UP or (first in _ENVIRONMENTS and words[1:2] in (["activate"], ["load"]))
        if self._before.startswith("|"):
            # What reads the output, or runs only after a failure.
            if not (sets_up if self._before == "||" else first in _READERS):
                raise _NotSimpleError
        elif first in _KEYWORDS or first.startswith("$"):
            raise _NotSimpleError
        elif first == "cd":
            self.cwd = absolute(words[1], self.cwd) if len(words) == 2 else self.cwd
        elif first == "export":
            self._env |= {one[1]: one[2] for word in words[1:] if (one := ASSIGNMENT.fullmatch(word))}
        elif first in ("source", ".") and len(words) > 1:
            path = absolute(words[1], self.cwd)
            self._sourced += [] if _OF_THE_SHELL.search(path) else [path]
        elif not sets_up:
            if self.found is not None:
                raise _NotSimpleError
            self.found = ShellCommand(tuple(words), self.cwd, dict(self._env), tuple(self._sourced))
