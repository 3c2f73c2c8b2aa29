"""What a verb writes: data on stdout, notes on stderr, tables and labelled facts that fit the terminal.

Tables shrink in a fixed order, so that a narrow terminal loses the least important first. No library: the command's start
would double. `gpuq.format` turns single values into text.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from gpuq import format as fmt

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

STATE_CODES = {
    "PENDING": "PD",
    "HELD": "H",
    "STARTING": "CF",
    "RUNNING": "R",
    "COMPLETING": "CG",
    "COMPLETED": "CD",
    "FAILED": "F",
    "CANCELLED": "CA",
    "TIMEOUT": "TO",
    "OUT_OF_MEMORY": "OOM",
    "PREEMPTED": "PR",
    "NODE_FAIL": "NF",
}
_COLOURS = {"RUNNING": "32", "STARTING": "32", "COMPLETING": "32", "PENDING": "33", "HELD": "33"}
_BAD = frozenset({"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"})


# --- output --------------------------------------------------------------------------------------------------------


def note(text: str) -> None:
    """Write a line for the person to stderr; stdout is for data that another program may read. It may quote a server or a script,
    which must not steer the terminal."""
    print(fmt.clean_lines(text), file=sys.stderr, flush=True)


def warn(sentence: str) -> None:
    """Write a warning, a sentence without its period."""
    note(f"gpuq: warning: {sentence}.")


def write_of_done(write: Callable[[], None], done: str) -> None:
    """Call `write`, which writes of something that is `done`: where it cannot, stderr says so, and that is no failure."""
    try:
        write()
        sys.stdout.flush()
    except OSError as error:
        _discard(sys.stdout.fileno())
        try:
            note(f"gpuq: {done}; stdout cannot be written: {error.strerror}.")
        except OSError:
            _discard(sys.stderr.fileno())


def _discard(descriptor: int) -> None:
    """What is still to be written there goes nowhere. Else the interpreter would fail on it at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def show(options: argparse.Namespace, answer: Any, screen: Callable[[Any, int, bool], Iterable[str]]) -> None:
    """Write `answer` to stdout: as JSON with `--json`, else as the lines of `screen(answer, width, colour)`."""
    if options.json == "lines":
        for each in answer:
            print_json_line(each)
    elif options.json:
        print_json(answer)
    else:
        print("\n".join(screen(answer, terminal_width(), coloured(options.no_color))), flush=True)


def print_json(value: object) -> None:
    """Write indented JSON to stdout."""
    import json

    print(_STEERING.sub(_escaped, json.dumps(value, indent=2, ensure_ascii=False)))


def print_json_line(value: object) -> None:
    """Write JSON on one line to stdout, at once."""
    import json

    print(_STEERING.sub(_escaped, json.dumps(value, ensure_ascii=False)), flush=True)


# What JSON leaves as it is, and terminals take for commands or another reading direction.
_STEERING = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def _escaped(sign: re.Match[str]) -> str:
    return f"\\u{ord(sign[0]):04x}"


