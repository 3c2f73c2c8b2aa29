"""The report in a terminal: headline, one table of all candidates that fits 80 columns, and what each step brought."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuq.format import UNKNOWN, count, share, two_places
from gpuq.format import ratio as written
from gpuq.sim.report.report import SimulationReport
from gpuq.sim.report.summary import ratio

_HEAD = ("policy", "done: mean", "", "waits: mean", "p99", "slow: p95", "worst", "over", "saved", "OOM", "pass")
# The width of the table with wider gaps and the time of a pass, for the usual policies' names.
_ROOMY = 92


def show(report: SimulationReport, console: Console) -> None:
    """Print the report."""
    for sentence in report.headline:
        console.print(Text(sentence, style="bold"))
    console.print(_table(report, roomy=console.width >= _ROOMY))
    if report.steps:
        console.print(Text("\nWhat each brings:"))
    for step in report.steps:
        change = f"completion x{written(step.completion)}, waiting x{written(step.wait)}"
        console.print(Text(f"  {step.adds}: {change} ({step.policy} against {step.before})"))
    console.print(Text("\nWhat this rests on:"))
    of_runs = report.notes_of_runs
    if len(report.summaries[0].runs) > 1 and of_runs:
        of_runs = ("what differs between the seeds is on the page",)
    for note in (*report.notes, *of_runs):
        console.print(Text(f"· {note}", style="dim"))


def _table(report: SimulationReport, *, roomy: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1 if roomy else 0, 0, 0), show_edge=False)
    columns = len(_HEAD) if roomy else len(_HEAD) - 1
    for place, title in enumerate(_HEAD[:columns]):
        justify = "left" if place == 0 else "right"
        head = title.replace(": ", "\n")
        table.add_column(head, justify=justify, no_wrap=place > 0, overflow="fold", vertical="bottom")  # type: ignore[arg-type]
    compared = report.summary(report.baseline).median
    for summary in report.summaries:
        found = summary.median
        against = ratio(found.completion_mean_s, compared.completion_mean_s)
        cells = [
            summary.policy,
            two_places(found.completion_mean_s),
            UNKNOWN if against is None else f"x{against:.2f}",
            two_places(found.wait_mean_s),
            two_places(found.wait_p99_s),
            written(found.slowdown_p95),
            written(found.slowdown_worst),
            share(found.over_budget),
            share(found.packing_saving),
            count(found.ooms),
            two_places(found.decision_median_s),
        ]
        table.add_row(*cells[:columns], style="bold" if summary.policy == report.main else None)
    return table
