"""Plays what was asked and shows it: `gpuq simulate [TRACE] [...]`, as a process of its own.

Arrives: the arguments. Leaves: a table on stdout, or JSON, and the page in a file. What is said meanwhile, the progress bar on a
terminal too, goes to stderr. No traceback reaches a user unless GPUQ_DEBUG is set.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gpuq.errors import BadInput, Failure, GpuqError
from gpuq.settings import GROUPS, Settings, load
from gpuq.sim.bound import can_be_computed
from gpuq.sim.compare import ComparedRun, Comparison, check, compare
from gpuq.sim.named import rivals, usual
from gpuq.sim.report.figures import BUDGET
from gpuq.sim.report.page import page
from gpuq.sim.report.report import SimulationReport, to_json
from gpuq.sim.report.summary import summarise
from gpuq.sim.report.table import show

_PAGE = Path("gpuq-simulation.html")
HISTORY = "history"
_FORECASTS = {
    "learned": "forecasts: gpuq's own learning, knowing nothing at the start and trained each virtual night",
    "oracle": "forecasts: every duration and every slowdown is known beforehand, so this is a bound and not what gpuq can do",
    "cold": "forecasts: none, so nobody is known well enough to share",
}
_TRAIN_EXTRA = "pip install 'gpuq-daemon[train]'"
_UNTRAINED = f"forecasts: gpuq's own history of each kind, without the nightly training, which needs {_TRAIN_EXTRA}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate; the process's exit code."""
    options = _parser().parse_args(arguments)
    try:
        asked = _asked(options)
        check(asked)
        report = report_of(asked, _played(asked))
        _show(report, options.json)
        written = _write(report, options)
    except GpuqError as error:
        _say(f"gpuq: {error.message}\n  {error.fix}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # the last fence: a person gets a sentence
        if os.environ.get("GPUQ_DEBUG"):
            raise
        _say(f"gpuq: the simulation failed: {type(error).__name__}: {error}\n  GPUQ_DEBUG=1 shows where.")
        return 1
    if written is not None:
        _say(f"Wrote {written}.")
    return 0


def report_of(asked: Comparison, played: Sequence[ComparedRun]) -> SimulationReport:
    """The report of what was played."""
    summaries = summarise(one.figures for one in played)
    return SimulationReport(
        title=f"{played[0].figures.trace}; world: {played[0].figures.world}",
        main=asked.main,
        baseline=asked.baseline,
        chain=asked.chain,
        budget=asked.budget,
        summaries=tuple(summaries),
        plot_data=tuple(one.plot_data for one in played if one.figures.seeds == asked.seeds[:1]),
        notes=(*_told(asked), *dict.fromkeys(note for one in played for note in one.notes)),
    )


def _told(asked: Comparison) -> Iterator[str]:
    from gpuq.sim.learned import can_train

    untrained = asked.forecasts == "learned" and not can_train()
    yield _UNTRAINED if untrained else _FORECASTS[asked.forecasts]
    if asked.tried:
        yield f"settings tried: {', '.join(asked.tried)}"
    if not can_be_computed():
        yield f"the most that sharing could save is not computed: that needs SciPy ({_TRAIN_EXTRA})"


def _asked(options: argparse.Namespace) -> Comparison:
    settings = load({**os.environ, **overrides(options.set)})
    if options.trace == HISTORY:
        _check_record(settings)
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


def _check_record(settings: Settings) -> None:
    """A look at a gpuq that never ran creates nothing, and says what to do instead."""
    ours = settings.home.database
    if settings.database_url == f"sqlite:///{ours}" and not ours.exists():
        raise BadInput(
            "No job has run here yet, so there is no history to play.",
            fix="Run some jobs first, or play a trace: `gpuq simulate jobs.csv --gpus 8` (docs/simulate.md).",
        )


def overrides(asked: Sequence[str]) -> dict[str, str]:
    """`admission.max_slowdown=1.2` as the environment variable that says the same, so that one reader judges both."""
    found = {}
    for word in asked:
        name, equals, value = word.partition("=")
        group, dot, setting = name.partition(".")
        if not equals or not dot or group not in GROUPS or setting not in {one.name for one in fields(GROUPS[group])}:
            raise BadInput(
                f"--set `{word}` names no setting.",
                fix="Write GROUP.SETTING=VALUE, as in --set admission.max_slowdown=1.2.",
            )
        found[f"GPUQ_{group}_{setting}".upper()] = value
    return found


def _played(asked: Comparison) -> list[ComparedRun]:
    with _bar(len(asked.tasks)) as tell:
        return compare(asked, progress=tell)


@contextmanager
def _bar(runs: int) -> Iterator[Callable[[Sequence[float]], None] | None]:
    """A progress bar on stderr, if that is a terminal."""
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

        def tell(shares: Sequence[float]) -> None:
            shown.update(task, completed=sum(shares))

        yield tell


def _write(report: SimulationReport, options: argparse.Namespace) -> Path | None:
    """The page, where it was asked for or nothing else was."""
    path: Path | None = options.html or (None if options.json else _PAGE)
    if path is None:
        return None
    try:
        path.write_text(page(report), encoding="utf-8")
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror or error}."
        if options.html is not None:
            raise Failure(why, fix="Name another file with --html.") from error
        _say(f"gpuq: no page with plots: {why}\n  --html names another file.")
        return None
    return path


def _show(report: SimulationReport, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(to_json(report), allow_nan=False, indent=2) + "\n")
    else:
        show(report, Console(width=max(Console().width, 80), highlight=False, no_color=_plain(os.environ)))
    sys.stdout.flush()


def _plain(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("NO_COLOR"))


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


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)  # noqa: T201  for the person, beside the result on stdout
