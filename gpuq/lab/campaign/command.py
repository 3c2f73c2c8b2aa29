"""The process that `gpuq characterize` becomes: `python -m gpuq.lab.campaign LIST --out DIR [...]`.

It writes `runs.jsonl`, `singles.csv`, `pairs.csv` and `made.json` into the folder and reports each run on stderr. Ctrl-C,
SIGTERM and the end of `--for` end the processes of the current run, which is not recorded; the same command goes on from there.
A user sees no traceback unless GPUQ_DEBUG is set.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from gpuq.adapters.lock import take_lock
from gpuq.cli.quantities import parse_duration
from gpuq.cli.verbs.characterize import parse_tight
from gpuq.core.state.device_names import local_name
from gpuq.errors import BadInput, Conflict, GpuqError
from gpuq.lab.campaign.campaign import Aim, Campaign, check_time
from gpuq.lab.campaign.device import Choice, opened
from gpuq.lab.campaign.guard import check_free
from gpuq.lab.campaign.ledger import Ledger
from gpuq.lab.campaign.monitor import RunMonitor, Timing
from gpuq.lab.campaign.plan import Wanted
from gpuq.lab.campaign.progress import describe_left, say
from gpuq.lab.campaign.run import Bench
from gpuq.lab.campaign.session import session
from gpuq.lab.campaign.workload_list import WorkloadJob, read_list
from gpuq.settings import load


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and return the process's exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    asked = _parse(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt
    try:
        return _campaign(asked, words)
    except GpuqError as error:
        say(f"gpuq: {error.message}\n  {error.fix}")
        return error.exit_code
    except KeyboardInterrupt:
        say(f"gpuq: stopped; what was measured is in {asked.out}, and the same command goes on from there.")
        return 130
    except Exception as error:  # the user gets a sentence, not a traceback
        if os.environ.get("GPUQ_DEBUG"):
            raise
        say(f"gpuq: the campaign failed: {type(error).__name__}: {error}\n  GPUQ_DEBUG=1 shows where.")
        return 1


def _campaign(asked: argparse.Namespace, words: Sequence[str]) -> int:
    jobs = _chosen(read_list(asked.list), asked.only)
    wanted = Wanted(asked.pairs, asked.repeats, asked.tight, asked.retry_failed)
    settings = load()
    scratch = asked.out / "scratch"
    choice = Choice(asked.backend, asked.cores, asked.device, asked.sharing)
    foreign = {"most_foreign_pct": 100.0} if asked.busy_anyway else {}
    timing = msgspec.convert({"tight": asked.tight, **foreign, **dict(asked.timing)}, Timing, strict=False)
    with (
        _only_one(asked.out),
        opened(settings, choice, scratch) as (backend, target, sharing),
        closing(Ledger(asked.out / "runs.jsonl")) as ledger,
    ):
        deadline = None if asked.time is None else time.monotonic() + asked.time
        bench = Bench(RunMonitor(backend, target, scratch, os.environ, timing, lambda: check_time(deadline)))
        campaign = Campaign(Aim(jobs, wanted, target.device.type, sharing, asked.out), bench, ledger, deadline)
        if asked.plan:
            left, seconds = campaign.left(), campaign.seconds_left()
            if asked.json:
                _print({**left._asdict(), "seconds": round(seconds)})
            else:
                sys.stdout.write(f"To do: {describe_left(left)}; about {seconds / 60:.0f} minutes.\n")
            return 0
        if ended := bench.clear():
            say(f"Ended {ended} processes that an earlier start of this campaign had left.")
        if not asked.busy_anyway:
            check_free(backend, target.device, settings.home)
        cores = target.placement.cores
        others = os.sched_getaffinity(0) - set(cores or ())
        if cores is not None and others:
            # This process polls many times a second, so it leaves the cores that it measures.
            os.sched_setaffinity(0, others)
        ledger.add(session(target.device, cores, words, time.time()))
        where = f"{local_name(target.device) or target.device.id} ({target.device.type}, {sharing})"
        say(f"Measuring on {where}: {describe_left(campaign.left())}.")
        return _finish(campaign, asked, words, campaign.go())


def _finish(campaign: Campaign, asked: argparse.Namespace, words: Sequence[str], done: int) -> int:
    left, seconds = campaign.left(), campaign.seconds_left()
    if asked.json:
        _print({"out": str(asked.out), "made": done, "left": left._asdict(), "seconds_left": round(seconds)})
    say(f"{done} runs made; singles.csv and pairs.csv are in {asked.out}.")
    if left.all:
        again = shlex.join(["gpuq", "characterize", *words])
        say(f"Left: {describe_left(left)}, about {seconds / 60:.0f} minutes. Go on with:\n  {again}")
    else:
        say(f"All is measured. Describe it with: gpuq model characterize --data {shlex.quote(str(asked.out))}")
    return 0


def _print(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def _chosen(jobs: tuple[WorkloadJob, ...], only: Sequence[str]) -> tuple[WorkloadJob, ...]:
    names = {job.model for job in jobs} | {job.name for job in jobs}
    unknown = next((name for name in only if name not in names), None)
    if unknown is not None:
        raise BadInput(
            f"The list has no workload `{unknown}`.", fix=f"It has: {', '.join(sorted({j.model for j in jobs}))}."
        )
    return tuple(job for job in jobs if not only or job.model in only or job.name in only)


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


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of `gpuq characterize`, which has checked them. `--timing` is for tests, and for very quick or slow jobs."""
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
