"""The report as one HTML file that needs nothing else: no script, no link, pictures inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuq.document import render
from gpuq.format import UNKNOWN
from gpuq.lab.characterize.plots import Plot
from gpuq.lab.characterize.relevance import RULE
from gpuq.lab.characterize.report import CharacterizationReport
from gpuq.lab.characterize.text import errors, number, percent


def page(report: CharacterizationReport, plots: Sequence[Plot]) -> str:
    """The page as HTML text. The same report and plots give the same bytes."""
    return render(
        Path(__file__).with_name("page.html"),
        title=f"{report.source} · gpuq",
        report=report,
        plots=plots,
        rule=RULE,
        errors=errors,
        number=number,
        percent=percent,
        unknown=UNKNOWN,
    )
