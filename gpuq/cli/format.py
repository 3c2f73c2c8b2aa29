"""Values as people read them, and tables that fit the terminal. Arrives: plain JSON values. Leaves: text.

Unknown (None) is shown as `-`, never as 0. Names come from users: what would move the cursor is shown escaped.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNKNOWN = "-"
CODES = {
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


def gib(value: float | None, unit: str = " GiB") -> str:
    """`9.1 GiB`; MiB below a tenth of one, so that small jobs do not all read 0.0."""
    if value is None:
        return UNKNOWN
    if value < 2**30 / 10:
        return f"{value / 2**20:.0f}{unit.replace('G', 'M')}"
    number = value / 2**30
    return f"{number:.0f}{unit}" if number >= 100 else f"{number:.1f}{unit}"


def percent(value: float | None) -> str:
    """`54%` of 54.2."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def slowdown(ratio: float | None) -> str:
    """`4%` of 1.04. Below 1 stays visible: measured noise is not hidden."""
    return UNKNOWN if ratio is None else f"{(ratio - 1) * 100:.0f}%".replace("-0%", "0%")


def rate(value: float | None) -> str:
    """`12.3 steps/s`."""
    return UNKNOWN if value is None else f"{value:.3g} steps/s"


def watts(value: float | None) -> str | None:
    """`250 W`; None where nobody knows, so that nothing is said of it."""
    return None if value is None else f"{value:.0f} W"


def duration(seconds: float | None) -> str:
    """`0:42`, `1:02:03`, `2-01:02:03`: as Slurm writes it."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{left:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def about(seconds: float) -> str:
    """`40s`, `48m`, `1h40m`, `2d3h`: an estimate is not told to the second."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{max(0, round(seconds))}s"
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours < 24 else f"{hours // 24}d{hours % 24}h"