# --- the terminal --------------------------------------------------------------------------------------------------


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` characters; a number is not separated from its unit."""
    from textwrap import wrap

    glued = re.sub(r"(?<=\d) (?=[KMGT]iB)", "\x1f", text)
    return [line.replace("\x1f", " ") for line in wrap(glued, max(20, width), break_on_hyphens=False)] or [""]


def bar(fraction: float | None, length: int) -> str:
    """A bar of `length` characters, filled to `fraction` of it; dots for an unknown fraction."""
    if fraction is None:
        return "·" * length
    eighths = round(min(max(fraction, 0.0), 1.0) * length * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")).ljust(length)


def terminal_width() -> int:
    """Columns to write for: $COLUMNS, else the terminal's, also where stdout is a pipe to a pager, else 80; at least 40."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(40, int(columns))
    for stream in (sys.stdout, sys.stderr, sys.stdin):
        try:
            return max(40, os.get_terminal_size(stream.fileno()).columns)
        except (AttributeError, OSError, ValueError):  # it is closed, or no terminal
            continue
    return 80


def coloured(no_color: bool = False) -> bool:
    """Whether stdout is a terminal that may get ANSI colours: no --no-color, no NO_COLOR, not TERM=dumb."""
    return sys.stdout.isatty() and not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, code: str, colour: bool) -> str:
    """`text` in the ANSI style `code`, as in `1;31`; unchanged unless `colour`."""
    return f"\033[{code}m{text}\033[0m" if colour and text else text


def state_style(state: str) -> str | None:
    """The ANSI style of a job's state; None for the terminal's own colour."""
    return "31" if state in _BAD else _COLOURS.get(state)


# --- tables --------------------------------------------------------------------------------------------------------


def shorten(text: str, longest: int) -> str:
    """At most `longest` characters; an ellipsis marks the cut."""
    return text if len(text) <= longest else text[: max(0, longest - 1)] + "…"


class Cell(str):
    """A cell with shorter forms of its text. The first form that fits is shown, instead of the text cut at its end."""

    shorter: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, *shorter: str) -> Cell:
        """A cell that shows `text`, or where it does not fit one of `shorter`, which come longest first."""
        cell = cls(text)
        cell.shorter = shorter
        return cell

    def fit(self, width: int) -> str:
        """The longest form of at most `width` characters; the shortest form, cut, where none is."""
        forms = (str(self), *self.shorter)
        return next((form for form in forms if len(form) <= width), shorten(forms[-1], width))


_NARROWEST = 8


class Column:
    """One column of a table, and what it gives up on a narrow terminal.

    A `luxury` column goes first. Then cells are cut to `least` characters (None: never cut). Then columns go in the order of
    `give_up`, lowest first (0: never). Last, cells are cut below their `least`.
    """

    def __init__(
        self, title: str, *, right: bool = False, least: int | None = None, give_up: int = 0, luxury: bool = False
    ) -> None:
        self.title = title
        self.right = right
        self.least = least
        self.give_up = give_up
        self.luxury = luxury


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, styles: Sequence[str | None] = ()
) -> list[str]:
    """The header and one line per row, aligned, at most `width` characters wide. `styles` are the rows' ANSI styles, if any."""
    kept = list(range(len(columns)))
    widths = [max(len(column.title), *(len(row[i]) for row in rows), 1) for i, column in enumerate(columns)]
    natural, gap = list(widths), "  "
    while (excess := sum(widths[i] for i in kept) + len(gap) * (len(kept) - 1) - width) > 0:
        luxury = [i for i in kept if columns[i].luxury]
        if luxury:
            kept = [i for i in kept if i not in luxury]
        elif gap == "  ":
            gap = " "
        elif not _cut(columns, widths, kept, excess):
            spare = [i for i in kept if columns[i].give_up]
            if not spare:
                _squeeze(columns, widths, kept, excess)
                break
            kept.remove(min(spare, key=lambda i: columns[i].give_up))
            widths = list(natural)  # with a column less, the cells that were cut may fit again
    lines = [_line(columns, [column.title for column in columns], widths, kept, gap)]
    lines += [_line(columns, row, widths, kept, gap) for row in rows]
    if not styles:
        return lines
    return [paint(line, style or "", bool(style)) for line, style in zip(lines, ["1", *styles], strict=True)]


def _cut(columns: Sequence[Column], widths: list[int], kept: Sequence[int], excess: int) -> bool:
    """Cut the first column that is wider than its `least`; False if none is."""
    for i in kept:
        least = columns[i].least
        if least is not None and widths[i] > least:
            widths[i] = max(least, widths[i] - excess)
            return True
    return False


def _squeeze(columns: Sequence[Column], widths: list[int], kept: Sequence[int], excess: int) -> None:
    """Cut the cells that may be cut below their `least`, the widest column first."""
    for i in sorted((i for i in kept if columns[i].least is not None), key=lambda i: -widths[i]):
        cut = max(0, min(excess, widths[i] - _NARROWEST))
        widths[i] -= cut
        excess -= cut


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], kept: Sequence[int], gap: str) -> str:
    parts = []
    for i in kept:
        cell = cells[i]
        text = cell.fit(widths[i]) if isinstance(cell, Cell) else shorten(cell, widths[i])
        parts.append(text.rjust(widths[i]) if columns[i].right else text.ljust(widths[i]))
    return gap.join(parts).rstrip()


# --- labelled facts ------------------------------------------------------------------------------------------------

_LABEL = 18


def facts(pairs: Iterable[tuple[str, str | None]], width: int) -> list[str]:
    """Aligned `label  value` lines, long values wrapped under themselves; pairs whose value is None are left out."""
    lines = []
    for label, value in pairs:
        if value is None:
            continue
        parts = wrapped(value, width - _LABEL - 2)
        lines.append(f"  {label:<{_LABEL - 2}}  {parts[0]}")
        lines += [f"{'':<{_LABEL + 2}}{part}" for part in parts[1:]]
    return lines


def section(title: str, lines: list[str], colour: bool) -> list[str]:
    """An empty line, the title and the lines; nothing where there are no lines."""
    return ["", paint(title, "1", colour), *lines] if lines else []


def forecast_facts(forecast: Mapping[str, Any] | None, width: int) -> list[str]:
    """The figures of a forecast as the API gives it, and the evidence behind them; one line where there is none."""
    values = forecast or {}
    if all(values.get(name) is None for name in ("peak_utilization_pct", "upper_memory_bytes", "duration_p50_s")):
        evidence = fmt.clean(values.get("evidence") or "none")
        why = "nothing like it has run yet" if evidence == "none" else f"its needs are not measured ({evidence})"
        return facts([("forecast", f"none: {why}")], width)
    memory = fmt.gib(values.get("peak_memory_bytes")), fmt.gib(values.get("upper_memory_bytes"))
    slowdown = fmt.slowdown(values.get("expected_slowdown")), fmt.slowdown(values.get("upper_slowdown"))
    duration = fmt.duration(values.get("duration_p50_s")), fmt.duration(values.get("duration_p90_s"))
    pairs = [
        ("peak utilisation", fmt.expected_peak(values.get("peak_utilization_pct"))),
        ("peak memory", with_upper(*memory)),
        ("slowdown", with_upper(*slowdown)),
        ("duration", with_upper(*duration, "p90")),
        ("power", fmt.watts(values.get("power_w"))),
        ("evidence", fmt.clean(values.get("evidence") or "none")),
        ("model", fmt.clean(values["model_version"]) if values.get("model_version") else None),
    ]
    return facts(pairs, width)


def with_upper(value: str, upper: str, name: str = "at most") -> str:
    """`5.2 GiB (at most 6.0 GiB)`."""
    if value == upper == fmt.UNKNOWN:
        return "unknown"
    return value if upper == fmt.UNKNOWN else f"{value} ({name} {upper})"
