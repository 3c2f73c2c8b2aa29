"""The report as PNG pictures on a light background, drawn by matplotlib. The same report gives the same bytes.

Figures are drawn straight to memory: they need no display, and matplotlib's global state is left as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from statistics import median
from typing import Any

import numpy as np

from gpuq.format import clean
from gpuq.lab.characterize.groups import GroupMember
from gpuq.lab.characterize.packing import MeasuredPairCost
from gpuq.lab.characterize.report import Characterization, CharacterizationReport, Packing
from gpuq.lab.characterize.synthetic import METHODS, Errors, Quality
from gpuq.lab.characterize.text import number

# The colours of gpuq's web page.
INK, SOFT, LINE, TRACK = "#1b242c", "#5b6873", "#dfe4e8", "#e9edf0"
COLOURS = ("#2f7fd1", "#d9822b", "#2e9e77", "#a457b8", "#c94f6d", "#6b8e23", "#1f9ab0", "#8a6d3b")
_COLD, _WARM = "#1e63b5", "#b3362b"
_STYLE = {
    "font.size": 10.0,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": LINE,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "figure.facecolor": "white",
}
_DPI = 120
_LONGEST_NAME = 34
# More rows cannot be read.
_MOST_FEATURES = 40
_MOST_JOBS = 36
_MOST_SERIES = len(COLOURS)


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture. `about` is the name of the table or pairs that it shows; `says` describes it for screen readers."""

    name: str
    about: str
    title: str
    says: str
    png: bytes


def plots(report: CharacterizationReport) -> list[Plot]:
    """Every picture for which the report has data."""
    import matplotlib

    drawn: list[Plot] = []
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        for index, found in enumerate(report.tables, start=1):
            end = "" if len(report.tables) == 1 else f"-{index}"
            drawn += [
                Plot(name + end, found.device_type, title, says, png)
                for name, title, says, png in (draw(found) for draw in _OF_A_TABLE)
                if png
            ]
        for index, packing in enumerate(report.packing, start=1):
            end = "" if len(report.packing) == 1 else f"-{index}"
            title, says, png = _matrix(packing)
            drawn.append(Plot(f"pairs{end}", packing.title, title, says, png))
    return drawn


Drawn = tuple[str, str, str, bytes]
_NOTHING: Drawn = ("", "", "", b"")


