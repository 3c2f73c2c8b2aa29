"""`gpuq queue` (also `ls`, `ps`, `status`): a line per job, by default waiting and running ones."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence

from gpuq import format as fmt
from gpuq.cli import console, job_labels
from gpuq.cli.arguments import Parser, add_ids, add_json_lines
from gpuq.cli.client import HttpClient, Record
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
        "List arrays, then running jobs, then waiting ones, the first to start on top.\n"
        "MEM/PRED: memory now, and the most expected. SLOW: slower than alone, with ~\n"
        "while only expected. LEFT: to the end. RUN: how long it would run. START: when\n"
        "it probably starts, where that is known. NAME: the arguments that differ.\n"
        "~48m: half of such jobs take longer. <20m: nine in ten such jobs end by then.\n"
        "~48m?: such estimates were not checked against real starts yet.\n"
        "overdue 5m: that was expected 5 minutes ago at the latest, nine times in ten.\n"
        "UTIL ≤61%: at most, since other processes used the device too.",
    )
    add_ids(parser, optional=True)
    add_json_lines(parser, "job")
    add = parser.add_argument
    every = f"all users' jobs, also the last {_ENDED_SHOWN} that ended (-n shows more)"
    add("-a", "--all", action="store_true", help=every)
    add("-u", "--user", metavar="WHO", default="me", help="only jobs of me (default), of all, or of this user")
    add("-P", "--project", metavar="NAME", help="only jobs of this project; `*` as for --name")
    add("--name", metavar="NAME", help="only jobs of this name; `*` stands for any letters: 'sweep-*'")
    add("--kind", metavar="KIND", help="only jobs of this kind, as `gpuq show` has it; `*` as for --name")
    add("-s", "--state", metavar="STATE", help="only these states, by word or code: FAILED,TO")
    add("-r", "--array", action="store_true", help="each task of an array on a line of its own")
    add("-n", "--limit", type=int, metavar="N", help="at most N jobs, the newest; also of ended ones")
    options = parser.parse_args(words)
    jobs, older = _jobs(HttpClient.of(options), options)
    if options.json or jobs:
        console.show(options, jobs, screen)
        if older:
            console.note(f"gpuq: only the last {_ENDED_SHOWN} ended jobs are shown; -n 500 shows the newest 500 jobs.")
    else:
        console.note(_none(options))
    return 0


def _none(options: argparse.Namespace) -> str:
    """That there are no such jobs, and where there might be some."""
    in_states = options.ids or options.state or options.all
    chosen = options.ids or options.state or options.name or options.kind or options.project or options.user != "me"
    jobs = "No such jobs" if chosen else "No jobs"
    return f"{jobs}." if in_states else f"{jobs} wait or run; `--all` lists those that ended, too."


def screen(jobs: Sequence[Record], width: int, colour: bool, now: float | None = None) -> list[str]:
    """Tables of ended, running and waiting jobs, the latter in the order of their start; then the number of each."""
    at = time.time() if now is None else now
    arrays, jobs = [one for one in jobs if "count" in one], [one for one in jobs if "count" not in one]
    names = dict(zip((job["id"] for job in jobs), job_labels.labels(jobs), strict=True))
    waiting = sorted((job for job in jobs if job["state"] in WAITING), key=start_order)
    running = [job for job in jobs if job["state"] in LIVE and job["state"] not in WAITING]
    ended = [job for job in jobs if job["state"] not in LIVE]
    lines: list[str] = []
    if arrays:
        from gpuq.cli.arrays import table as array_table

        lines = array_table(arrays, width, at)
    for some in (ended, running, waiting):
        if some:
            styles = [console.state_style(job["state"]) for job in some] if colour else []
            lines += [*([""] if lines else []), *table(some, width, at, styles, names)]
    several = arrays or len(jobs) > 1
    return [*lines, *(["", *console.wrapped(totals([*arrays, *jobs]), width)] if several else [])]


def table(
    jobs: Sequence[Record],
    width: int,
    now: float,
    styles: Sequence[str | None] = (),
    names: dict[int, console.Cell] | None = None,
) -> list[str]:
    """A heading and a line for each of these jobs, which all run, all wait or all have ended. `names`: what tells them from more
    jobs than these."""
    names = names or dict(zip((job["id"] for job in jobs), job_labels.labels(jobs), strict=True))
    state = jobs[0]["state"]
    columns, row = (
        (_WAITING, _waiting) if state in WAITING else (_RUNNING, _running) if state in LIVE else (_ENDED, _ended)
    )
    return _table(columns, [row(job, names[job["id"]], now) for job in jobs], width, styles)


def totals(jobs: Sequence[Record]) -> str:
    """`16 running, 172 waiting, 2 held, 3 failed`."""
    counts = {"running": 0, "waiting": 0, "held": 0}
    for job in jobs:
        for state, count in (job["states"] if "count" in job else {job["state"]: 1}).items():
            word = "waiting" if state == "PENDING" else state.lower().replace("_", " ")
            word = "running" if state in LIVE and state not in WAITING else word
            counts[word] = counts.get(word, 0) + count
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def start_order(job: Record) -> tuple[bool, float, int]:
    """Sort key: the order of starts, held jobs last."""
    position = job.get("position")
    return job["state"] == "HELD", float("inf") if position is None else position, int(job["id"])


def _table(
    columns: Sequence[console.Column], rows: Sequence[Sequence[str]], width: int, styles: Sequence[str | None]
) -> list[str]:
    """The table without empty columns. Names keep the width that distinguishes jobs, so other columns are dropped first."""
    wanted = max(len(name.shorter[-1]) if isinstance(name, console.Cell) else len(name) for _, name, *_ in rows)
    name = console.Column("NAME", least=min(wanted, width * 9 // 20))
    every = (console.Column("ID"), name, console.Column("ST"), *columns)
    always = len(every) - len(columns)
    kept = [i for i in range(len(every)) if i < always or any(row[i] not in ("", "-") for row in rows)]
    return console.table([every[i] for i in kept], [[row[i] for i in kept] for row in rows], width, styles)


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


def _jobs(client: HttpClient, options: argparse.Namespace) -> tuple[list[Record], bool]:
    """(the requested jobs and arrays, whether older ended ones were left out)."""
    each = options.array or options.json or options.kind is not None  # an array has no kind, its tasks have
    if options.ids:
        return _named(client, options, each=each), False
    if options.limit is not None and options.limit < 1:
        raise BadInput("--limit must be at least 1.")
    states = parse_states(options.state) if options.state else ([] if options.all else LIVE)
    older = False
    where = {name: getattr(options, name) for name in ("name", "kind", "project")}
    where |= {"owner": "all" if options.all else options.user, "tasks": None if each else "together"}
    if options.json or options.limit is not None or set(states) == set(LIVE):
        jobs = newest(client, ",".join(states) or None, where, options.limit)
    else:
        # All live jobs of these states, and of the ended ones the latest. The live ones are read first: one that ends in between
        # is among the ended ones then.
        wanted = states or list(console.STATE_CODES)
        live, ended = ([state for state in wanted if (state in LIVE) == is_live] for is_live in (True, False))
        now = newest(client, ",".join(live), where, None) if live else []
        past = newest(client, ",".join(ended), where, _ENDED_SHOWN + 1) if ended else []
        # An array may have tasks of both.
        found = {job["id"]: job for job in (*now, *past[-_ENDED_SHOWN:])}
        jobs, older = sorted(found.values(), key=lambda job: int(job["id"])), len(past) > _ENDED_SHOWN
    return in_order(jobs), older


def in_order(jobs: Sequence[Record]) -> list[Record]:
    """Arrays and running jobs as they come, then waiting ones in the order of their start."""
    waiting = [job for job in jobs if job.get("state") in WAITING]
    return [*(job for job in jobs if job.get("state") not in WAITING), *sorted(waiting, key=start_order)]


def _named(client: HttpClient, options: argparse.Namespace, *, each: bool) -> list[Record]:
    """The jobs that were named, of a whole array its one line unless `each` task is wanted; with --state those in such states."""
    from gpuq.cli import job_ids
    from gpuq.cli.verbs.follow import jobs_of

    named = job_ids.named(client, options.ids)
    states = parse_states(options.state) if options.state else None
    whole = [] if each else [named.arrays[one] for one in sorted(named.whole)]
    jobs = jobs_of(client, named.ids if each else named.single_ids)
    found = [*whole, *(job for job in jobs if states is None or job["state"] in states)]
    return [job for job in found if _is_meant(options, job)]


def _is_meant(options: argparse.Namespace, job: Record) -> bool:
    """Whether the job's name and kind match those that were asked for."""
    return _matches(options.name, job.get("name")) and _matches(options.kind, job.get("kind"))


