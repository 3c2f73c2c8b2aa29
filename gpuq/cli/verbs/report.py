"""`gpuq report use|waste|energy|sharing|shadow`: what users and projects had of the devices, and what sharing would have done."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from gpuq import format as fmt
from gpuq.cli import console
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.errors import BadInput

_GROUPS = ("user", "project", "week")
_HOURS = (
    "Hours are device-hours of attempts that ended in that time; an attempt counts whole, in the week of its end (UTC)."
)

# report -> (what its columns mean, the columns: title, field of a group, how it is written)
_Column = tuple[str, str, Callable[[float | None], str]]
_REPORTS: dict[str, tuple[str, list[_Column]]] = {
    "use": (
        "REQUESTED: time limits. USED is an upper bound: time held x peak utilisation.",
        [
            ("REQUESTED", "requested_hours", fmt.hours),
            ("HELD", "held_hours", fmt.hours),
            ("USED", "used_at_most_hours", fmt.hours),
            ("SAVED", "saved_hours", fmt.hours),
            ("LOST", "lost_hours", fmt.hours),
        ],
    ),
    "waste": (
        "IDLE is held and not used, by peak utilisation, so it is at least that much; the others by how the attempt ended.",
        [
            ("HELD", "held_hours", fmt.hours),
            ("IDLE", "idle_at_least_hours", fmt.hours),
            ("FAILED", "FAILED", fmt.hours),
            ("TIMEOUT", "TIMEOUT", fmt.hours),
            ("NO MEMORY", "OUT_OF_MEMORY", fmt.hours),
            ("NODE FAIL", "NODE_FAIL", fmt.hours),
            ("CANCELLED", "CANCELLED", fmt.hours),
        ],
    ),
    "energy": (
        "IDLE KWH is what the devices would have taken anyway.",
        [("KWH", "energy_kwh", fmt.hours), ("IDLE KWH", "idle_kwh", fmt.hours), ("COST", "cost", fmt.hours)],
    ),
    "sharing": (
        "SAVED is what the attempts would have held alone minus their part of the time that devices were occupied; SLOWED is "
        "what partners added.",
        [
            ("HELD", "held_hours", fmt.hours),
            ("SHARED", "shared_hours", fmt.hours),
            ("SAVED", "saved_hours", fmt.hours),
            ("SLOWED", "slowed_hours", fmt.hours),
        ],
    ),
}


def run(words: list[str]) -> int:
    """Print a report."""
    options = _parse(words)
    if options.what == "shadow":
        from gpuq.cli.shadow_report import screen

        report: Record = HttpClient.of(options).get("/api/v1/report/shadow", days=options.days)
        console.show(options, report, lambda shown, width, _: screen(shown, width))
        return 0
    found: Record = HttpClient.of(options).get(
        "/api/v1/report/usage", days=options.days, by=",".join(options.by) or None, price=options.price
    )
    if options.csv:
        _write_csv(options.what, found)
    elif options.html:
        sys.stdout.write(page(options.what, found))
    else:
        console.show(options, found, lambda shown, width, _: listing(options.what, shown, width))
    return 0


def _parse(words: list[str]) -> argparse.Namespace:
    parser = Parser(
        "report",
        "Reports of what has run.\n"
        "use: hours requested, held, used, saved, lost\n"
        "waste: hours idle, and held by what failed or was cancelled\n"
        "energy: kilowatt-hours and their cost\n"
        "sharing: what it saved and what it cost\n"
        "shadow: what sharing would have saved, while every job ran alone",
    )
    add = parser.add_argument
    add("what", choices=[*_REPORTS, "shadow"], metavar="REPORT", help="use, waste, energy, sharing or shadow")
    add("--by", default="", metavar="LIST", help="a line for each: user, project, week, or several, as user,week")
    add("--days", default="7", metavar="N", help="how many days back (default 7)")
    add("--price", metavar="X", help="of a kilowatt-hour; default: `energy_price_per_kwh` of the settings")
    add("--csv", action="store_true", help="write a table of comma-separated values")
    add("--html", action="store_true", help="write a page: gpuq report use --html > use.html")
    options = parser.parse_args(words)
    if not options.days.isdecimal() or not 1 <= int(options.days) <= 3660:
        raise BadInput(f"--days `{options.days}` is not a whole number from 1 to 3660.")
    options.days = int(options.days)
    options.by = list(dict.fromkeys(options.by.split(","))) if options.by else []
    strange = next((name for name in options.by if name not in _GROUPS), None)
    if strange is not None:
        raise BadInput(f"--by `{strange}` is no way to group.", fix=f"Use {', '.join(_GROUPS)}, as in --by user,week.")
    if sum([options.csv, options.html, options.json]) > 1:
        raise BadInput("--csv, --html and --json exclude each other.", fix="Choose one of them.")
    if options.what == "shadow" and (options.by or options.csv or options.html or options.price):
        raise BadInput("`gpuq report shadow` takes --days only.", fix="Leave --by, --price, --csv and --html out.")
    if options.price is not None:
        try:
            price = float(options.price)
        except ValueError:
            price = -1.0
        if not 0 <= price <= 1e6:
            raise BadInput(f"--price `{options.price}` is not a price.", fix="Write a number, as in --price 0.32.")
    return options


def _value(group: Record, field: str) -> float | None:
    """A figure of a group. Hours by an end that did not occur are 0: it is known that there were none."""
    if field.isupper():
        return group["hours_by_end"].get(field, 0.0)  # type: ignore[no-any-return]
    return group[field]  # type: ignore[no-any-return]


def _rows(what: str, found: Record) -> list[tuple[list[str], list[str]]]:
    """(names of the group, figures as text) of each group, and of all together if there are several."""
    by = found["by"]
    groups = [
        ([fmt.UNKNOWN if group[name] is None else fmt.clean(group[name]) for name in by], group)
        for group in found["groups"]
        if by  # else there is one, which is all together
    ]
    if len(groups) > 1 or not by:
        groups.append((["all", "", ""][: len(by)], found["total"]))
    return [(names, [text(_value(group, field)) for _, field, text in _REPORTS[what][1]]) for names, group in groups]


def _remarks(what: str, found: Record) -> list[str]:
    """What the columns mean, and for how many attempts a figure is unknown."""
    fields = {field.removesuffix("_hours") for _, field, _ in _REPORTS[what][1]}
    missing = {name: count for name, count in found["total"]["unknown"].items() if name in fields}
    lines = [_REPORTS[what][0], _HOURS]
    attempts = found["total"]["attempts"]
    for name, count in missing.items():
        lines.append(
            f"{name.replace('_', ' ')} is unknown for {count} of {attempts} attempts: they are not in that sum."
        )
    if what == "energy":
        lines.append(f"A kilowatt-hour costs {found['price_per_kwh']:g}.")
    return lines


def listing(what: str, found: Record, width: int) -> list[str]:
    """A table, then what its columns mean."""
    if not found["total"]["attempts"]:
        return [f"Nothing has ended since {fmt.local_time(found['since'])}."]
    columns = [console.Column(name.upper(), least=8) for name in found["by"]]
    columns += [console.Column(title, right=True) for title, _, _ in _REPORTS[what][1]]
    table = console.table(columns, [[*names, *figures] for names, figures in _rows(what, found)], width)
    return [*table, "", *(line for remark in _remarks(what, found) for line in console.wrapped(remark, width))]


def _write_csv(what: str, found: Record) -> None:
    """All figures in full: numbers as they are, nothing where unknown."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    columns = _REPORTS[what][1]
    writer.writerow([*found["by"], "jobs", "attempts", *(_csv_name(field) for _, field, _ in columns)])
    for group in found["groups"]:
        names = [_cell(group[name]) for name in found["by"]]
        figures = [_value(group, field) for _, field, _ in columns]
        writer.writerow([*names, group["jobs"], group["attempts"], *("" if one is None else one for one in figures)])


def _csv_name(field: str) -> str:
    return f"{field.lower()}_hours" if field.isupper() else field


def _cell(text: str | None) -> str:
    """A name in a table that a spreadsheet may open: one that begins like a formula is no formula."""
    name = fmt.clean(text or "")
    return f"'{name}" if name[:1] in ("=", "+", "-", "@") else name


def page(what: str, found: Record) -> str:
    """The report as a page that needs nothing else. Raises BadInput where Jinja is not installed."""
    try:
        from gpuq.document import render
    except ModuleNotFoundError as missing:
        if missing.name != "jinja2":
            raise
        raise BadInput(
            "`gpuq report --html` needs Jinja, which is not installed beside gpuq-client.",
            fix="pip install 'gpuq-client[html]', or write a table with --csv.",
        ) from missing
    return render(
        Path(__file__).with_name("report.html"),
        title=f"gpuq report {what}: {found['days']} days since {fmt.local_time(found['since'])}",
        names=[name.upper() for name in found["by"]],
        titles=[title for title, _, _ in _REPORTS[what][1]],
        rows=_rows(what, found),
        remarks=_remarks(what, found),
    )
