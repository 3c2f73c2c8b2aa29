"""Manual pages of the command, written from the parsers of its verbs: `python .ci/packages/manual.py DIR`.

The build of the wheels runs this as a hook of hatchling, in an environment without gpuq's libraries: the command needs none.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parents[2]


class ManualHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the pages to a wheel, as `share/man/man1`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See hatchling. An editable installation has none: its parsers change under it."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="gpuq-man-")
        for page in write(Path(self._folder.name)):
            build_data["shared_data"][str(page)] = f"share/man/man1/{page.name}"

    def finalize(self, version: str, *_: Any) -> None:
        """See hatchling."""
        if version != "editable":
            self._folder.cleanup()


def write(folder: Path) -> list[Path]:
    """Write `gpuq.1` and a page for each verb; their paths."""
    sys.path.insert(0, str(ROOT))
    from gpuq import __version__
    from gpuq.cli.main import ALIASES, EXIT_CODES, VERBS

    folder.mkdir(parents=True, exist_ok=True)
    pages = {"gpuq.1": _main_page(__version__, VERBS, ALIASES, EXIT_CODES)}
    for verb, (module, summary) in VERBS.items():
        pages[f"gpuq-{verb}.1"] = _verb_page(__version__, verb, summary, parser_of(module))
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


class _Parser(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def parser_of(module: str) -> Any:
    """The parser of a verb, which the verb makes when it runs."""
    from gpuq.cli.arguments import Parser

    def stop(parser: Parser, *_: object) -> None:
        raise _Parser(parser)

    usual, Parser.parse_args = Parser.parse_args, stop  # type: ignore[assignment, method-assign]
    try:
        import_module(f"gpuq.cli.verbs.{module}").run([])
    except _Parser as found:
        return found.parser
    finally:
        Parser.parse_args = usual  # type: ignore[method-assign]
    raise AssertionError(f"{module} parses nothing")


def _main_page(version: str, verbs: dict[str, tuple[str, str]], aliases: dict[str, str], exit_codes: str) -> str:
    lines = _head("gpuq", version, "a queue for GPUs on which jobs share a GPU when the numbers allow it")
    lines += [".SH SYNOPSIS", ".B gpuq", "[\\-\\-host URL] [\\-\\-json] [\\-\\-no\\-color] VERB ..."]
    lines += [
        ".SH DESCRIPTION",
        "Queues jobs for GPUs, measures them, and lets two share a GPU only when the numbers allow it.",
        ".SH VERBS",
    ]
    for verb, (_, summary) in verbs.items():
        others = [alias for alias, name in aliases.items() if name == verb]
        also = f" (also {', '.join(others)})" if others else ""
        lines += [".TP", f".BR gpuq\\-{_escaped(verb)} (1)", _escaped(summary + also)]
    return "\n".join([*lines, ".SH EXIT STATUS", _escaped(exit_codes)]) + "\n"


def _verb_page(version: str, verb: str, summary: str, parser: Any) -> str:
    lines = _head(f"gpuq-{verb}", version, summary)
    usage = re.sub(r"^usage: ", "", parser.format_usage()).replace("\n       ", "\n")
    lines += [".SH SYNOPSIS", ".nf", *map(_escaped, usage.strip().splitlines()), ".fi"]
    lines += [".SH DESCRIPTION", _escaped(parser.description or summary)]
    for title, actions in parser.help_groups():
        lines.append(f".SH {_escaped(title.upper())}")
        for action in actions:
            names = ", ".join(action.option_strings) or action.metavar or action.dest
            value = "" if action.nargs == 0 or not action.option_strings else f" {_value(action)}"
            lines += [".TP", f".B {_escaped(names + value)}", _escaped(_sentence(action, parser.prog))]
    if parser.epilog:
        lines += [".SH NOTES", _escaped(parser.epilog.strip())]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR gpuq (1)"]) + "\n"


def _head(name: str, version: str, summary: str) -> list[str]:
    return [
        f'.TH {name.upper()} 1 "" "gpuq {version}" "User Commands"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(summary)}",
    ]


def _value(action: argparse.Action) -> str:
    if action.metavar is not None:
        return str(action.metavar)
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()


def _sentence(action: argparse.Action, program: str) -> str:
    text = (action.help or "") % {**vars(action), "prog": program}
    return text[:1].upper() + text[1:].removesuffix(".") + "." if text else ""


def _escaped(text: str) -> str:
    """Text that roff prints as it is."""
    signs = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "~": "\\(ti"}
    escaped = "".join(signs.get(sign) or (sign if sign.isascii() else f"\\[u{ord(sign):04X}]") for sign in text)
    return re.sub(r"^\.", r"\\&.", escaped, flags=re.MULTILINE)


if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        print(path)
