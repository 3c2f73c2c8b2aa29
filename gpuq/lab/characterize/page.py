"""The report as one HTML file that needs nothing else: no script, no link, pictures inside.

All text from the data is escaped, and the same report and plots give the same bytes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from itertools import chain

from gpuq.lab.characterize.groups import Groups
from gpuq.lab.characterize.packing import Cost
from gpuq.lab.characterize.plots import Plot
from gpuq.lab.characterize.relevance import RULE, Ranking
from gpuq.lab.characterize.report import Characterization, CharacterizationReport, Packing
from gpuq.lab.characterize.synthetic import Quality
from gpuq.lab.characterize.text import UNKNOWN, errors, number, percent, printable

_STYLE = """
:root { color-scheme: light; --ink: #1b242c; --soft: #5b6873; --line: #dfe4e8; --paper: #f6f7f8; }
body { margin: 0 auto; padding: 1.5rem clamp(1rem, 3vw, 2.5rem) 4rem; max-width: 76rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; }
h1 { font-size: 1.4rem; letter-spacing: -.02em; } h2 { margin-top: 2.5rem; font-size: 1.15rem; }
h3 { margin-top: 2rem; font-size: 1rem; } p { max-width: 60rem; } .soft, figcaption { color: var(--soft); }
figure { margin: 1rem 0; padding: 1rem; background: #fff; border: 1px solid var(--line); border-radius: .6rem; }
figure img { max-width: 100%; height: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; background: #fff; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.words, th.words { text-align: left; } td.words { white-space: normal; }
tr.chosen td, tr.chosen th { background: #eaf3fc; } thead th { border-bottom: 2px solid var(--soft); }
"""


def page(report: CharacterizationReport, plots: Sequence[Plot]) -> str:
    """The page as HTML text."""
    parts = [_table(found, _of(plots, found.device_type, pairs=False)) for found in report.tables]
    parts += [_packing(packing, _of(plots, packing.title, pairs=True)) for packing in report.packing]
    notes = "".join(f"<p>{_text(note)}</p>" for note in report.notes)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(report.source)} · gpuq</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_text(report.source)}</h1>\n{notes}\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


def _of(plots: Sequence[Plot], about: str, *, pairs: bool) -> str:
    return "\n".join(
        f'<figure><img src="data:image/png;base64,{b64encode(plot.png).decode()}" alt="{_text(plot.title)}. {_text(plot.says)}">'
        f"<figcaption><strong>{_text(plot.title)}.</strong> {_text(plot.says)}</figcaption></figure>"
        for plot in plots
        if plot.about == about and plot.name.startswith("pairs") == pairs
    )


def _table(found: Characterization, figures: str) -> str:
    parts = [
        f"<h2>{_text(found.device_type)}</h2>",
        f"<p>{found.rows} jobs measured alone, {found.series} series.</p>",
        *(f'<p class="soft">{_text(note)}</p>' for note in found.notes),
        figures,
        f'<h3>Relevance</h3><p class="soft">Features are {_text(RULE)}. Rows of one model are alike, so the p-values are smaller '
        "than they should be.</p>",
        *(_ranking(ranking) for ranking in found.rankings),
    ]
    if found.interpolation:
        parts += [f"<h3>Synthetic rows along {_text(found.batch)}</h3>", _quality(found.interpolation)]
    if found.clusters is not None:
        parts += ["<h3>Clusters</h3>", _clusters(found.clusters)]
    return f"<section>{''.join(parts)}</section>"


def _ranking(ranking: Ranking) -> str:
    head = ("feature", "Pearson", "p", "Spearman", "p", "Kendall", "p", "rows", "known before the run", "")
    rows = []
    for one in ranking.ranked:
        figures = [(f"{test.value:+.3f}", f"{test.p:.2g}") for test in (one.pearson, one.spearman, one.kendall)]
        known, verdict = "yes" if one.known_before_run else "no", "chosen" if one.chosen else one.why_not or ""
        rows.append((one.feature, *chain.from_iterable(figures), str(one.n), known, verdict))
    shut_out = [(one.feature, one.reason) for one in ranking.shut_out]
    return _rows(f"Relevance to {ranking.target}", head, rows, [one.chosen for one in ranking.ranked]) + _rows(
        f"Shut out for {ranking.target}", ("column", "why"), shut_out
    )


def _quality(found: Sequence[Quality]) -> str:
    head = ("attribute", "way", "held back: RMSE", "MSE", "MAE", "round trip: RMSE", "MSE", "MAE", "impossible", "")
    rows = []
    for one in found:
        marks = ", ".join(word for word, so in (("used", one.used), ("best round trip", one.best_round_trip)) if so)
        figures = (*errors(one.held_back), *errors(one.round_trip))
        rows.append((one.column, one.method, *figures, str(one.impossible), marks))
    return _rows("Collected rows, regenerated", head, rows, [one.used for one in found])


def _clusters(found: Groups) -> str:
    names = list(found.groups[0].centre)
    rows = []
    for group in found.groups:
        means = (number(group.centre[name], 3) for name in names)
        synthetic = sum(member.synthetic for member in group.members)
        jobs = ", ".join(member.job for member in group.members if not member.synthetic)
        rows.append((str(group.number), *means, str(synthetic), jobs))
    return _rows("Means of each cluster, and its collected jobs", ("cluster", *names, "synthetic rows", "jobs"), rows)


def _packing(packing: Packing, figures: str) -> str:
    head = ("job", "beside", "slowdown", "its slowdown", "packing saving", "our clusters", "theirs", "against it")
    rows = [
        (
            pair.job_a,
            pair.job_b,
            _slowdown(pair.slowdown_a),
            _slowdown(pair.slowdown_b),
            percent(pair.packing_saving),
            ", ".join(UNKNOWN if one is None else str(one) for one in pair.clusters),
            UNKNOWN if pair.theirs is None else ", ".join(pair.theirs),
            "; ".join(pair.against),
        )
        for pair in packing.pairs
    ]
    return (
        f"<section><h2>Pairs on {_text(packing.title)}</h2>"
        "<p>Slowdown is time together / time alone. Packing saving is 1 - time together / sum of the times alone. "
        "Pairs with something against them count in no summary.</p>"
        f"{figures}{_costs(packing.costs)}{_rows('Each pair', head, rows)}</section>"
    )


def _costs(found: Sequence[Cost]) -> str:
    head = ("clusters", "pairs", "slowdown: median", "mean", "p95", "worst", "packing saving: mean", "median")
    rows = [
        (
            "all pairs" if one.grouping == "all" else f"{one.where} ({one.grouping})",
            str(one.pairs),
            *map(_slowdown, (one.slowdown_median, one.slowdown_mean, one.slowdown_p95, one.slowdown_worst)),
            *map(percent, (one.packing_saving_mean, one.packing_saving_median)),
        )
        for one in found
    ]
    return _rows("Within and across clusters", head, rows) if rows else ""


def _slowdown(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _rows(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[bool] = ()) -> str:
    """An HTML table of text cells. The first cell is the row's heading; the last may hold a sentence. `marked` rows are
    highlighted."""
    kinds = [""] * (len(head) - 1) + [' class="words"']
    titles = "".join(f'<th scope="col"{kind}>{_text(title)}</th>' for kind, title in zip(kinds, head, strict=True))
    body = []
    for cells, mark in zip(rows, marked or [False] * len(rows), strict=True):
        rest = "".join(f"<td{kind}>{_text(cell)}</td>" for kind, cell in zip(kinds[1:], cells[1:], strict=True))
        start = '<tr class="chosen">' if mark else "<tr>"
        body.append(f'{start}<th scope="row">{_text(cells[0])}</th>{rest}</tr>')
    return (
        f'<div class="wide"><table><caption>{_text(caption)}</caption><thead><tr>{titles}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _text(value: str) -> str:
    return escape(printable(value), quote=True)
