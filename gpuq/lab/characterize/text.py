"""The report as text for a terminal. Unknown is a dash, never 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuq.format import UNKNOWN, clean, ratio
from gpuq.lab.characterize.groups import Groups
from gpuq.lab.characterize.packing import MeasuredPairCost
from gpuq.lab.characterize.relevance import Ranking
from gpuq.lab.characterize.report import Characterization, CharacterizationReport, Packing
from gpuq.lab.characterize.synthetic import Errors

# The rest is in the JSON and on the page.
_MOST_LINES = 12
_MOST_NAMES = 4


def text(report: CharacterizationReport) -> str:
    """The whole summary; ends with a line break."""
    lines = [clean(report.source)]
    for found in report.tables:
        lines += ["", *_table(found)]
    for packing in report.packing:
        lines += ["", *_packing(packing)]
    lines += ["", *(f"Note: {note}" for note in report.notes)] if report.notes else []
    return "\n".join(lines) + "\n"


def number(value: float | None, digits: int = 4) -> str:
    """A number with this many significant digits; large ones stay whole."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f}" if 10 ** (digits - 1) <= abs(value) < 1e9 else f"{value:.{digits}g}"


def percent(share: float | None) -> str:
    """`40.6%` of .406."""
    return UNKNOWN if share is None else f"{100 * share:.1f}%"


def aligned(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table: the first column to the left, the others to the right, two blanks between; the last may be text."""
    cells = [list(head), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(head))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if index in (0, len(head) - 1) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _table(found: Characterization) -> list[str]:
    lines = [f"{clean(found.device_type)}: {found.rows} jobs measured alone, {found.series} series"]
    for ranking in found.rankings:
        lines += ["", *_ranking(ranking)]
    lines += ["", *_shut_out(found.rankings)] if found.rankings else []
    if found.interpolation:
        lines += ["", *_interpolation(found)]
    if found.clusters is not None:
        lines += ["", *_clusters(found.clusters, found.targets)]
    return [*lines, *(["", *(f"  {note}" for note in found.notes)] if found.notes else [])]


def _ranking(ranking: Ranking) -> list[str]:
    chosen = len(ranking.chosen)
    head = f"Relevance to {ranking.target}: {chosen} of {len(ranking.ranked)} features chosen"
    rows = [
        (
            one.feature,
            *(f"{test.value:+.2f}" for test in (one.pearson, one.spearman, one.kendall)),
            str(one.n),
            "yes" if one.known_before_run else "no",
            "chosen" if one.chosen else one.why_not or "",
        )
        for one in ranking.ranked[:_MOST_LINES]
    ]
    columns = ("feature", "Pearson", "Spearman", "Kendall", "n", "known before", "")
    more = len(ranking.ranked) - _MOST_LINES
    return [head, *aligned(columns, rows), *([f"  and {more} weaker ones"] if more > 0 else [])]


def _shut_out(rankings: Sequence[Ranking]) -> list[str]:
    """Each reason once, with its columns."""
    reasons: dict[str, dict[str, None]] = {}
    for one in (one for ranking in rankings for one in ranking.shut_out):
        reasons.setdefault(one.reason, {})[one.feature] = None
    return ["Shut out", *aligned(("columns", "why"), [(names(found), reason) for reason, found in reasons.items()])]


def _interpolation(found: Characterization) -> list[str]:
    rows = []
    for name in dict.fromkeys(quality.column for quality in found.interpolation):
        every = [quality for quality in found.interpolation if quality.column == name]
        used = next(quality for quality in every if quality.used)
        returned = next((quality for quality in every if quality.best_round_trip), None)
        least = (UNKNOWN, UNKNOWN) if returned is None else (errors(returned.round_trip)[0], returned.method)
        rows.append((name, used.method, *errors(used.held_back), errors(used.round_trip)[0], *least))
    columns = ("attribute", "used", "RMSE", "MSE", "MAE", "round trip", "least", "by")
    return [
        f"Synthetic rows along {found.batch}: {len(found.synthetic)}, by the way that best regenerates rows held back "
        "(RMSE, MSE, MAE; beside it the RMSE of its round trip, and the least round trip)",
        *aligned(columns, rows),
    ]


def errors(found: Errors | None) -> tuple[str, str, str]:
    """RMSE, MSE, MAE."""
    if found is None:
        return UNKNOWN, UNKNOWN, UNKNOWN
    return number(found.rmse, 3), number(found.mse, 3), number(found.mae, 3)


def _clusters(found: Groups, targets: Sequence[str]) -> list[str]:
    distortions = ", ".join(number(distortion, 3) for distortion in found.distortions)
    rows = [
        (
            str(group.number),
            str(sum(not member.synthetic for member in group.members)),
            str(sum(member.synthetic for member in group.members)),
            *(number(group.centre.get(target), 3) for target in targets),
            names(dict.fromkeys(member.series for member in group.members if not member.synthetic)),
        )
        for group in found.groups
    ]
    return [
        f"Clusters: {len(found.groups)}, at the elbow of the distortions {distortions}",
        *aligned(("cluster", "collected", "synthetic", *targets, "series"), rows),
    ]


def _packing(packing: Packing) -> list[str]:
    flagged = [pair for pair in packing.pairs if pair.against]
    lines = [f"Pairs on {clean(packing.title)}: {len(packing.pairs)}, of which {len(flagged)} contradict themselves"]
    rows = [
        (
            f"{'all pairs' if cost.grouping == 'all' else f'{cost.where}, {cost.grouping}'}",
            str(cost.pairs),
            *map(ratio, (cost.slowdown_median, cost.slowdown_mean, cost.slowdown_p95, cost.slowdown_worst)),
            *map(percent, (cost.packing_saving_mean, cost.packing_saving_median)),
        )
        for cost in packing.costs
        if cost.where in ("all", "within", "across")
    ]
    columns = ("clusters", "pairs", "slowdown median", "mean", "p95", "worst", "saving mean", "median")
    if packing.costs:
        lines += aligned(columns, rows)
    if packing.clusters_from is not None:
        theirs = any(pair.theirs is not None for pair in packing.pairs)
        came = "; theirs: those that came with the pairs" if theirs else ""
        lines.append(f"  ours: clusters of {clean(packing.clusters_from)}{came}")
    lines += [f"  left out: {against(pair)}" for pair in flagged[:_MOST_LINES]]
    return lines + ([f"  and {len(flagged) - _MOST_LINES} more"] if len(flagged) > _MOST_LINES else [])


def against(pair: MeasuredPairCost) -> str:
    """The reasons why this pair is not believed, in a line."""
    return f"{clean(pair.job_a)} + {clean(pair.job_b)}: {clean('; '.join(pair.against))}"


def names(found: Iterable[str]) -> str:
    """The first few, and how many more."""
    every = [clean(name) for name in found]
    rest = len(every) - _MOST_NAMES
    return ", ".join(every[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
