"""A campaign's progress on stderr: a line for each run, what is left, and a progress bar if stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from gpuq.lab.campaign.ledger import MEASURED, MeasuredRun
from gpuq.lab.campaign.plan import Left

Show = Callable[[MeasuredRun | None, int, float], None]
"""Called with the run that was made (None: before the first), how many runs are left, and how many seconds they will take."""


@contextmanager
def progress_display() -> Iterator[Show]:
    """A function that shows progress while the block runs: lines, and a bar with the time left if stderr is a terminal."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield _plain_lines
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("measuring", total=None, left="")
        made = 0

        def show(run: MeasuredRun | None, left: int, seconds_left: float) -> None:
            nonlocal made
            if run is not None:
                made += 1
                shown.console.print(_describe(run), markup=False)
            shown.update(task, completed=made, total=made + left, left=f"about {seconds_left / 60:.0f} min left")

        yield show


def _plain_lines(run: MeasuredRun | None, left: int, seconds_left: float) -> None:
    if run is not None:
        say(f"{_describe(run)}; {left} left, about {seconds_left / 60:.0f} min")


def _describe(run: MeasuredRun) -> str:
    names = " + ".join(part.job for part in run.parts)
    if run.outcome != MEASURED:
        return f"{names}: {run.outcome}: {run.reason}"
    loose = "" if run.steady else " (not tight)"
    if len(run.parts) == 1:
        part = run.parts[0]
        return f"{names}: {_number(part.alone_rate)} steps/s{_width(part.alone_half_width)}, {run.seconds:.0f} s{loose}"
    slowed = ", ".join(f"{_number(part.slowdown)}{_width(part.slowdown_half_width)}" for part in run.parts)
    return f"{names}: slowdowns {slowed}, {run.seconds:.0f} s{loose}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _width(value: float | None) -> str:
    return "" if value is None else f" ±{100 * value:.1f}%"


def describe_left(left: Left) -> str:
    """The runs that are left, in words."""
    return f"{left.alone} jobs alone, {left.pairs} pairs, {left.again} again"


def say(sentence: str) -> None:
    """Print a sentence on stderr; stdout is for the result."""
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201