def _relevance(found: Characterization) -> Drawn:
    rankings = [ranking for ranking in found.rankings if ranking.ranked]
    if not rankings:
        return _NOTHING
    order = list(dict.fromkeys(one.feature for ranking in rankings for one in ranking.ranked[:_MOST_FEATURES]))
    shown = order[:_MOST_FEATURES]
    by_name = [{one.feature: one for one in ranking.ranked} for ranking in rankings]
    values = np.full((len(shown), 3 * len(rankings)), np.nan)
    for row, name in enumerate(shown):
        for block, known in enumerate(by_name):
            if name in known:
                one = known[name]
                values[row, 3 * block : 3 * block + 3] = one.pearson.value, one.spearman.value, one.kendall.value
    figure, axes = _figure(2.8 + 2.1 * len(rankings), 1.6 + 0.27 * len(shown))
    image = axes.imshow(values, cmap=_colours(_COLD, "white", _WARM), vmin=-1, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if abs(value) > 0.6 else INK
            axes.text(column, row, f"{value:+.2f}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(values.shape[1]), ["Pearson", "Spearman", "Kendall"] * len(rankings), fontsize=9)
    axes.xaxis.tick_top()
    # A filled dot for a feature that was chosen for some target.
    chosen = {name for ranking in rankings for name in ranking.chosen}
    labels = [f"{_short(name)} {'●' if name in chosen else '○'}" for name in shown]
    axes.set_yticks(range(len(shown)), labels, fontsize=9)
    axes.tick_params(length=0)
    for block, ranking in enumerate(rankings):
        axes.text(3 * block + 1, -1.55, _short(ranking.target), ha="center", va="bottom", fontweight="bold")
        if block:
            axes.axvline(3 * block - 0.5, color="white", linewidth=4)
    axes.set_xlabel("● chosen for a target    ○ not chosen", fontsize=9, loc="left")
    axes.xaxis.set_label_position("bottom")
    axes.spines[:].set_visible(False)
    shrink = min(1.0, 4 / (1 + 0.27 * len(shown)))
    figure.colorbar(image, ax=axes, shrink=shrink, aspect=25, pad=0.02).outline.set_visible(False)
    best = "; ".join(f"{ranking.target}: {', '.join(ranking.chosen[:4]) or 'none'}" for ranking in rankings)
    says = f"Correlation of features with the targets. Chosen: {best}."
    return "relevance", "Relevance of each feature", says, _png(figure)


def _interpolation(found: Characterization) -> Drawn:
    names = list(dict.fromkeys(one.column for one in found.interpolation if one.held_back is not None))
    if not names:
        return _NOTHING
    figure, pair = _figure(10.5, 1.9 + 0.36 * len(names), columns=2, shared=True)
    sides: tuple[tuple[str, Callable[[Quality], Errors | None]], ...] = (
        ("held back: collected row left out", lambda one: one.held_back),
        ("round trip: from synthetic rows", lambda one: one.round_trip),
    )
    for axes, (title, side) in zip(pair, sides, strict=True):
        for index, method in enumerate(METHODS):
            ratios = [_ratio(found, name, method, side) for name in names]
            heights, marker = np.arange(len(names)) + (index - 2.5) * 0.11, "osD^vP"[index]
            axes.plot(ratios, heights, marker, markersize=6, color=COLOURS[index], label=method)
        axes.axvline(1, color=SOFT, linewidth=1)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter("")
        ticks = [tick for tick in (0.25, 0.5, 1, 2, 4, 8, 16) if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]
        axes.set_xticks(ticks)
        axes.grid(axis="x")
        axes.set_title(title)
        axes.set_xlabel("RMSE, as a multiple of the linear one's (less is better)")
    pair[0].set_yticks(range(len(names)), [_short(name) for name in names])
    pair[0].invert_yaxis()
    figure.legend(*pair[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(METHODS))
    used = "; ".join(f"{one.column}: {one.method}" for one in found.interpolation if one.used)
    return "interpolation", "How well each way interpolates", f"Ways used: {used}.", _png(figure)


def _ratio(found: Characterization, name: str, method: str, side: Callable[[Quality], Errors | None]) -> float:
    of = {one.method: side(one) for one in found.interpolation if one.column == name}
    mine, linear = of[method], of["linear"]
    return mine.rmse / linear.rmse if mine is not None and linear is not None and linear.rmse > 0 else np.nan


def _synthetic(found: Characterization) -> Drawn:
    members = [] if found.clusters is None else [member for group in found.clusters.groups for member in group.members]
    series = sorted({member.series for member in members if member.synthetic})
    if not series:
        return _NOTHING
    shown = series[:_MOST_SERIES]
    targets = [target for target in found.targets if target in members[0].values]
    figure, all_axes = _figure(5.4 * len(targets), 4.6, columns=len(targets))
    for axes, target in zip(np.atleast_1d(all_axes), targets, strict=True):
        for name, colour in zip(shown, COLOURS, strict=False):
            own = sorted((m for m in members if m.series == name and m.batch_size), key=lambda m: m.batch_size or 0)
            axes.plot(*_points(own, target), color=colour, linewidth=1.2, label=_short(name))
            axes.plot(*_points([m for m in own if not m.synthetic], target), "o", color=colour, markersize=6)
            made = _points([m for m in own if m.synthetic], target)
            axes.plot(*made, "o", color=colour, markersize=6, markerfacecolor="white")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel(_short(found.batch))
        axes.set_title(_short(target))
        axes.set_ylim(bottom=0)
        axes.grid()
    handles = np.atleast_1d(all_axes)[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=min(4, len(shown)))
    more = len(series) - len(shown)
    says = f"Filled: collected. Hollow: synthetic.{f' {more} more series are not drawn.' if more else ''}"
    return "synthetic", "Collected and synthetic rows along batch size", says, _png(figure)


def _points(members: Sequence[GroupMember], target: str) -> tuple[list[float], list[float]]:
    return [member.batch_size or np.nan for member in members], [member.values[target] for member in members]


def _elbow(found: Characterization) -> Drawn:
    if found.clusters is None or len(found.clusters.distortions) < 2:
        return _NOTHING
    distortions, count = found.clusters.distortions, len(found.clusters.groups)
    figure, axes = _figure(5.6, 3.6)
    axes.plot(range(1, len(distortions) + 1), distortions, marker="o", color=COLOURS[0])
    axes.plot([count], [distortions[count - 1]], marker="o", markersize=13, markerfacecolor="none", color=_WARM)
    aside = {"xytext": (12, 12), "textcoords": "offset points"}
    axes.annotate(f"{count} clusters", (count, distortions[count - 1]), **aside, color=_WARM, fontweight="bold")
    axes.set_xticks(range(1, len(distortions) + 1))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("number of clusters")
    axes.set_ylabel("distortion")
    axes.grid(axis="y")
    says = f"Distortion is {number(distortions[0], 3)} for one; a cluster beyond {count} takes less than a tenth of it away."
    return "elbow", "The elbow of the distortion", says, _png(figure)


def _clusters(found: Characterization) -> Drawn:
    if found.clusters is None:
        return _NOTHING
    # The two targets; where one was not measured, the next column of the clusters.
    sides = [name for name in (*found.targets, *found.clusters.columns) if name in found.clusters.groups[0].centre]
    ordered = list(dict.fromkeys(sides))
    x, y = ordered[0], ordered[1] if len(ordered) > 1 else ordered[0]
    figure, axes = _figure(7.2, 5.2)
    for group in found.clusters.groups:
        colour = COLOURS[(group.number - 1) % len(COLOURS)]
        for made, face in ((False, colour), (True, "white")):
            own = [member for member in group.members if member.synthetic == made]
            at = [member.values[x] for member in own], [member.values[y] for member in own]
            label = None if made else f"cluster {group.number} ({len(group.members)} rows)"
            axes.scatter(*at, s=42, color=face, edgecolor=colour, linewidth=1.3, alpha=0.9, label=label)
    axes.set_xlabel(_short(x))
    axes.set_ylabel(_short(y))
    axes.grid()
    figure.legend(loc="outside upper center", ncols=min(4, len(found.clusters.groups)))
    says = f"{len(found.clusters.groups)} clusters by {', '.join(found.clusters.columns)}. Filled: collected. Hollow: synthetic."
    return "clusters", "Clusters of like jobs", says, _png(figure)


def _matrix(packing: Packing) -> tuple[str, str, bytes]:
    jobs = _jobs(packing.pairs)
    index_of = {name: index for index, name in enumerate(jobs)}
    cells: dict[tuple[int, int], list[float]] = {}
    doubtful = set()
    for pair in packing.pairs:
        for job, partner, value in (
            (pair.job_a, pair.job_b, pair.slowdown_a),
            (pair.job_b, pair.job_a, pair.slowdown_b),
        ):
            if job in index_of and partner in index_of and value is not None:
                cells.setdefault((index_of[job], index_of[partner]), []).append(value)
                if pair.against:
                    doubtful.add((index_of[job], index_of[partner]))
    values = np.full((len(jobs), len(jobs)), np.nan)
    for cell, found in cells.items():
        values[cell] = median(found)
    side = 2.6 + 0.42 * len(jobs)
    figure, axes = _figure(side + 0.9, side)
    top = max(1.5, float(np.nanpercentile(values, 95))) if cells else 1.5
    axes.set_facecolor(TRACK)
    image = axes.imshow(values, cmap=_colours("white", "#f0c9a4", "#d9822b", _WARM), vmin=1, vmax=top)
    size = 8 if len(jobs) <= 20 else 6
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            mark = "!" if (row, column) in doubtful else ""
            colour = "white" if value > 1 + 0.65 * (top - 1) else INK
            axes.text(column, row, f"{value:.2f}{mark}", ha="center", va="center", fontsize=size, color=colour)
    clusters = {n: c for pair in packing.pairs for n, c in zip((pair.job_a, pair.job_b), pair.clusters, strict=True)}
    labels = [_short(name) + (f" ({clusters[name]})" if clusters[name] else "") for name in jobs]
    for index in range(1, len(jobs)):
        if clusters[jobs[index - 1]] != clusters[jobs[index]]:
            axes.axvline(index - 0.5, color=SOFT, linewidth=1)
            axes.axhline(index - 0.5, color=SOFT, linewidth=1)
    axes.set_xticks(range(len(jobs)), labels, rotation=60, ha="left", rotation_mode="anchor", fontsize=9)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(jobs)), labels, fontsize=9)
    axes.tick_params(length=0)
    axes.set_ylabel("slowdown of this job")
    axes.set_xlabel("beside this one (in brackets: its cluster)")
    axes.xaxis.set_label_position("top")
    axes.spines[:].set_visible(False)
    scale = figure.colorbar(image, ax=axes, location="bottom", shrink=0.5, aspect=30, pad=0.02, extend="max")
    scale.outline.set_visible(False)
    more = len({name for pair in packing.pairs for name in (pair.job_a, pair.job_b)}) - len(jobs)
    says = "Slowdown of the row's job beside the column's. Grey: not measured. !: the row contradicts itself."
    return "Slowdown of each pair", says + (f" {more} more jobs are not drawn." if more else ""), _png(figure)


def _jobs(pairs: Sequence[MeasuredPairCost]) -> list[str]:
    """The jobs that are in most pairs, sorted by cluster and name."""
    counts: Counter[str] = Counter()
    clusters: dict[str, int] = {}
    for pair in pairs:
        for name, cluster in zip((pair.job_a, pair.job_b), pair.clusters, strict=True):
            counts[name] += 1
            clusters[name] = cluster or 0
    most = sorted(counts, key=lambda name: (-counts[name], name))[:_MOST_JOBS]
    return sorted(most, key=lambda name: (clusters[name], name))


_OF_A_TABLE = (_relevance, _interpolation, _synthetic, _elbow, _clusters)


def _figure(width: float, height: float, columns: int = 1, *, shared: bool = False) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, sharex=shared, sharey=shared)


def _png(figure: Any) -> bytes:
    file = BytesIO()
    # Without matplotlib's version in the file the same picture is the same bytes.
    figure.savefig(file, format="png", dpi=_DPI, metadata={"Software": None})
    return file.getvalue()


def _colours(*names: str) -> Any:
    """A colour map from the first to the last of these."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("gpuq", names)


def _short(name: str) -> str:
    """A printable label that is not too long and that matplotlib does not take for a formula."""
    shown = clean(name)
    if len(shown) > _LONGEST_NAME:
        shown = shown[: _LONGEST_NAME // 2 - 1] + "…" + shown[-_LONGEST_NAME // 2 :]
    return shown.replace("$", r"\$")
