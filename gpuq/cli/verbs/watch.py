"""`gpuq watch ID`: a few lines about one job that are renewed until it ends. Exits with the job's code, as `gpuq wait`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from gpuq import format as fmt
from gpuq.cli import console, job_ids, job_labels, messages
from gpuq.cli.arguments import Parser, add_id, add_json_lines
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.quantities import whole
from gpuq.cli.verbs import follow
from gpuq.cli.verbs.queue import remaining
from gpuq.states import WAITING

_LEFT_BEHIND = 130
_BAR = 16


def run(words: list[str]) -> int:
    """Watch one job to its end. Returns its exit code, or 130 after Ctrl-C."""
    parser = Parser(
        "watch",
        "How a job gets on, renewed until it ends: progress, rate, predicted end, memory\n"
        "against its forecast, partners and slowdown. The exit code is the job's. Ctrl-C\n"
        "leaves the job running. Where the output is no terminal, a line each time.",
    )
    add_id(parser)
    add_json_lines(parser, "look at the job")
    parser.add_argument("-i", "--interval", metavar="SECS", help="seconds between two looks (default: 2)")
    options = parser.parse_args(words)
    interval_s = whole("--interval", options.interval, 1, 3600) or 2
    client = HttpClient.of(options)
    job_id = job_ids.one(client, options.id)
    on_screen = not options.json and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    shown = _Block(console.coloured(options.no_color)) if on_screen else None
    try:
        for job in _looks(client, job_id, interval_s):
            if shown is not None:
                shown.renew(job)
            elif options.json == "lines":
                console.print_json_line(job)
            elif not options.json:
                print(line(job, time.time()), flush=True)
    except KeyboardInterrupt:
        console.note(f"\ngpuq: job {job_id} goes on. `gpuq watch {job_id}` goes back to it.")
        return _LEFT_BEHIND
    if options.json and options.json != "lines":
        console.print_json(job)
    follow.note_end(job)
    return follow.exit_code(job)


def _looks(client: HttpClient, job_id: int, interval_s: int) -> Iterator[Record]:
    """The job at each look; the last time after it has ended. A restart of the daemon is waited out."""
    retry = follow.Retry()
    while True:
        job: Record = retry(partial(client.get, f"/api/v1/jobs/{job_id}"))
        yield job
        if retry(partial(follow.settled, client, job)):
            return
        time.sleep(interval_s)


class _Block:
    """Lines on the terminal that are written over each time."""

    def __init__(self, colour: bool) -> None:
        self._colour, self._height = colour, 0

    def renew(self, job: Record) -> None:
        """Show the job in place of what was shown before."""
        width = console.terminal_width()
        lines = screen(job, width, self._colour, time.time())
        up = f"\033[{self._height}A" if self._height else ""
        print(up + "".join(f"\r{text}\033[K\n" for text in lines) + "\033[J", end="", flush=True)
        self._height = len(lines)


def screen(job: Record, width: int, colour: bool, now: float) -> list[str]:
    """The lines about the job at the moment `now`: those that are known of a job in its state."""
    style = console.state_style(job["state"])
    state = console.paint(job["state"], style or "", colour and style is not None)
    name = console.shorten(fmt.clean(job.get("name") or ""), max(8, width - 30))
    title = f"{console.paint(f'job {job_labels.id_of(job)}', '1', colour)}  {name}  {state}"
    if job["state"] in WAITING:
        verdict = messages.lines(job["verdict"])[0] if job.get("verdict") else job_labels.full_reason(job)
        place = None if job.get("position") is None else str(job["position"])
        facts = [("waits", verdict), ("place in queue", place), ("starts", messages.expected_start(job))]
        return [title, *console.facts(facts, width)]
    return [title, *console.facts(_progress(job, now), width)]


def _progress(job: Record, now: float) -> Iterator[tuple[str, str | None]]:
    live, actual, forecast = (job.get(part) or {} for part in ("live", "actual", "forecast"))
    started, ended = job.get("started_at_unix"), job.get("ended_at_unix")
    ran_s = None if started is None else (ended or now) - started
    half_s, seen = forecast.get("duration_p50_s"), live or actual
    yield "device", ", ".join(map(fmt.clean, job.get("device_names") or [])) or None
    yield "ran for", fmt.duration(ran_s) if ended else _against(ran_s, half_s, fmt.duration, "expected")
    steps, rate = seen.get("steps"), live.get("rate") or actual.get("shared_rate") or actual.get("alone_rate")
    not_counted = f"not counted: {fmt.clean(seen['not_counted'])}" if seen.get("not_counted") else None
    yield "steps", not_counted if steps is None else f"{steps:,}" + ("" if rate is None else f", {fmt.rate(rate)}")
    if not ended:
        left = remaining(job, now)
        at = "" if half_s is None or started is None or started + half_s < now else f", at {_clock(started + half_s)}"
        yield "predicted end", None if left == fmt.UNKNOWN else f"{left}{at}"
    memory, upper = _either(live, actual, "memory_bytes"), forecast.get("upper_memory_bytes")
    yield "memory", _against(memory, upper, fmt.gib, "forecast at most")
    utilization, peak = _either(live, actual, "utilization_pct"), forecast.get("peak_utilization_pct")
    yield "utilisation", _against(utilization, peak, fmt.percent, "expected")
    yield "shares with", ", ".join(f"job {partner}" for partner in job.get("partners") or []) or None
    yield "slowdown", _slowdown(live if not ended else actual)
    if live.get("warned_of_idleness"):
        yield "idle", fmt.duration(live["idle_s"])


def _either(live: Record, actual: Record, name: str) -> float | None:
    """The value now, else the peak of an attempt that has ended."""
    value: float | None = live.get(name)
    return actual.get(f"peak_{name}") if value is None else value


def _against(value: float | None, forecast: float | None, text: Callable[[float | None], str], how: str) -> str | None:
    if value is None and forecast is None:
        return None
    of = "" if forecast is None else f" of {text(forecast)} {how}"
    share = None if value is None or not forecast else value / forecast
    return f"{_bar(share) if forecast else ''}{text(value)}{of}"


def _bar(share: float | None) -> str:
    return f"{console.bar(share, _BAR)} "


def _slowdown(seen: Record) -> str | None:
    measured, expected = seen.get("slowdown"), seen.get("expected_slowdown")
    parts = [] if measured is None else [fmt.slowdown(measured)]
    return ", ".join([*parts, *([] if expected is None else [f"{fmt.slowdown(expected)} expected"])]) or None


def _clock(moment: float) -> str:
    shape = "%H:%M" if moment - time.time() < 20 * 3600 else "%a %H:%M"
    return time.strftime(shape, time.localtime(moment))


def line(job: Record, now: float) -> str:
    """The same on one line, for a file or a pipe: `14:03:22 42 RUNNING gpu1 12:03 left ~48m …`; what is unknown is left out."""
    live, forecast, started = job.get("live") or {}, job.get("forecast") or {}, job.get("started_at_unix")
    words = [time.strftime("%H:%M:%S", time.localtime(now)), job_labels.id_of(job), job["state"]]
    if job["state"] in WAITING:
        reason = job_labels.short_reason(job)
        return " ".join([*words, *([f"position {job['position']}"] if job.get("position") else []), reason]).rstrip()
    facts = {
        "on": ",".join(map(fmt.clean, job.get("device_names") or [])) or None,
        "ran": None if started is None else fmt.duration((job.get("ended_at_unix") or now) - started),
        "left": remaining(job, now),
        "steps": live.get("steps"),
        "rate": None if live.get("rate") is None else f"{live['rate']:.3g}/s",
        "memory": _pair(
            live.get("memory_bytes"), forecast.get("upper_memory_bytes"), lambda value: fmt.gib(value, "G")
        ),
        "util": _pair(live.get("utilization_pct"), forecast.get("peak_utilization_pct"), fmt.percent),
        "beside": ",".join(map(str, job.get("partners") or [])) or None,
        "slowdown": None if live.get("slowdown") is None else fmt.slowdown(live["slowdown"]),
    }
    return " ".join([*words, *(f"{name} {value}" for name, value in facts.items() if value not in (None, fmt.UNKNOWN))])


def _pair(value: float | None, forecast: float | None, text: Callable[[float | None], str]) -> str | None:
    return None if value is None else f"{text(value)}/{text(forecast)}"
