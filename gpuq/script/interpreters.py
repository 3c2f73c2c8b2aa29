"""What an interpreter runs by its own options: a file, a module, code, or its standard input."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash"})
PYTHON = re.compile(r"(python|pypy|ipython)[\d.]*t?")
STDIN_FILE = "/dev/stdin"
_INFORMATION = frozenset({"--help", "--version"})


class Source(StrEnum):
    """Where an interpreter takes its program from."""

    FILE = "file"
    MODULE = "module"
    CODE = "code"
    STDIN = "stdin"


class Given(NamedTuple):
    """What an interpreter runs."""

    source: Source
    text: str
    """The path, the name of the module, or the code; empty for standard input."""
    after: int
    """Where the arguments of the program begin in the words."""


@dataclass(frozen=True)
class _Language:
    """An interpreter that is no shell. An option is here if it has a value, with what the value is, None for nothing to run."""

    names: re.Pattern[str]
    letters: Mapping[str, Source | None]
    """By one letter. The value is the rest of the word, or else the next word."""
    words: Mapping[str, Source | None] = field(default_factory=dict)
    """By a whole word. The value is the next word."""
    information: frozenset[str] = _INFORMATION
    """Options with which nothing runs."""
    reads_input: bool = False
    """Whether it runs its standard input if it is given nothing."""


_CODE, _MODULE = Source.CODE, Source.MODULE
_LANGUAGES = (
    _Language(
        PYTHON,
        {"c": _CODE, "m": _MODULE, "W": None, "X": None},
        {"--check-hash-based-pycs": None},
        _INFORMATION | {"-h", "-?", "-V", "-VV", "--help-all", "--help-env", "--help-xoptions"},
        reads_input=True,
    ),
    _Language(
        re.compile(r"julia"),
        {"e": _CODE, "E": _CODE, **dict.fromkeys("tpJLCm")},
        {"--eval": _CODE, **dict.fromkeys(("--load", "--sysimage", "--procs", "--threads", "--machine-file"))},
    ),
    _Language(
        re.compile(r"node"), {"e": _CODE, **dict.fromkeys("rC")}, {"--eval": _CODE, "--require": None, "--import": None}
    ),
    _Language(re.compile(r"perl"), {"e": _CODE, "E": _CODE, **dict.fromkeys("IMm")}),
    _Language(re.compile(r"ruby"), {"e": _CODE, **dict.fromkeys("rIC")}),
    _Language(re.compile(r"Rscript|lua[\d.]*"), {"e": _CODE, "l": None}),
    _Language(re.compile(r"matlab|octave(-cli)?"), {}, {"-batch": _CODE, "-r": _CODE, "--eval": _CODE}),
)


def given_to(words: Sequence[str], start: int = 0) -> Given | None:
    """What the interpreter at `start` runs; None where it is none, or runs nothing."""
    name = posixpath.basename(words[start]) if start < len(words) else ""
    if name in SHELLS:
        return _given_to_shell(words, start + 1)
    language = next((one for one in _LANGUAGES if one.names.fullmatch(name)), None)
    return None if language is None else _given_to(language, words, start + 1)


def _given_to_shell(words: Sequence[str], place: int) -> Given | None:
    """Letters may be joined: in `-euo pipefail -c CODE` the `o` has the next word, and `c` the first one after the options."""
    letters = ""
    while place < len(words) and words[place].startswith(("-", "+")):
        word = words[place]
        place += 1
        if word in ("-", "--"):
            break
        if word in _INFORMATION:
            return None
        if word.startswith("--"):
            place += word in ("--rcfile", "--init-file")
        else:
            letters += word[1:] if word[0] == "-" else ""
            place += sum(word.count(letter) for letter in "oO")
    operand = words[place] if place < len(words) else None
    if "c" in letters:
        return None if operand is None else Given(Source.CODE, operand, place + 1)
    if "s" in letters or operand is None:
        return Given(Source.STDIN, "", place)
    return Given(Source.STDIN if operand == STDIN_FILE else Source.FILE, operand, place + 1)


def _given_to(language: _Language, words: Sequence[str], place: int) -> Given | None:
    while place < len(words):
        word = words[place]
        place += 1
        if word in ("-", STDIN_FILE):
            return Given(Source.STDIN, "", place)
        if not word.startswith("-"):
            return Given(Source.FILE, word, place)
        if word in language.information:
            return None
        option, value = _split(language, word)
        if option is None:
            continue
        if not value:
            value, place = (words[place] if place < len(words) else ""), place + 1
        source = {**language.letters, **language.words}[option]
        if source is not None:
            return Given(source, value, place)
    return Given(Source.STDIN, "", place) if language.reads_input else None


def _split(language: _Language, word: str) -> tuple[str | None, str]:
    """(the option of this word that has a value, None for none; the value as far as it is in this word)."""
    if word in language.words:
        return word, ""
    letters = "" if word.startswith("--") else word[1:]
    place = next((place for place, letter in enumerate(letters) if letter in language.letters), None)
    return (None, "") if place is None else (letters[place], letters[place + 1 :])
