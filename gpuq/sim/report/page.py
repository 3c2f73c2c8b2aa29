"""The report as one HTML file that needs nothing else: no script, no link, no network; light or dark as the reader's system is.

All text from the data is escaped, and the same report gives the same bytes. HTML and SVG are written by hand, so that the page
needs no library: `gpuq simulate` promises it with the plain installation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from gpuq.format import UNKNOWN, count, hours, share, two_places
from gpuq.format import ratio as written
from gpuq.sim.report.figures import MEASURED, RunFigures
from gpuq.sim.report.plots import Colours, frontier, gantts, slowdowns, times
from gpuq.sim.report.report import SimulationReport
from gpuq.sim.report.summary import Summary, ratio

_STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
# The columns of the first table, and their titles there.
_TITLES = {
    "completion_mean_s": "done: mean", "completion_p99_s": "p99", "wait_mean_s": "waiting: mean",
    "wait_p99_s": "p99", "slowdown_p95": "slowdown: p95", "slowdown_worst": "worst", "over_budget": "over budget",
    "gpu_hours_saved": "GPU-h saved",
}  # fmt: skip
_UNITS = {one.name: one.metadata["unit"] for one in MEASURED}
_WRITE = {
    "s": two_places, "share": share, "count": count, "ratio": written, "h": hours, "kWh": hours, "money": hours,
}  # fmt: skip


def page(report: SimulationReport) -> str:
    """The page as HTML text."""
    says = "".join(f'<p class="says">{escape(sentence)}</p>' for sentence in report.headline)
    body = [
        f"<h1>{escape(report.title)}</h1>",
        says,
        _cards(report),
        "<h2>Side by side</h2>",
        _side_by_side(report),
        _steps(report),
        _pictures(report),
        "<h2>All figures</h2>",
        _all(report),
        _definitions(report),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(report.title)} · gpuq simulate</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _cards(report: SimulationReport) -> str:
    ours, theirs = report.summary(report.main).median, report.summary(report.baseline).median
    beside = "" if ours.policy == theirs.policy else " instead of {}"
    cards = [
        (
            two_places(ours.completion_mean_s),
            "mean time to completion" + beside.format(two_places(theirs.completion_mean_s)),
        ),
        (two_places(ours.wait_mean_s), "mean waiting" + beside.format(two_places(theirs.wait_mean_s))),
        (_value(ours, "gpu_hours_saved"), f"GPU-hours saved, {share(ours.packing_saving)} of the work"),
        (written(ours.slowdown_p95), f"slowdown that 95% of jobs stay under; the worst {written(ours.slowdown_worst)}"),
    ]
    inside = "".join(
        f"<div class=card><b>{escape(value)}</b><span>{escape(what)}</span></div>" for value, what in cards
    )
    return f'<div class="cards">{inside}</div>'


def _side_by_side(report: SimulationReport) -> str:
    compared = report.summary(report.baseline).median
    rows = []
    for summary in report.summaries:
        against = ratio(summary.median.completion_mean_s, compared.completion_mean_s)
        cells = [_ranged(summary, name) for name in _TITLES]
        if against is not None and summary.policy != report.baseline:
            cells[0] = f"{two_places(summary.median.completion_mean_s)}<small>x{against:.2f}</small>"
        rows.append((summary.policy, cells))
    return _table(_TITLES.values(), rows, report.main)


def _ranged(summary: Summary, name: str) -> str:
    """The median as HTML, with the range over seeds below it where there are several."""
    value = escape(_value(summary.median, name))
    low, high = (escape(_value(end, name)) for end in (summary.low, summary.high))
    return value if low == high else f"{value}<small>{low} – {high}</small>"


def _steps(report: SimulationReport) -> str:
    if not report.steps:
        return ""
    titles = ("adds", "against", "mean completion", "mean waiting")
    rows = [
        (
            step.policy,
            [escape(step.adds), escape(step.before), f"x{written(step.completion)}", f"x{written(step.wait)}"],
        )
        for step in report.steps
    ]
    return "<h2>What each step brings</h2>" + _table(titles, rows, report.main)


def _pictures(report: SimulationReport) -> str:
    names = [summary.policy for summary in report.summaries]
    colours = Colours.of_all(names, report.main, report.baseline)
    plot_data = {found.policy: found for found in report.plot_data}
    shown = [plot_data[name] for name in dict.fromkeys((report.baseline, report.main)) if name in plot_data]
    parts = ["<h2>Who had which device</h2>", *gantts(shown)]
    ordered = [plot_data[name] for name in names if name in plot_data]
    for what, title in (("completions", "Completion"), ("waits", "Waiting")):
        if drawn := times(ordered, what, colours):
            parts += [f"<h2>{title}</h2>", drawn]
    if drawn := slowdowns(ordered, report.budget, colours):
        parts += ["<h2>Slowdown</h2>", drawn]
    if drawn := frontier(report.summaries, colours):
        parts += ["<h2>What sharing saved, and what it cost</h2>", drawn]
    return "\n".join(parts)


def _all(report: SimulationReport) -> str:
    """A table with a line for every figure that at least one candidate has."""
    rows, group = [], ""
    for one in MEASURED:
        label, _, rest = one.metadata["label"].rpartition(": ")
        group = label or (group if one.metadata["label"] in ("median", "p95", "p99", "worst", "idle", "saved") else "")
        name = f"{group}: {rest}" if group else rest
        cells = [_ranged(summary, one.name) for summary in report.summaries]
        if any(cell != UNKNOWN for cell in cells):
            rows.append((name, cells))
    return _table([summary.policy for summary in report.summaries], rows, "")


def _definitions(report: SimulationReport) -> str:
    listed = "".join(
        f"<dt>{escape(one.metadata['label'])} <small>{one.name}, {escape(one.metadata['unit'])}</small></dt>"
        f"<dd>{escape(one.metadata['says'])}</dd>"
        for one in MEASURED
    )
    seeds = report.summaries[0].median.seeds
    notes = [*report.notes, f"the slowdown above which a job counts as over budget is {report.budget:g}"]
    if len(seeds) > 1:
        notes.append(f"figures are medians over the seeds {', '.join(map(str, seeds))}; below each is its range")
    return (
        f"<h2>What this rests on</h2><ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"
        f"<details><summary>How each figure is defined</summary><dl>{listed}</dl></details>"
    )


def _value(found: RunFigures, name: str) -> str:
    return _WRITE[_UNITS[name]](getattr(found, name))


def _table(titles: Iterable[str], rows: Iterable[tuple[str, Sequence[str]]], chosen: str) -> str:
    """An HTML table. Titles and the names of the rows are text; the other cells are HTML already."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    body = "".join(
        f'<tr{" class=chosen" if name == chosen else ""}><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>"
        for name, cells in rows
    )
    return f'<div class="wide"><table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