def _matches(pattern: str | None, text: str | None) -> bool:
    if pattern is None:
        return True
    from fnmatch import fnmatchcase

    return fnmatchcase(text or "", pattern)


def newest(client: HttpClient, states: str | None, where: Mapping[str, str | None], limit: int | None) -> list[Record]:
    """The newest `limit` of these jobs (None: all), by id. `where` are further parameters of the list."""
    jobs: list[Record] = []
    after: int | None = None
    name, kind = where.get("name"), where.get("kind")
    while limit is None or len(jobs) < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - len(jobs))
        page: Record = client.get("/api/v1/jobs", state=states, limit=size, after=after, **where)
        # A gpuq of the previous release ignores `name` and `kind`.
        jobs += [job for job in page["jobs"] if _matches(name, job["name"]) and _matches(kind, job["kind"])]
        for one in page.get("arrays", ()):
            # The line of an array is about all its tasks.
            whole = _matches(name, one["name"])
            jobs += [one] if whole else newest(client, states, {**where, "tasks": None, "array": str(one["id"])}, limit)
        after = page.get("next")
        if after is None:
            break
    found = sorted(jobs, key=lambda job: int(job["id"]))
    return found if limit is None else found[-limit:]


def _device(job: Record) -> str:
    """The device; of several the first and the number of others: `cpu0 +1`."""
    more = len(job.get("devices") or []) - 1
    return (fmt.device_name(job) or "-") + (f" +{more}" if more > 0 else "")


