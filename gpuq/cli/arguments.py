"""What all verbs share of argparse: the common options, errors with their fix, options that end at the script."""

from __future__ import annotations

import argparse
import copy
import os
import re
from collections.abc import Callable, Sequence

from gpuq.cli import console
from gpuq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_HELP_COLUMN = 28
_PAGE_LINES = 60


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Names an option's value once: `-n, --name NAME`."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class _WholeHelp(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, Parser)
        print(parser.format_help(whole=True), end="")
        parser.exit()


def _in_short(action: argparse.Action) -> argparse.Action:
    """The same with the first sentence of its help."""
    short = copy.copy(action)
    short.help = (action.help or "").partition(". ")[0].removesuffix(".")
    return short


class Parser(argparse.ArgumentParser):
    """An argument parser for one verb. Options are not abbreviated: a new option could change what an old script means."""

    def __init__(self, verb: str, summary: str, *, usage: str | None = None, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"gpuq {verb}",
            description=summary,
            usage=usage,
            epilog=epilog,
            allow_abbrev=False,
            add_help=False,
            # With a width: to find it itself, argparse's formatter would import shutil and three compressors.
            formatter_class=lambda prog: _HelpFormatter(
                prog, max_help_position=_HELP_COLUMN, width=min(100, console.terminal_width()) - 2
            ),
        )
        # Let argparse take `-5%` or `-1G` for a value, so that the check of the option itself can say what is wrong with it.
        self._negative_number_matcher = re.compile(r"-\.?\d")
        self._command: list[str] = []
        self._rare: set[argparse.Action] = set()
        self._of_every_verb = self.add_argument_group("with every verb")
        add = self._of_every_verb.add_argument
        add("-h", "--help", action="help", help="show this page")
        add("--help-all", action=_WholeHelp, nargs=0, help="explain every option in full, as its manual page")
        add("--json", action="store_true", help="print JSON, the same as the HTTP API's")
        address = "the gpuq to ask: http://HOST:PORT or unix:///PATH. Default: this user's."
        add("--host", metavar="URL", help=address)
        add("--no-color", action="store_true", help="no colour. NO_COLOR in the environment does the same.")

    def group(self, title: str, *, all_rare: bool = False) -> Callable[..., argparse.Action]:
        """`add_argument` of a new group of options, which `--help` shows in order.

        `--help` has a line for each option: its help up to the first full stop. Of an option with `rare=True` it has only the
        name, so that the help of a verb stays on one page; `--help-all` and the manual page have all of it.
        """
        added = self.add_argument_group(title)

        def add(*names: str, rare: bool = all_rare, **details: Any) -> argparse.Action:
            action = added.add_argument(*names, **details)
            if rare:
                self._rare.add(action)
            return action

        return add

    def help_groups(self) -> list[tuple[str, list[argparse.Action]]]:
        """(title, what is in it) of each group that holds something, those of every verb last."""
        own = [group for group in self._action_groups if group is not self._of_every_verb]
        listed = [*own, self._of_every_verb]
        return [(group.title or "", group._group_actions) for group in listed if group._group_actions]

    def format_help(self, *, whole: bool = False) -> str:
        """The page of `--help`; with `whole` that of `--help-all`."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, actions in self.help_groups():
            formatter.start_section(title)
            rare = [] if whole else [action for action in actions if action in self._rare]
            for action in actions:
                if action not in rare:
                    formatter.add_argument(action if whole else _in_short(action))
            if rare:
                names = ", ".join(max(action.option_strings, key=len) for action in rare)
                lines = console.wrapped(f"also {names}", formatter._width - 2)
                formatter.add_text("\n".join(lines))
            formatter.end_section()
        formatter.add_text(self.epilog)
        text = formatter.format_help()
        too_long = not whole and text.count("\n") > _PAGE_LINES
        return re.sub(r"\n\n(?=\S[^\n]*:\n)", "\n", text) if too_long else text  # no empty lines between groups

    def parse_args(self, args: Sequence[str], namespace: None = None) -> argparse.Namespace:  # type: ignore[override]
        """As argparse's, with arguments before and behind options: `cancel 3 --dry-run 4`. While a shell completes the line, this
        writes the completions instead and ends the process."""
        if "_ARGCOMPLETE" in os.environ:
            from gpuq.cli.completion import offer_options

            offer_options(self)
        found, left = self.parse_known_args(args, namespace)
        # Not at once: it formats the usage first, which every start of the command would pay for.
        return self.parse_intermixed_args(args) if left else found

    def error(self, message: str) -> NoReturn:
        """Raise BadInput with a suggestion, where argparse would print the usage and exit."""
        message = message.removeprefix("argument ")
        option, _, trouble = message.partition(": ")
        if trouble.startswith("expected one argument"):
            message = f"{option} needs a value"
        elif option == "the following arguments are required":
            message = f"`{self.prog}` needs {', '.join(map(self._named, trouble.split(', ')))}"
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")
        name = unknown[0].partition("=")[0]
        if name and not name.startswith("-") and any(action.dest == "id" for action in self._actions):
            named = 1 + sum(not word.startswith("-") for word in unknown)
            from gpuq.cli.quantities import several_ids

            raise several_ids(named)
        meant = self._meant(unknown)
        if self._command and name.startswith("-"):
            raise BadInput(
                f"`{self.prog}` has no option `{name}`.{meant}",
                fix=f"If it is the script's own, put it after the script{self._reordered(unknown)}.",
            )
        raise BadInput(f"{message}.{meant}", fix=f"`{self.prog} --help` shows what it takes.")

    def _named(self, argument: str) -> str:
        """A required argument, by the words it may be where these are few."""
        choices = next((one.choices for one in self._actions if one.dest == argument and one.choices), None)
        return f"one of {', '.join(choices)}" if choices else argument

    def _reordered(self, unknown: list[str]) -> str:
        """`: COMMAND` with the unknown options moved behind its script; empty if no word of it is a script."""
        script = next((i for i, word in enumerate(self._command) if word.endswith(".py")), None)
        if script is None or "--" in self._command:
            return ""
        words = [self._command[script], *unknown, *self._command[:script], *self._command[script + 1 :]]
        from shlex import join

        return f": {join(words)}"

    def _meant(self, unknown: list[str]) -> str:
        """What an unknown option is here, as a sentence with a space before it; empty if nothing is like it."""
        from gpuq.cli import other_queues

        name = unknown[0].partition("=")[0]
        known = other_queues.option(self.prog.removeprefix("gpuq "), name)
        of_slurm = self._command and name.startswith("-") and not known
        if of_slurm and (said := other_queues.of_sbatch([*unknown, *self._command])):
            return f" {said}"
        near = [known] if known else [f"`{option}`" for option in self._similar(name)]
        return f" Did you mean {' or '.join(near)}?" if near else ""

    def _similar(self, word: str) -> list[str]:
        """Up to three options that contain this word, else the most similar one."""
        from difflib import get_close_matches

        options = [option for option in self._option_string_actions if option.startswith("--")]
        if not word.startswith("--") or len(word) < len("--al"):
            return []
        holding = sorted((option for option in options if word[2:] in option), key=len)
        return holding[:3] or get_close_matches(word, options, n=1, cutoff=0.75)

    def split(self, words: list[str]) -> tuple[list[str], bool, list[str]]:
        """(our own options, whether `--` ended them, the command). The command begins at the first word that is no option.

        argparse would search the user's command for our options as well.
        """
        if "_ARGCOMPLETE" in os.environ:  # the command is any files; its options are its own
            self.add_argument("command", nargs=argparse.REMAINDER)
        index = 0
        while index < len(words) and words[index].startswith("-") and words[index] not in ("-", "--"):
            index += 2 if self._wants_next(words[index]) else 1
        verbatim = words[index : index + 1] == ["--"]
        self._command = words[index + 1 :] if verbatim else words[index:]
        return words[:index], verbatim, self._command

    def long_options(self) -> list[str]:
        """The long options of this verb, `--help` left out."""
        return [option for option in self._option_string_actions if option.startswith("--") and option != "--help"]

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


_IN_WORDS = "its name, @ (your last), @~1 (the one before)"


def add_ids(parser: Parser, *, optional: bool = False) -> None:
    """The jobs, as `gpuq.cli.job_ids` reads them."""
    parser.add_argument(
        "ids",
        nargs="*" if optional else "+",
        metavar="ID",
        help=f"jobs: 42, 42-50, tasks of an array 42_3-7, {_IN_WORDS}",
    )


def add_json_lines(parser: Parser, what: str) -> None:
    """`--json-lines` beside `--json`: `options.json` is `lines` then. `what`: one of the things that the verb lists."""
    option = f"print JSON, each {what} on a line of its own"
    parser.add_argument("--json-lines", "--jsonl", dest="json", action="store_const", const="lines", help=option)


def add_id(parser: Parser) -> None:
    """One job, as `gpuq.cli.job_ids` reads it."""
    parser.add_argument("id", metavar="ID", help=f"a job: its id, {_IN_WORDS}")
