"""The card's plots: predicted memory against measured, nominal against measured coverage, and the error of each kind.

PNG images of the candidate's forecasts for held-out attempts. matplotlib is imported inside, by the process that trains.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from gpuq.learn.statistics import student_quantile
from gpuq.learn.training.score import ScoredForecast

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
MOST_KINDS = 16
_INK, _ACCENT, _PALE = "#333333", "#2a6f97", "#c44536"
_GIB = 2**30


def draw(rows: Sequence[ScoredForecast], quantile: float) -> dict[str, bytes]:
    """`memory.png`, `calibration.png`, `kinds.png`; nothing where no row has an answer. Raises ImportError."""
    answered = [row for row in rows if row.forecast.known and row.outcome.peak_memory_bytes]
    if not answered:
        return {}
    from matplotlib.figure import Figure  # has no window and no global state; half a second, only when training

    images: dict[str, bytes] = {}
    for name, drawing in _DRAWINGS.items():
        figure = Figure(figsize=(5.2, 4.2), dpi=96, layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        drawing(axes, answered, quantile)
        out = io.BytesIO()
        figure.savefig(out, format="png", metadata={"Software": None})
        images[name] = out.getvalue()
    return images


def coverage(rows: Sequence[ScoredForecast], quantile: float) -> Iterator[tuple[float, float]]:
    """(level, share of the rows within the bound at that level).

    A bound is known at one level only. At others its distance from the point is scaled by the ratio of Student quantiles.
    """
    bounds = [(row.forecast.peak_memory_bytes or 1, row.forecast.upper_memory_bytes or 1) for row in rows]
    for level in LEVELS:
        stretch = student_quantile(level, 5.0) / student_quantile(quantile, 5.0)
        within = (
            _peak(row) <= point * (upper / point) ** stretch for row, (point, upper) in zip(rows, bounds, strict=True)
        )
        yield level, fmean(within)


def _peak(row: ScoredForecast) -> int:
    return row.outcome.peak_memory_bytes or 0


def _memory_plot(axes: Any, rows: Sequence[ScoredForecast], quantile: float) -> None:
    measured = [_peak(row) / _GIB for row in rows]
    upper = [(row.forecast.upper_memory_bytes or 0) / _GIB for row in rows]
    ends = [min([*measured, *upper]) * 0.8, max([*measured, *upper]) * 1.25]
    under = [m > u for m, u in zip(measured, upper, strict=True)]
    axes.plot(ends, ends, color=_INK, linewidth=0.8)
    axes.scatter(
        measured, upper, s=14, alpha=0.6, color=_ACCENT, linewidths=0, label=f"within ({len(rows) - sum(under)})"
    )
    failed = [(m, u) for m, u, wrong in zip(measured, upper, under, strict=True) if wrong]
    if failed:
        axes.scatter(*zip(*failed, strict=True), s=24, color=_PALE, marker="x", label=f"needed more ({len(failed)})")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured peak, GiB")
    axes.set(ylabel=f"{quantile:.0%} bound predicted, GiB", title="Memory: bound against truth")
    axes.legend(frameon=False, loc="upper left")


def _calibration_plot(axes: Any, rows: Sequence[ScoredForecast], quantile: float) -> None:
    levels, shares = zip(*coverage(rows, quantile), strict=True)
    axes.plot([45, 100], [45, 100], color=_INK, linewidth=0.8)
    axes.plot([100 * level for level in levels], [100 * share for share in shares], marker="o", color=_ACCENT)
    promised = fmean(_peak(row) <= (row.forecast.upper_memory_bytes or 0) for row in rows)
    axes.scatter([100 * quantile], [100 * promised], s=90, facecolors="none", edgecolors=_PALE, zorder=3)
    axes.annotate(
        f"promised {quantile:.0%}\nheld {promised:.1%}", (100 * quantile, 100 * promised), (72, 52), color=_PALE,
        arrowprops={"arrowstyle": "-", "color": _PALE, "linewidth": 0.6},
    )  # fmt: skip
    axes.set(xlim=(45, 101), ylim=(45, 101), xlabel="nominal coverage, %", ylabel="measured coverage, %")
    axes.set(title=f"Memory bounds: calibration on {len(rows)} attempts")


def _kinds_plot(axes: Any, rows: Sequence[ScoredForecast], quantile: float) -> None:
    del quantile
    errors: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        gap = abs((row.forecast.likeliest_utilization_pct or 0.0) - (row.outcome.peak_utilization_pct or 0.0))
        errors[row.outcome.kind].append(gap)
    worst = sorted(errors, key=lambda kind: -fmean(errors[kind]))[:MOST_KINDS][::-1]
    axes.barh(range(len(worst)), [fmean(errors[kind]) for kind in worst], color=_ACCENT, height=0.7)
    names = [kind if len(kind) <= 34 else f"…{kind[-33:]}" for kind in worst]
    labels = [f"{name}  ({len(errors[kind])})" for name, kind in zip(names, worst, strict=True)]
    axes.set_yticks(range(len(worst)), labels, fontsize=7)
    shown = f"{len(worst)} worst of {len(errors)} kinds" if len(errors) > len(worst) else "by kind"
    axes.set(xlabel="mean error of peak utilisation, points")
    axes.set_title(f"Utilisation: {shown}", loc="right")


_DRAWINGS = {"memory.png": _memory_plot, "calibration.png": _calibration_plot, "kinds.png": _kinds_plot}