def _running(job: Record, name: str, now: float) -> list[str]:
    live, actual, forecast = (job.get(part) or {} for part in ("live", "actual", "forecast"))
    started, ended = job.get("started_at_unix"), job.get("ended_at_unix")
    ran_s = None if started is None else (now if ended is None else ended) - started
    memory = live.get("memory_bytes") or actual.get("peak_memory_bytes"), forecast.get("upper_memory_bytes")
    left, right = ("?" if value is None else fmt.gib(value, "G") for value in memory)
    utilization, peak = live.get("utilization_pct"), fmt.percent(actual.get("peak_utilization_pct"))
    peak = f"≤{peak}" if actual.get("utilization_is_bound") and peak != "0%" else peak
    slowdown, expected = _first(live.get("slowdown"), actual.get("slowdown")), live.get("expected_slowdown")
    only_expected = slowdown is None and expected is not None
    return [
        job_labels.id_of(job),
        name,
        _code(job),
        _device(job),
        _share(job),
        "-" if memory == (None, None) else f"{left.removesuffix(right[-1])}/{right}",
        peak if utilization is None else fmt.percent(utilization),
        f"~{fmt.slowdown(expected)}" if only_expected else fmt.slowdown(slowdown),
        fmt.duration(ran_s),
        f"idle {fmt.duration(live['idle_s'])}" if live.get("warned_of_idleness") else remaining(job, now),
    ]


def _ended(job: Record, name: str, now: float) -> list[str]:
    # Without SHARE, which an ended job has no longer, and without LEFT.
    *first, _, memory, utilization, slow, ran, _ = _running(job, name, now)
    return [*first, memory, utilization, slow, ran, job_labels.short_reason(job)]


def _waiting(job: Record, name: str, now: float) -> list[str]:
    forecast, expected = job.get("forecast") or {}, job.get("expected_start")
    upper, start = forecast.get("upper_memory_bytes"), "-"
    if expected:
        half_s, most_s = expected["p50_unix"] - now, expected["p90_unix"] - now
        # Estimates are a few seconds old: a start that was due within the last minute is not called overdue.
        start = "soon" if half_s < 1 and -60 < most_s < 1 else _until(half_s, most_s)
        start += "" if expected.get("checked", True) else "?"
    return [
        job_labels.id_of(job),
        name,
        _code(job),
        _share(job),
        "-" if upper is None else fmt.gib(upper, "G"),
        remaining(job, now),
        start,
        job_labels.short_reason(job),
    ]


def _code(job: Record) -> str:
    return str(console.STATE_CODES.get(job["state"], job["state"]))


def _share(job: Record) -> str:
    if partners := job.get("partners"):
        return "+" + ",".join(map(str, partners))
    return "never" if job.get("share") == "never" else "-"


def remaining(job: Record, now: float) -> str:
    """Until a running job ends; of a waiting job its whole run."""
    forecast, started = job.get("forecast") or {}, job.get("started_at_unix")
    half_s = forecast.get("duration_p50_s")
    if half_s is None or job["state"] not in LIVE:
        return "-"
    ran_s = 0.0 if started is None else now - started
    return _until(half_s - ran_s, (forecast.get("duration_p90_s") or half_s) - ran_s)


def _until(half_s: float, most_s: float) -> str:
    """Seconds to a median and a 90th percentile, below 0 once they are past: `~48m`; then `<20m`, since half of such cases take
    longer; then `overdue 5m`, by which even the 90th percentile is past."""
    if half_s > 0:
        return f"~{fmt.about(half_s)}"
    return f"<{fmt.about(max(1.0, most_s))}" if most_s > 0 else f"overdue {fmt.about(-most_s)}"


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
