"""`gpuq queue` (also `ls`, `ps`, `status`): a line per job, by default waiting and running ones."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from gpuq import format as fmt
from gpuq.cli import console, job_labels
from gpuq.cli.arguments import Parser, add_ids
from gpuq.cli.client import Client, Record
from gpuq.cli.job_labels import labels
from gpuq.errors import BadInput
from gpuq.states import ENDED, WAITING, JobState

LIVE = tuple(state.value for state in JobState if state not in ENDED)
_PAGE = 1000
# Ended jobs shown unless -n is given.
_ENDED_SHOWN = 30
# The columns of each table after ID, NAME and ST.
_ENDED = (
    console.Column("GPU", give_up=3),
    console.Column("MEM/PRED", give_up=4),
    console.Column("UTIL", right=True, give_up=1),
    console.Column("SLOW", right=True, give_up=2),
    console.Column("TIME", right=True, give_up=5),
    console.Column("REASON", least=30),
)
_RUNNING = (
    console.Column("GPU"),
    console.Column("SHARE", give_up=4),
    console.Column("MEM/PRED", give_up=5),
    console.Column("UTIL", right=True, give_up=1),
    console.Column("SLOW", right=True, give_up=3),
    console.Column("TIME", right=True),
    console.Column("LEFT", right=True, give_up=2),
)
_WAITING = (
    console.Column("SHARE", give_up=1),
    console.Column("PRED", right=True, give_up=2),
    console.Column("RUN", right=True, give_up=3),
    console.Column("START", right=True),
    console.Column("REASON", least=19),
)


def run(words: list[str]) -> int:
    """List jobs."""
    parser = Parser(
        "queue",
        "List running jobs, then waiting ones, the first to start on top.\n"
        "MEM/PRED: memory now, and the most expected. SLOW: slower than alone, with ~\n"
        "while only expected. LEFT: to the end. RUN: how long it would run. START: when\n"
        "it probably starts, where that is known. NAME: the arguments that differ.",
    )
    add_ids(parser, optional=True)
    parser.add_argument(
        "-a",
        "--all",
        action="store_true",
        help=f"all users' jobs, also the last {_ENDED_SHOWN} that ended (-n shows more)",
    )
    parser.add_argument("-u", "--user", metavar="WHO", choices=["me", "all"], default="me", help="me (default) or all")
    parser.add_argument("-s", "--state", metavar="STATE", help="only these states, by word or code: FAILED,TO")
    parser.add_argument(
        "-n", "--limit", type=int, default=None, metavar="N", help="at most N jobs, the newest; also of ended ones"
    )
    options = parser.parse_args(words)
    jobs, older = _jobs(Client.of(options), options)
    if options.json:
        console.print_json(jobs)
    elif jobs:
        print("\n".join(screen(jobs, console.terminal_width(), console.coloured(options.no_color))), flush=True)
        if older:
            console.note(f"gpuq: only the last {_ENDED_SHOWN} ended jobs are shown; -n 500 shows the newest 500 jobs.")
    else:
        everything = options.all or options.state or options.ids
        console.note(
            "No jobs." if everything else "No waiting or running jobs; `gpuq queue --all` lists ended ones too."
        )
    return 0


def screen(jobs: Sequence[Record], width: int, colour: bool, now: float | None = None) -> list[str]:
    """Tables of ended, running and waiting jobs, the latter in the order of their start; then the number of each."""
    at = time.time() if now is None else now
    names = dict(zip((job["id"] for job in jobs), labels(jobs), strict=True))
    waiting = sorted((job for job in jobs if job["state"] in WAITING), key=_start_order)
    running = [job for job in jobs if job["state"] in LIVE and job["state"] not in WAITING]
    ended = [job for job in jobs if job["state"] not in LIVE]
    lines: list[str] = []
    for columns, row, some in ((_ENDED, _ended, ended), (_RUNNING, _running, running), (_WAITING, _waiting, waiting)):
        if some:
            rows = [row(job, names[job["id"]], at) for job in some]
            styles = [console.state_style(job["state"]) for job in some] if colour else []
            lines += [*([""] if lines else []), *_table(columns, rows, width, styles)]
    return [*lines, *(["", *console.wrapped(totals(jobs), width)] if len(jobs) > 1 else [])]


def totals(jobs: Sequence[Record]) -> str:
    """`16 running, 172 waiting, 2 held, 3 failed`."""
    active = sum(job["state"] in LIVE and job["state"] not in WAITING for job in jobs)
    counts = {"running": active, "waiting": 0, "held": 0}
    for job in jobs:
        word = "waiting" if job["state"] == "PENDING" else job["state"].lower().replace("_", " ")
        if job["state"] in WAITING or job["state"] not in LIVE:
            counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _start_order(job: Record) -> tuple[bool, float, int]:
    """Sort key: the order of starts, held jobs last."""
    position = job.get("position")
    return job["state"] == "HELD", float("inf") if position is None else position, int(job["id"])


def _table(
    columns: Sequence[console.Column], rows: Sequence[Sequence[str]], width: int, styles: Sequence[str | None]
) -> list[str]:
    """The table without empty columns. Names keep the width that distinguishes jobs, so other columns are dropped first."""
    wanted = max(len(name.shorter[-1]) if isinstance(name, console.Cell) else len(name) for _, name, *_ in rows)
    every = (
        console.Column("ID"),
        console.Column("NAME", least=min(wanted, width * 9 // 20)),
        console.Column("ST"),
        *columns,
    )
    kept = [i for i in range(len(every)) if i < _OF_EACH or any(row[i] not in ("", "-") for row in rows)]
    return console.table([every[i] for i in kept], [[row[i] for i in kept] for row in rows], width, styles)


_OF_EACH = 3


def parse_states(text: str) -> list[str]:
    """State words of `FAILED,TO`. Raises BadInput."""
    by_code = {code: state for state, code in console.STATE_CODES.items()}
    states = []
    for part in text.upper().split(","):
        state = by_code.get(part.strip(), part.strip())
        if state not in console.STATE_CODES:
            raise BadInput(f"there is no state `{part}`.", fix=f"States: {', '.join(console.STATE_CODES)}.")
        states.append(state)
    return states


def _jobs(client: Client, options: argparse.Namespace) -> tuple[list[Record], bool]:
    """(the requested jobs, whether older ended ones were left out)."""
    if options.ids:
        from gpuq.cli.quantities import parse_ids
        from gpuq.cli.verbs.follow import jobs_of

        return jobs_of(client, parse_ids(options.ids)), False
    if options.limit is not None and options.limit < 1:
        raise BadInput("--limit must be at least 1.")
    states = parse_states(options.state) if options.state else ([] if options.all else LIVE)
    owner = "all" if options.all else options.user
    older = False
    if options.json or options.limit is not None or set(states) == set(LIVE):
        jobs = _newest(client, ",".join(states) or None, owner, options.limit)
    else:
        jobs, older = _recent(client, states or list(console.STATE_CODES), owner)
    # Running jobs by id, then waiting ones in the order of their start.
    return sorted(
        jobs, key=lambda job: (job["state"] in WAITING, *(_start_order(job) if job["state"] in WAITING else ()))
    ), older


def _recent(client: Client, states: Sequence[str], owner: str) -> tuple[list[Record], bool]:
    """(all live jobs of these states and the latest ended ones, whether there are older ended ones)."""
    live, ended = ([state for state in states if (state in LIVE) == wanted] for wanted in (True, False))
    past = _newest(client, ",".join(ended), owner, _ENDED_SHOWN + 1) if ended else []
    now = _newest(client, ",".join(live), owner, None) if live else []
    return [*past[-_ENDED_SHOWN:], *now], len(past) > _ENDED_SHOWN


def _newest(client: Client, states: str | None, owner: str, limit: int | None) -> list[Record]:
    """The newest `limit` jobs (None: all), by id."""
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
    """The device; of several the first and the number of others: `cpu0 +1`."""
    more = len(job.get("devices") or []) - 1
    return (fmt.device_name(job) or "-") + (f" +{more}" if more > 0 else "")


def _ended(job: Record, name: str, now: float) -> list[str]:
    return [*_running(job, name, now)[:4], *_running(job, name, now)[5:9], job_labels.short_reason(job)]


def _running(job: Record, name: str, now: float) -> list[str]:
    live, actual, forecast = (job.get(part) or {} for part in ("live", "actual", "forecast"))
    return [
        str(job["id"]),
        name,
        _code(job),
        _device(job),
        _share(job),
        _memory(live.get("memory_bytes") or actual.get("peak_memory_bytes"), forecast.get("upper_memory_bytes")),
        fmt.percent(_first(live.get("utilization_pct"), actual.get("peak_utilization_pct"))),
        _slow(live, actual),
        _time(job, now),
        _left(job, forecast, now),
    ]


def _waiting(job: Record, name: str, now: float) -> list[str]:
    forecast, expected = job.get("forecast") or {}, job.get("expected_start")
    upper = forecast.get("upper_memory_bytes")
    return [
        str(job["id"]),
        name,
        _code(job),
        _share(job),
        "-" if upper is None else fmt.gib(upper, "G"),
        _left(job, forecast, now),
        _start(expected, now),
        job_labels.short_reason(job),
    ]


def _start(expected: Record | None, now: float) -> str:
    if not expected:
        return "-"
    left = expected["p50_unix"] - now
    return f"~{fmt.about(left)}" if left >= 1 else "soon"


def _code(job: Record) -> str:
    return str(console.STATE_CODES.get(job["state"], job["state"]))


def _share(job: Record) -> str:
    if partners := job.get("partners"):
        return "+" + ",".join(map(str, partners))
    return "never" if job.get("share") == "never" else "-"


def _memory(now: float | None, predicted: float | None) -> str:
    if now is None and predicted is None:
        return "-"
    left, right = ("?" if value is None else fmt.gib(value, "G") for value in (now, predicted))
    return f"{left.removesuffix(right[-1])}/{right}"


def _slow(live: Record, actual: Record) -> str:
    """The slowdown measured now or over the whole job; with ~ if it is only expected."""
    measured = _first(live.get("slowdown"), actual.get("slowdown"))
    if measured is not None:
        return fmt.slowdown(measured)
    expected = live.get("expected_slowdown")
    return "-" if expected is None else f"~{fmt.slowdown(expected)}"


def _time(job: Record, now: float) -> str:
    started, ended = job.get("started_at_unix"), job.get("ended_at_unix")
    return "-" if started is None else fmt.duration((now if ended is None else ended) - started)


def _left(job: Record, forecast: Record, now: float) -> str:
    expected, started = forecast.get("duration_p50_s"), job.get("started_at_unix")
    if expected is None or job["state"] not in LIVE:
        return "-"
    left = expected if started is None else expected - (now - started)
    return f"~{fmt.about(left)}" if left > 0 else "soon"


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
