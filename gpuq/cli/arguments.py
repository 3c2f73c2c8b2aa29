"""What all verbs share of argparse: the common options, errors with their fix, options that end at the script."""

from __future__ import annotations

import argparse
import re

from gpuq.cli.format import terminal_width
from gpuq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """An argument parser for one verb. Options are never guessed from a prefix: a new one would change old scripts."""

    def __init__(self, verb: str, summary: str, *, usage: str | None = None, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"gpuq {verb}",
            description=summary,
            usage=usage,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=_formatter,
        )
        # A value such as `-5%` or `-1G` is a value, so that the option's own check can say what is wrong with it.
        self._negative_number_matcher = re.compile(r"-\.?\d")
        self._command: list[str] = []
        self.add_argument("--json", action="store_true", help="print JSON, the same as the HTTP API's")
        self.add_argument(
            "--host", metavar="URL", help="http://HOST:PORT or unix:///PATH of a gpuq (default: this user's)"
        )
        self.add_argument(
            "--no-color", action="store_true", help="no colour; NO_COLOR in the environment does the same"
        )

    def error(self, message: str) -> NoReturn:
        """Raise BadInput instead of printing the whole usage."""
        message = message.removeprefix("argument ")
        option, _, trouble = message.partition(": ")
        if trouble.startswith("expected one argument"):
            message = f"{option} needs a value"
        elif option == "the following arguments are required":
            message = f"`{self.prog}` needs {trouble}"
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")
        near = self._like(unknown[0].split("=")[0])
        meant = f" Did you mean {' or '.join(f'`{option}`' for option in near)}?" if near else ""
        if self._command and unknown[0].startswith("-"):
            raise BadInput(
                f"`{self.prog}` has no option `{unknown[0]}`.{meant}",
                fix=f"If it is the script's own, put it after the script{self._reordered(unknown)}.",
            )
        raise BadInput(f"{message}.{meant}", fix=f"`{self.prog} --help` shows what it takes.")

    def _reordered(self, unknown: list[str]) -> str:
        """The command with the unknown options behind its script, where the script is plain to see."""
        place = next((i for i, word in enumerate(self._command) if word.endswith(".py")), None)
        if place is None or "--" in self._command:
            return ""
        words = [self._command[place], *unknown, *self._command[:place], *self._command[place + 1 :]]
        from shlex import join

        return f": {join(words)}"

    def _like(self, word: str) -> list[str]:
        """Options that hold this one's letters, else the one that looks most like it."""
        from difflib import get_close_matches

        options = [option for option in self._option_string_actions if option.startswith("--")]
        if not word.startswith("--") or len(word) < len("--al"):
            return []
        holding = sorted((option for option in options if word[2:] in option), key=len)
        return holding[:3] or get_close_matches(word, options, n=1, cutoff=0.75)

    def split(self, words: list[str]) -> tuple[list[str], bool, list[str]]:
        """Our own options, whether `--` ended them, and the command: everything from the first word that is no option.

        argparse would look for our options inside the user's command too.
        """
        own, verbatim, self._command = self._split(words)
        return own, verbatim, self._command

    def long_options(self) -> list[str]:
        """The long options of this verb, `--help` left out."""
        return [option for option in self._option_string_actions if option.startswith("--") and option != "--help"]

    def _split(self, words: list[str]) -> tuple[list[str], bool, list[str]]:
        index = 0
        while index < len(words):
            word = words[index]
            if word == "--":
                return words[:index], True, words[index + 1 :]
            if not word.startswith("-") or word == "-":
                return words[:index], False, words[index:]
            index += 2 if self._wants_next(word) else 1
        return words, False, []

    def _wants_next(self, word: str) -> bool:
        """Whether the value of option `word` is the next word."""
        if word.startswith("--"):
            return "=" not in word and self._takes_value(word)
        for position, letter in enumerate(word[1:], start=1):
            if self._takes_value(f"-{letter}"):
                return position == len(word) - 1
        return False

    def _takes_value(self, option: str) -> bool:
        return any(option in action.option_strings and action.nargs != 0 for action in self._actions)


def _formatter(prog: str) -> argparse.HelpFormatter:
    """argparse's own, told the width: to find it out itself it would import shutil and three compressors."""
    return argparse.RawDescriptionHelpFormatter(prog, width=min(100, terminal_width()) - 2)


def add_ids(parser: Parser, *, optional: bool = False) -> None:
    """The job ids, as `42`, `42-50` or `42,44`."""
    parser.add_argument("ids", nargs="*" if optional else "+", metavar="ID", help="job ids: 42, 42-50 or 42,44")


def add_id(parser: Parser) -> None:
    """One job id."""
    parser.add_argument("id", metavar="ID", help="a job id")


def one_id(word: str) -> int:
    """The single id in `word`. Raises BadInput."""
    from gpuq.cli.quantities import parse_ids

    ids = parse_ids([word])
    if len(ids) != 1:
        raise BadInput(f"`{word}` names {len(ids)} jobs, and this takes one.", fix="Give one id.")
    return ids[0]