def expected_start(told: Mapping[str, float] | None, now: float) -> str | None:
    """`in about 48m, nine times in ten within 2h10m`; `overdue by 5m` where even the latter is past; None without an estimate.

    An estimate alone never says "now": whether a device would take the job at this moment is asked, not estimated.
    """
    if not told:
        return None
    half_s, most_s = told["p50_unix"] - now, told["p90_unix"] - now
    # Estimates are a few seconds old: a start that was due within the last minute is not called overdue.
    if most_s <= -60:
        return f"overdue by {about(-most_s)}"
    first = "soon" if half_s < 1 else f"in about {about(half_s)}"
    return first if most_s < 1 else f"{first}, nine times in ten within {about(most_s)}"


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width`; a number stays with its unit."""
    from textwrap import wrap

    glued = re.sub(r"(?<=\d) (?=[KMGT]iB)", "\x1f", text)
    return [line.replace("\x1f", " ") for line in wrap(glued, max(20, width), break_on_hyphens=False)] or [""]


def when(value: object) -> float | None:
    """Unix seconds of an RFC 3339 text or a number; None of anything else."""
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    from datetime import datetime

    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        return None


def local_time(value: object) -> str:
    """`2026-11-20 23:59:01` in the user's own time zone."""
    at = when(value)
    return UNKNOWN if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def clean(text: object) -> str:
    """The text with control characters escaped: a job's name must not move the cursor or set the window's title."""
    string = str(text)
    if string.isprintable():
        return string
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in string)


def device_name(record: Mapping[str, Any]) -> str | None:
    """The name of a record's device as the API gives it: `gpu3`. None where the record speaks of no device."""
    device = record.get("device_name") or record.get("device")
    return None if device is None else clean(device)


def bar(fraction: float | None, width: int) -> str:
    """A small bar; dots for unknown."""
    if fraction is None:
        return "·" * width
    eighths = round(min(max(fraction, 0.0), 1.0) * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")).ljust(width)


def terminal_width() -> int:
    """Columns to write for: $COLUMNS, else the terminal's, else 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(40, int(columns))
    try:
        return max(40, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return 80


def coloured(no_color: bool = False) -> bool:
    """Whether stdout is a terminal that may get colour."""
    return sys.stdout.isatty() and not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, code: str, colour: bool) -> str:
    """`text` in that ANSI style, if `colour`."""
    return f"\033[{code}m{text}\033[0m" if colour and text else text


def state_style(state: str) -> str | None:
    """The ANSI style of a job's state."""
    return "31" if state in _BAD else _COLOURS.get(state)


def shorten(text: str, width: int) -> str:
    """At most `width` characters; the cut is shown by an ellipsis."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


class Cell(str):
    """A cell with shorter forms of its text: the first that fits is shown, rather than the text cut at its end."""

    shorter: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, *shorter: str) -> Cell:
        """`text`, and what may stand for it where room is short, longest first."""
        cell = cls(text)
        cell.shorter = shorter
        return cell

    def fit(self, width: int) -> str:
        """The longest form of at most `width` characters; the shortest form, cut, where none is."""
        forms = (str(self), *self.shorter)
        return next((form for form in forms if len(form) <= width), shorten(forms[-1], width))


_NARROWEST = 8


class Column:
    """One column of a table. For space, a `luxury` goes first; then cells are cut, but not below `least`; then columns
    are given up in the order of `give_up` (0: never). Where that is not enough, cells are cut further.
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
    """Lines of an aligned table that fits `width`. `styles` are ANSI styles of the rows; none: plain text.

    To fit, first the space between columns shrinks, then the columns say what they can spare.
    """
    kept = list(range(len(columns)))
    widths = [max(len(column.title), *(len(row[i]) for row in rows), 1) for i, column in enumerate(columns)]
    natural, gap = list(widths), "  "
    while (excess := _total(widths, kept, gap) - width) > 0:
        if _drop_luxury(columns, kept):
            continue
        if gap == "  ":
            gap = " "
        elif not _cut(columns, widths, kept, excess):
            if not _give_up(columns, kept):
                _squeeze(columns, widths, kept, excess)
                break
            widths = list(natural)
    lines = [_line(columns, [column.title for column in columns], widths, kept, gap)]
    lines += [_line(columns, row, widths, kept, gap) for row in rows]
    if not styles:
        return lines
    return [paint(line, style or "", bool(style)) for line, style in zip(lines, ["1", *styles], strict=True)]


def _total(widths: Sequence[int], kept: Sequence[int], gap: str) -> int:
    return sum(widths[i] for i in kept) + len(gap) * (len(kept) - 1)


def _cut(columns: Sequence[Column], widths: list[int], kept: Sequence[int], excess: int) -> bool:
    for i in kept:
        least = columns[i].least
        if least is not None and widths[i] > least:
            widths[i] = max(least, widths[i] - excess)
            return True
    return False


def _squeeze(columns: Sequence[Column], widths: list[int], kept: Sequence[int], excess: int) -> None:
    """The last resort on a very narrow screen: cells that may be cut are cut below their `least`, the widest first."""
    for i in sorted((i for i in kept if columns[i].least is not None), key=lambda i: -widths[i]):
        cut = max(0, min(excess, widths[i] - _NARROWEST))
        widths[i] -= cut
        excess -= cut


def _drop_luxury(columns: Sequence[Column], kept: list[int]) -> bool:
    luxury = [i for i in kept if columns[i].luxury]
    for i in luxury:
        kept.remove(i)
    return bool(luxury)


def _give_up(columns: Sequence[Column], kept: list[int]) -> bool:
    candidates = [i for i in kept if columns[i].give_up]
    if not candidates:
        return False
    kept.remove(min(candidates, key=lambda i: columns[i].give_up))
    return True


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], kept: Sequence[int], gap: str) -> str:
    parts = []
    for i in kept:
        cell = cells[i]
        text = cell.fit(widths[i]) if isinstance(cell, Cell) else shorten(cell, widths[i])
        parts.append(text.rjust(widths[i]) if columns[i].right else text.ljust(widths[i]))
    return gap.join(parts).rstrip()
