"""The report as one HTML file that needs nothing else: no script, no link, no network; light or dark as the reader's system is.

The same report gives the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from gpuq.document import render
from gpuq.format import count, hours, share, two_places
from gpuq.format import ratio as written
from gpuq.sim.report.figures import MEASURED, RunFigures
from gpuq.sim.report.plots import Colours, frontier, gantts, slowdowns, times
from gpuq.sim.report.report import SimulationReport
from gpuq.sim.report.summary import ratio
from gpuq.sim.report.svg import Picture

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
    return render(
        Path(__file__).with_name("page.html"),
        title=f"{report.title} · gpuq simulate",
        report=report,
        titles=_TITLES,
        figure=_figure,
        ratio_of=ratio,
        pictures=_pictures(report),
        known=[one for one in MEASURED if any(getattr(each.median, one.name) is not None for each in report.summaries)],
        measured=MEASURED,
    )


def _pictures(report: SimulationReport) -> dict[str, list[Picture]]:
    """Pictures by their heading."""
    names = [summary.policy for summary in report.summaries]
    colours = Colours.of_all(names, report.main, report.baseline)
    plot_data = {found.policy: found for found in report.plot_data}
    shown = [plot_data[name] for name in dict.fromkeys((report.baseline, report.main)) if name in plot_data]
    ordered = [plot_data[name] for name in names if name in plot_data]
    return {
        "Who had which device": gantts(shown),
        "Completion": times(ordered, "completions", colours),
        "Waiting": times(ordered, "waits", colours),
        "Slowdown": slowdowns(ordered, report.budget, colours),
        "What sharing saved, and what it cost": frontier(report.summaries, colours),
    }


def _figure(found: RunFigures, name: str) -> str:
    return _WRITE[_UNITS[name]](getattr(found, name))
