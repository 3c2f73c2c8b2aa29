"""`gpuq queue` (also `ls`, `ps`, `status`): one line per job, waiting and running ones unless asked for more."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from gpuq.cli import format as fmt
from gpuq.cli.arguments import Parser, add_ids
from gpuq.cli.client import Client, Record, print_json, talk
from gpuq.errors import BadInput

LIVE = ("PENDING", "HELD", "STARTING", "RUNNING", "COMPLETING")
WAITING = frozenset({"PENDING", "HELD"})
_PAGE = 1000
_COLUMNS = (
    fmt.Column("ID"),
    fmt.Column("NAME", least=8),
    fmt.Column("ST"),
    fmt.Column("GPU"),
    fmt.Column("SHARE", give_up=4),
    fmt.Column("MEM/PRED", give_up=5),
    fmt.Column("UTIL", right=True, give_up=2),
    fmt.Column("SLOW", right=True, give_up=1),
    fmt.Column("TIME", right=True),
    fmt.Column("LEFT", right=True, give_up=3),
    fmt.Column("REASON", least=19),
)


def run(words: list[str]) -> int:
    """List jobs."""
    parser = Parser(
        "queue",
        "List waiting and running jobs.\n"
        "MEM/PRED: memory now, and the most expected. SLOW: slower than alone,\n"
        "with ~ while only expected. LEFT: to the end; of a waiting job its whole run.",
    )
    add_ids(parser, optional=True)
    parser.add_argument("-a", "--all", action="store_true", help="everybody's jobs in every state, ended ones too")
    parser.add_argument("-u", "--user", metavar="WHO", choices=["me", "all"], default="me", help="me (default) or all")
    parser.add_argument("-s", "--state", metavar="STATE", help="only these states, by word or code: FAILED,TO")
    parser.add_argument("-n", "--limit", type=int, default=None, metavar="N", help="at most N jobs, the newest")
    options = parser.parse_args(words)
    jobs = _jobs(Client.of(options), options)
    if options.json:
        print_json(jobs)
    elif jobs:
        print("\n".join(screen(jobs, fmt.terminal_width(), fmt.coloured(options.no_color))))
    else:
        everything = options.all or options.state or options.ids
        talk("No jobs." if everything else "No waiting or running jobs; `gpuq queue --all` lists ended ones too.")
    return 0


def screen(jobs: Sequence[Record], width: int, colour: bool, now: float | None = None) -> list[str]:
    """The table's lines."""
    at = time.time() if now is None else now
    rows = [_row(job, at) for job in jobs]
    columns = [column for i, column in enumerate(_COLUMNS) if column.title != "REASON" or any(row[i] for row in rows)]
    styles = [fmt.state_style(job["state"]) for job in jobs] if colour else []
    return fmt.table(columns, [row[: len(columns)] for row in rows], width, styles)


def parse_states(text: str) -> list[str]:
    """State words of `FAILED,TO`. Raises BadInput."""
    by_code = {code: state for state, code in fmt.CODES.items()}
    states = []
    for part in text.upper().split(","):
        state = by_code.get(part.strip(), part.strip())
        if state not in fmt.CODES:
            raise BadInput(f"there is no state `{part}`.", fix=f"States: {', '.join(fmt.CODES)}.")
        states.append(state)
    return states


def _jobs(client: Client, options: argparse.Namespace) -> list[Record]:
    if options.ids:
        from gpuq.cli.follow import jobs_of
        from gpuq.cli.quantities import parse_ids

        return jobs_of(client, parse_ids(options.ids))
    if options.limit is not None and options.limit < 1:
        raise BadInput("--limit must be at least 1.")
    states = parse_states(options.state) if options.state else ([] if options.all else LIVE)
    jobs = _newest(client, ",".join(states) or None, "all" if options.all else options.user, options.limit)
    if options.all or options.state:
        return jobs
    # Running jobs first, as they stand before the queue.
    return sorted(jobs, key=lambda job: job["state"] in WAITING)


def _newest(client: Client, states: str | None, owner: str, limit: int | None) -> list[Record]:
    """The newest `limit` jobs (None: all), oldest of them first."""
    jobs: list[Record] = []
    after: int | None = None
    while limit is None or len(jobs) < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - len(jobs))
        page: Record = client.get("/api/v1/jobs", state=states, owner=owner, limit=size, after=after)
        jobs += page["jobs"]
        after = page.get("next")
        if after is None:
            break
    return sorted(jobs, key=lambda job: int(job["id"]))


def _device(job: Record) -> str:
    """The device; of several the first, and how many more: `cpu0 +1`."""
    more = len(job.get("devices") or []) - 1
    return (fmt.device_name(job) or "-") + (f" +{more}" if more > 0 else "")


def _row(job: Record, now: float) -> tuple[str, ...]:
    live = job.get("live") or {}
    actual = job.get("actual") or {}
    forecast = job.get("forecast") or {}
    return (
        str(job["id"]),
        fmt.clean(job.get("name") or "-"),
        str(fmt.CODES.get(job["state"], job["state"])),
        _device(job),
        _share(job),
        _memory(live.get("memory_bytes") or actual.get("peak_memory_bytes"), forecast.get("upper_memory_bytes")),
        fmt.percent(_first(live.get("utilization_pct"), actual.get("peak_utilization_pct"))),
        _slow(job, actual, forecast),
        _time(job, now),
        _left(job, forecast, now),
        fmt.clean(job.get("reason") or ""),
    )


def _share(job: Record) -> str:
    if partners := job.get("partners"):
        return "+" + ",".join(map(str, partners))
    return "never" if job.get("share") == "never" else "-"


def _memory(now: float | None, predicted: float | None) -> str:
    if now is None and predicted is None:
        return "-"
    left, right = ("?" if value is None else fmt.gib(value, "G") for value in (now, predicted))
    return f"{left.removesuffix(right[-1])}/{right}"


def _slow(job: Record, actual: Record, forecast: Record) -> str:
    measured = actual.get("slowdown")
    if measured is not None:
        return fmt.slowdown(measured)
    predicted = forecast.get("expected_slowdown")
    return f"~{fmt.slowdown(predicted)}" if job.get("partners") and predicted is not None else "-"


def _time(job: Record, now: float) -> str:
    started, expected = job.get("started_at_unix"), job.get("expected_start")
    if started is None:
        return f"in ~{fmt.about(max(0.0, expected['p50_unix'] - now))}" if expected else "-"
    ended = job.get("ended_at_unix")
    return fmt.duration((now if ended is None else ended) - started)


def _left(job: Record, forecast: Record, now: float) -> str:
    expected, started = forecast.get("duration_p50_s"), job.get("started_at_unix")
    if expected is None or job["state"] not in LIVE:
        return "-"
    left = expected if started is None else expected - (now - started)
    return f"~{fmt.about(left)}" if left > 0 else "soon"


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
