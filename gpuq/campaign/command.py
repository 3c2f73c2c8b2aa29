"""`gpuq characterize`, as a process of its own: `python -m gpuq.campaign LIST --out DIR [...]`.

Arrives: a list of workloads, a device, and what is wanted. Leaves: `runs.jsonl`, `singles.csv`, `pairs.csv` and `made.json` in
the folder, and a word on each run to stderr. Ctrl-C, SIGTERM and the end of `--for` end what runs, whose run is not noted, and
leave a folder to go on from with the same command. No traceback reaches a user unless GPUQ_DEBUG is set.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from gpuq.adapters.lock import take_lock
from gpuq.campaign.files import write_tables
from gpuq.campaign.guard import check_free
from gpuq.campaign.ledger import MEASURED, Ledger, Run
from gpuq.campaign.made import session
from gpuq.campaign.place import Choice, opened
from gpuq.campaign.plan import Left, Plan, Wanted
from gpuq.campaign.run import Bench
from gpuq.campaign.timing import Timing
from gpuq.campaign.work import Job, read_list
from gpuq.cli.characterize import parse_tight
from gpuq.cli.quantities import parse_duration
from gpuq.errors import BadInput, Conflict, GpuqError
from gpuq.settings import load

# How long a run takes before one was made: a framework's import, a warm-up, and the measurement.
_USUAL_S = {1: 20.0, 2: 40.0}


class _OutOfTime(Exception):
    """The time of `--for` is over."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the process's exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    asked = _parse(words)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _campaign(asked, words)
    except GpuqError as error:
        _say(f"gpuq: {error.message}\n  {error.fix}")
        return error.exit_code
    except KeyboardInterrupt:
        _say(f"gpuq: stopped; what was measured is in {asked.out}, and the same command goes on from there.")
        return 130
    except Exception as error:  # the last fence: a person gets a sentence
        if os.environ.get("GPUQ_DEBUG"):
            raise
        _say(f"gpuq: the campaign failed: {type(error).__name__}: {error}\n  GPUQ_DEBUG=1 shows where.")
        return 1


def _campaign(asked: argparse.Namespace, words: Sequence[str]) -> int:
    jobs = _chosen(read_list(asked.list), asked.only)
    wanted = Wanted(asked.pairs, asked.repeats, asked.tight, asked.retry_failed)
    settings = load()
    scratch = asked.out / "scratch"
    choice = Choice(asked.backend, asked.cores, asked.device, asked.sharing)
    with (
        _only_one(asked.out),
        opened(settings, choice, scratch) as (backend, place, sharing),
        closing(Ledger(asked.out / "runs.jsonl")) as ledger,
    ):
        deadline = None if asked.time is None else time.monotonic() + asked.time
        bench = Bench(backend, place, scratch, os.environ, _timing(asked), lambda: _check_time(deadline))
        campaign = Campaign(Asked(jobs, wanted, place.device.type, sharing, asked.out), bench, ledger, deadline)
        if asked.plan:
            return _show_plan(campaign, asked.json)
        if left := bench.clear():
            _say(f"Ended {left} processes that an earlier start of this campaign had left.")
        if not asked.busy_anyway:
            check_free(backend, place.device, settings.home)
        _step_aside(place.placement.cores)
        ledger.add(session(place.device, place.placement.cores, words, time.time()))
        _say(f"Measuring on {place.device.id} ({place.device.type}, {sharing}): {_told(campaign.left())}.")
        return _finish(campaign, asked, words, campaign.go())


@dataclass(frozen=True)
class Asked:
    """What is measured, and on what."""

    jobs: tuple[Job, ...]
    wanted: Wanted
    device_type: str
    sharing: str
    out: Path


class Campaign:
    """One start: what is left is measured, run by run, and each is noted before the next begins."""

    def __init__(self, asked: Asked, bench: Bench, ledger: Ledger, deadline: float | None) -> None:
        self._asked = asked
        self._bench = bench
        self._ledger = ledger
        self._deadline = deadline
        self._before = len(self.runs())

    def runs(self) -> list[Run]:
        """Those so far on this type of device, under this way of sharing."""
        mine = (self._asked.device_type, self._asked.sharing)
        return [run for run in self._ledger.runs if (run.device_type, run.sharing) == mine]

    def left(self) -> Left:
        """What is still to be done."""
        return self._plan().left()

    def seconds_left(self) -> float:
        """How long that will take, by the runs so far."""
        left = self.left()
        return left.alone * self._usual_s(1) + left.pairs * self._usual_s(2) + left.again * self._usual_s(2)

    def go(self) -> int:
        """Measure until all is done or the time is over; how many runs were made."""
        made = 0
        self._write()
        with _bar() as tell:
            tell(self, None)
            while (jobs := self._plan().next()) is not None and self._time_for(len(jobs)):
                try:
                    run = self._measure(jobs)
                except _OutOfTime:
                    break
                self._ledger.add(run)
                self._write()
                made += 1
                tell(self, run)
        return made

    def _write(self) -> None:
        write_tables(self._asked.out, self._asked.jobs, self._ledger.runs, self._ledger.sessions)

    def _measure(self, jobs: Sequence[Job]) -> Run:
        if len(jobs) == 1:
            return self._bench.alone(jobs[0], self._asked.sharing)
        return self._bench.pair(jobs[0], jobs[1], self._asked.sharing)

    def _plan(self) -> Plan:
        return Plan(self._asked.jobs, self.runs(), self._asked.wanted, self._before)

    def _time_for(self, jobs: int) -> bool:
        return self._deadline is None or time.monotonic() + self._usual_s(jobs) < self._deadline

    def _usual_s(self, jobs: int) -> float:
        seconds = [run.seconds for run in self.runs() if len(run.parts) == jobs and run.outcome == MEASURED]
        return fmean(seconds) if seconds else _USUAL_S[jobs]


