"""The process that `gpuq simulate` becomes: plays the candidates and shows a report.

The result goes to stdout, as a table or as JSON, and the page to a file. Errors, the progress bar and other messages go to
stderr. A user sees no traceback unless GPUQ_DEBUG is set.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gpuq.errors import BadInput, Failure, GpuqError
from gpuq.settings import GROUPS, load, setting_fields
from gpuq.sim.bound import can_be_computed
from gpuq.sim.compare import ComparedRun, Comparison, check, compare, hide_faults
from gpuq.sim.named import rivals, usual
from gpuq.sim.report.figures import BUDGET
from gpuq.sim.report.page import page
from gpuq.sim.report.report import SimulationReport, to_json
from gpuq.sim.report.summary import summarise
from gpuq.sim.report.table import show
from gpuq.sim.scenario import HISTORY

_PAGE = Path("gpuq-simulation.html")
_FORECASTS = {
    "learned": "forecasts: gpuq's own learning, knowing nothing at the start and trained each virtual night",
    "oracle": "forecasts: every duration and every slowdown is known beforehand, so this is a bound and not what gpuq can do",
    "cold": "forecasts: none, so no job is known well enough to share",
}
_TRAIN_EXTRA = "pip install 'gpuq-daemon[train]'"
_UNTRAINED = f"forecasts: gpuq's own history of each kind, without the nightly training, which needs {_TRAIN_EXTRA}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, and return the process's exit code."""
    options = _parser().parse_args(arguments)
    hide_faults()
    try:
        comparison = _comparison(options)
        check(comparison)
        with _progress_bar(len(comparison.tasks)) as show_progress:
            runs = compare(comparison, progress=show_progress)
        report = report_of(comparison, runs)
        if options.json:
            sys.stdout.write(json.dumps(to_json(report), allow_nan=False, indent=2) + "\n")
        else:
            plain = bool(os.environ.get("NO_COLOR"))
            show(report, Console(width=max(Console().width, 80), highlight=False, no_color=plain))
        sys.stdout.flush()
        written = _write(report, options)
    except GpuqError as error:
        _print_error(f"gpuq: {error.message}\n  {error.fix}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # the user gets a sentence, not a traceback
        if os.environ.get("GPUQ_DEBUG"):
            raise
        _print_error(f"gpuq: the simulation failed: {type(error).__name__}: {error}\n  GPUQ_DEBUG=1 shows where.")
        return 1
    if written is not None:
        _print_error(f"Wrote {written}.")
    return 0


def report_of(comparison: Comparison, runs: Sequence[ComparedRun]) -> SimulationReport:
    """The report of these runs, which are in the order of `comparison.tasks`."""
    summaries = summarise(one.figures for one in runs)
    # Those of all runs come first. The others are of one seed or of one policy.
    by_run = [one.notes for one in runs]
    notes = dict.fromkeys(note for one in by_run for note in one)
    of_all = [note for note in notes if all(note in one for one in by_run)]
    return SimulationReport(
        title=f"{runs[0].figures.trace}; world: {runs[0].figures.world}",
        main=comparison.main,
        baseline=comparison.baseline,
        chain=comparison.chain,
        budget=comparison.budget,
        summaries=tuple(summaries),
        plot_data=tuple(one.plot_data for one in runs if one.figures.seeds == comparison.seeds[:1]),
        faults=tuple(dict.fromkeys(one.fault for one in runs if one.fault is not None)),
        notes=(*_notes(comparison), *of_all),
        notes_of_runs=tuple(note for note in notes if note not in of_all),
    )


def _notes(comparison: Comparison) -> Iterator[str]:
    from gpuq.sim.learned import can_train

    untrained = comparison.forecasts == "learned" and not can_train()
    yield _UNTRAINED if untrained else _FORECASTS[comparison.forecasts]
    if comparison.tried:
        yield f"settings tried: {', '.join(comparison.tried)}"
    if not can_be_computed():
        yield f"the most that sharing could save is not computed: that needs SciPy ({_TRAIN_EXTRA})"


def _comparison(options: argparse.Namespace) -> Comparison:
    settings = load({**os.environ, **overrides(options.set)})
    if options.trace == HISTORY:
        # Opening the record would create an empty one where no gpuq has run yet.
        record = settings.home.database
        if settings.database_url == f"sqlite:///{record}" and not record.exists():
            raise BadInput(
                "No job has run here yet, so there is no history to play.",
                fix="Run some jobs first, or play a trace: `gpuq simulate jobs.csv --gpus 8` (docs/simulate.md).",
            )
    names = [name for part in options.policy for name in part.split(",") if name]
    names = names or list(usual(settings.scheduling.policy))
    return Comparison(
        candidates=tuple(dict.fromkeys([*names, *(rivals() if options.rivals else ())])),
        settings=settings,
        source=options.trace,
        world=options.world,
        gpus=options.gpus,
        load=options.load,
        jobs=options.jobs,
        seeds=tuple(range(1, options.seeds + 1)),
        forecasts=options.forecasts,
        budget=options.budget,
        tried=tuple(options.set),
    )


def overrides(words: Sequence[str]) -> dict[str, str]:
    """Settings such as `admission.max_slowdown=1.2` as environment variables, so that `settings.load` checks them. Raises
    BadInput.
    """
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        group, dot, setting = name.partition(".")
        if not equals or not dot or group not in GROUPS or setting not in setting_fields(group):
            raise BadInput(
                f"--set `{word}` names no setting.",
                fix="Write GROUP.SETTING=VALUE, as in --set admission.max_slowdown=1.2.",
            )
        found[f"GPUQ_{group}_{setting}".upper()] = value
    return found


@contextmanager
def _progress_bar(runs: int) -> Iterator[Callable[[Sequence[float]], None] | None]:
    """A function that shows progress as a bar on stderr; None where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(f"{runs} run{'s' if runs > 1 else ''}", total=float(runs))

        def show_progress(shares: Sequence[float]) -> None:
            shown.update(task, completed=sum(shares))

        yield show_progress


def _write(report: SimulationReport, options: argparse.Namespace) -> Path | None:
    """Write the page to the file named, or to the default file unless JSON was asked for. Returns the file, None if none."""
    path: Path | None = options.html or (None if options.json else _PAGE)
    if path is None:
        return None
    try:
        path.write_text(page(report), encoding="utf-8")
    except OSError as error:
        problem = f"{path} cannot be written: {error.strerror or error}."
        if options.html is not None:
            raise Failure(problem, fix="Name another file with --html.") from error
        _print_error(f"gpuq: no page with plots: {problem}\n  --html names another file.")
        return None
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpuq simulate", allow_abbrev=False)
    add = parser.add_argument
    add("trace", nargs="?", default=HISTORY)
    add("--policy", action="append", default=[])
    add("--rivals", action="store_true")
    add("--world")
    add("--gpus", type=int)
    add("--load", type=float)
    add("--jobs", type=int)
    add("--seeds", type=int, default=1)
    add("--forecasts", choices=["learned", "oracle", "cold"], default="learned")
    add("--set", action="append", default=[])
    add("--budget", type=float, default=BUDGET)
    add("--json", action="store_true")
    add("--html", type=Path)
    return parser


def _print_error(sentence: str) -> None:
    print(sentence, file=sys.stderr)  # noqa: T201 - stdout is for the result