def describe(run: Run) -> str:
    """One run in one line."""
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


def _told(left: Left) -> str:
    return f"{left.alone} jobs alone, {left.pairs} pairs, {left.again} again"


def _show_plan(campaign: Campaign, as_json: bool) -> int:
    left = campaign.left()
    if as_json:
        _print({**left._asdict(), "seconds": round(campaign.seconds_left())})
    else:
        sys.stdout.write(f"To do: {_told(left)}; about {campaign.seconds_left() / 60:.0f} minutes.\n")
    return 0


def _finish(campaign: Campaign, asked: argparse.Namespace, words: Sequence[str], done: int) -> int:
    left = campaign.left()
    if asked.json:
        _print(
            {
                "out": str(asked.out),
                "made": done,
                "left": left._asdict(),
                "seconds_left": round(campaign.seconds_left()),
            }
        )
    _say(f"{done} runs made; singles.csv and pairs.csv are in {asked.out}.")
    if left.all:
        again = shlex.join(["gpuq", "characterize", *words])
        _say(f"Left: {_told(left)}, about {campaign.seconds_left() / 60:.0f} minutes. Go on with:\n  {again}")
    else:
        _say(f"All is measured. Describe it with: gpuq model characterize --data {shlex.quote(str(asked.out))}")
    return 0


def _print(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def _chosen(jobs: tuple[Job, ...], only: Sequence[str]) -> tuple[Job, ...]:
    names = {job.model for job in jobs} | {job.name for job in jobs}
    unknown = next((name for name in only if name not in names), None)
    if unknown is not None:
        raise BadInput(
            f"The list has no workload `{unknown}`.", fix=f"It has: {', '.join(sorted({j.model for j in jobs}))}."
        )
    return tuple(job for job in jobs if not only or job.model in only or job.name in only)


def _timing(asked: argparse.Namespace) -> Timing:
    foreign = {"most_foreign_pct": 100.0} if asked.busy_anyway else {}
    return msgspec.convert({"tight": asked.tight, **foreign, **dict(asked.timing)}, Timing, strict=False)


def _check_time(deadline: float | None) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise _OutOfTime


def _step_aside(cores: tuple[int, ...] | None) -> None:
    """This process looks many times a second: on other cores than those it measures, where there are any."""
    others = os.sched_getaffinity(0) - set(cores or ())
    if cores is not None and others:
        os.sched_setaffinity(0, others)


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    lock = take_lock(folder / ".lock")
    if lock is None:
        raise Conflict(f"A campaign runs in {folder} already.", fix="Wait for it, or name another folder with --out.")
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def _bar() -> Iterator[Callable[[Campaign, Run | None], None]]:
    """A progress bar with the time left on stderr where that is a terminal; a line for each run either way."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield _plain_lines
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("measuring", total=None, left="")
        made = 0

        def tell(campaign: Campaign, run: Run | None) -> None:
            nonlocal made
            if run is not None:
                made += 1
                shown.console.print(describe(run), markup=False)
            left = f"about {campaign.seconds_left() / 60:.0f} min left"
            shown.update(task, completed=made, total=made + campaign.left().all, left=left)

        yield tell


def _plain_lines(campaign: Campaign, run: Run | None) -> None:
    if run is not None:
        _say(f"{describe(run)}; {campaign.left().all} left, about {campaign.seconds_left() / 60:.0f} min")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The words of `gpuq characterize`, which has judged them; `--timing` is for who measures something very quick or slow."""
    parser = argparse.ArgumentParser(prog="gpuq characterize", allow_abbrev=False)
    add = parser.add_argument
    add("list", type=Path)
    add("--out", type=Path, default=Path("measurements"))
    add("--device")
    add("--backend", choices=["auto", "nvml", "cpu"], default="auto")
    add("--cores", type=int, default=1)
    add("--sharing", choices=["time-slicing", "mps"])
    add("--pairs", type=lambda text: None if text == "all" else int(text))
    add("--only", action="append", default=[])
    add("--tight", type=parse_tight, default=0.03)
    add("--repeats", type=int, default=3)
    add("--timing", type=_timing_word, action="append", default=[])
    add("--for", type=parse_duration, dest="time")
    add("--retry-failed", action="store_true")
    add("--busy-anyway", action="store_true")
    add("--plan", action="store_true")
    add("--json", action="store_true")
    return parser.parse_args(arguments)


def _timing_word(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201  for the person, beside the result on stdout


if __name__ == "__main__":
    sys.exit(main())
