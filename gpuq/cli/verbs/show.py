"""`gpuq show ID`: all facts about one job, what was expected of it and what really happened."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gpuq import format as fmt
from gpuq.cli import console, job_labels, messages
from gpuq.cli.arguments import Parser, add_id, one_id
from gpuq.cli.client import Client, Record


def run(words: list[str]) -> int:
    """Show one job."""
    parser = Parser("show", "All facts about one job: what was expected of it and what really happened.")
    add_id(parser)
    options = parser.parse_args(words)
    job: Record = Client.of(options).get(f"/api/v1/jobs/{one_id(options.id)}")
    if options.json:
        console.print_json(job)
    else:
        print("\n".join(screen(job, console.terminal_width(), console.coloured(options.no_color))))
    return 0


def screen(job: Record, width: int, colour: bool) -> list[str]:
    """The sections."""
    state = console.paint(
        job["state"], console.state_style(job["state"]) or "", colour and bool(console.state_style(job["state"]))
    )
    title = f"{console.paint('job ' + str(job['id']), '1', colour)}  {fmt.clean(job.get('name') or '')}  {state}"
    return [
        title,
        *console.facts(_what(job), width),
        *console.section("where", console.facts(_where(job), width), colour),
        *console.section("why", [f"  {line}" for line in _why(job, width)], colour),
        *console.section("forecast and actual", list(_comparison(job, width)), colour),
        *console.section("attempts", _attempts(job, width), colour),
    ]


def _what(job: Record) -> list[tuple[str, str | None]]:
    from shlex import join

    return [
        ("command", fmt.clean(join(job["command"]))),
        ("folder", _text(job.get("cwd"))),
        ("kind", _text(job["kind"])),
        ("owner", _text(job.get("owner"))),
        ("project", _text(job.get("project"))),
        ("git", _git(job)),
        ("submitted", fmt.local_time(job.get("submitted_at"))),
        ("started", fmt.local_time(job["started_at"]) if job.get("started_at") else None),
        ("ended", fmt.local_time(job["ended_at"]) if job.get("ended_at") else None),
        ("ran for", _ran_for(job)),
        ("running for", _runs_since(job)),
        ("exit code", None if job.get("exit_code") is None else str(job["exit_code"])),
        ("reason", job_labels.full_reason(job) if not job.get("verdict") or job["verdict"].get("admitted") else None),
        ("asked for", _asked_for(job)),
        ("log", _text(job.get("log_path"))),
    ]


def _where(job: Record) -> list[tuple[str, str | None]]:
    live = job.get("live") or {}
    position = job.get("position")
    return [
        ("device", _devices(job)),
        ("host", _text(job.get("host"))),
        ("shares with", ", ".join(f"job {partner}" for partner in job.get("partners") or []) or None),
        ("memory now", fmt.gib(live["memory_bytes"]) if live.get("memory_bytes") is not None else None),
        ("utilisation now", fmt.percent(live["utilization_pct"]) if live.get("utilization_pct") is not None else None),
        ("steps", _steps(job.get("live") or job.get("actual") or {})),
        ("rate", fmt.rate(live["rate"]) if live.get("rate") is not None else None),
        ("slowdown now", _slowdown_now(live)),
        ("partner paused", _text(live.get("blink") or (job.get("actual") or {}).get("blink"))),
        ("place in queue", None if position is None else str(position)),
        ("starts", None if position is None else _starts(job)),
    ]


def _devices(job: Record) -> str | None:
    """`gpu3 (GPU-0123...)`: the name, and the id that logs and `CUDA_VISIBLE_DEVICES` have."""
    ids = [fmt.clean(device) for device in job.get("devices") or []]
    names = [fmt.clean(name) for name in job.get("device_names") or ids]
    pairs = zip(names, ids, strict=False)
    return ", ".join(name if id_.endswith(name) else f"{name} ({id_})" for name, id_ in pairs) or None


def _starts(job: Record) -> str:
    return fmt.expected_start(job.get("expected_start"), time.time()) or "unknown, there is no calibrated estimate yet"


def _slowdown_now(live: Record) -> str | None:
    """What the present partners cost: measured, beside what was expected; None without a partner."""
    measured, expected = live.get("slowdown"), live.get("expected_slowdown")
    parts = []
    if measured is not None:
        basis = live.get("slowdown_basis") or ""
        parts.append(f"{fmt.slowdown(measured)} {_BASES.get(basis, fmt.clean(basis))}".strip())
    if expected is not None:
        parts.append(f"{fmt.slowdown(expected)} expected")
    return ", ".join(parts) or None


def _steps(seen: Record) -> str | None:
    if seen.get("steps") is not None:
        ranks = seen.get("step_processes") or 1
        return str(seen["steps"]) + (f" (the most of any of its {ranks} processes that step)" if ranks > 1 else "")
    return f"not counted: {fmt.clean(seen['not_counted'])}" if seen.get("not_counted") else None


def _why(job: Record, width: int) -> list[str]:
    if not job.get("verdict"):
        return []
    return [part for line in messages.lines(job["verdict"]) for part in console.wrapped(line, width - 2)]


def _comparison(job: Record, width: int) -> Iterator[str]:
    """Expected next to measured, so that the eye finds the difference."""
    forecast, actual = job.get("forecast") or {}, job.get("actual") or {}
    if not forecast and all(actual.get(name) in (None, []) for name in actual):
        yield "  nothing is known of this kind yet, and nothing is measured"
        return
    rows = [
        ("peak utilisation", "peak_utilization_pct", None, "peak_utilization_pct", fmt.percent),
        ("peak memory", "peak_memory_bytes", "upper_memory_bytes", "peak_memory_bytes", fmt.gib),
        ("slowdown", "expected_slowdown", "upper_slowdown", "slowdown", fmt.slowdown),
        ("rate alone", None, None, "alone_rate", fmt.rate),
        ("rate shared", None, None, "shared_rate", fmt.rate),
        ("rate disturbed", None, None, "disturbed_rate", fmt.rate),
    ]
    lines = [f"  {'':<16}  {'EXPECTED':>10}  {'AT MOST':>10}  {'MEASURED':>14}"]
    for label, expected, upper, measured, text in rows:
        if actual.get(measured) is None and (expected is None or forecast.get(expected) is None):
            continue
        first, second = (text(forecast.get(name)) if name else "" for name in (expected, upper))
        third = text(actual.get(measured))
        if label == "peak utilisation" and actual.get("utilization_is_bound"):
            third = f"at most {third}"
        lines.append(f"  {label:<16}  {first:>10}  {second:>10}  {third:>14}".rstrip())
    yield from lines if len(lines) > 1 else []
    if actual.get("peak_memory_is_bound"):
        yield from (f"  {line}" for line in console.wrapped(_bound_memory(actual), width - 2))
    yield from (f"  {line}" for line in _disturbed(actual, width - 2))
    if actual.get("energy_joules") is not None:
        yield f"  energy: {_energy(actual)}"
    if actual.get("slowdown_basis"):
        yield f"  slowdown: {_bases(actual)}"
    if actual.get("partners"):
        yield f"  partners: {', '.join(fmt.clean(partner) for partner in actual['partners'])}"
    yield f"  evidence: {fmt.clean(forecast.get('evidence') or 'none')}" + _model(forecast)


def _on_cores(actual: Record) -> bool:
    return str(actual.get("device_type")).startswith("cpu-")


def _bound_memory(actual: Record) -> str:
    why = (
        "its processes share memory that this kernel does not tell apart"
        if _on_cores(actual)
        else "the framework took most of the device in advance"
    )
    return f"{why}: the measured memory is only what the job needs at most"


def _disturbed(actual: Record, width: int) -> list[str]:
    """Which figures foreign load has spoiled, and how they are used."""
    spoiled = []
    if actual.get("utilization_is_bound"):
        spoiled.append("its utilisation is only known to be at most what is shown")
    if actual.get("disturbed_rate") is not None:
        spoiled.append("the rate disturbed is not used for predictions")
    if not spoiled or actual.get("foreign_load") is None:
        return []
    load = actual["foreign_load"]
    much = f"{load:.1f} cores" if _on_cores(actual) else fmt.percent(100 * load)
    return console.wrapped(
        f"foreign load: other processes kept {much} of the device busy; {' and '.join(spoiled)}", width
    )


def _energy(actual: Record) -> str:
    idle = actual.get("idle_joules")
    apart = "" if idle is None else f", {_watt_hours(idle)} of it what the device takes idle"
    return _watt_hours(actual["energy_joules"]) + apart


def _watt_hours(joules: float) -> str:
    return f"{joules / 3600:.3g} Wh" if joules < 3.6e6 else f"{joules / 3.6e6:.3g} kWh"


def _bases(actual: Record) -> str:
    """The measured slowdown with its basis, then the values on the other bases."""
    best = {"basis": actual["slowdown_basis"], "value": actual["slowdown"]}
    found = [best, *(actual.get("slowdown_otherwise") or [])]
    return ", ".join(
        f"{fmt.slowdown(one['value'])} {_BASES.get(one['basis'], fmt.clean(one['basis']))}" for one in found
    )


_BASES = {
    "within attempt": "against its time alone",
    "kind's alone rate": "against its kind alone",
    "beside foreign load": "beside foreign load, not used for predictions",
}


def _model(forecast: Record) -> str:
    return f" (model {fmt.clean(forecast['model_version'])})" if forecast.get("model_version") else ""


def _attempts(job: Record, width: int) -> list[str]:
    attempts = job.get("attempts") or []
    if len(attempts) < 2:
        return []
    columns = [
        console.Column("#"),
        console.Column("DEVICE"),
        console.Column("STARTED"),
        console.Column("RAN", right=True),
    ]
    columns += [console.Column("ENDING"), console.Column("EXIT", right=True), console.Column("REASON", least=10)]
    rows = [
        (
            str(attempt["number"]),
            ", ".join(map(fmt.clean, attempt.get("device_names") or attempt.get("devices") or [])) or "-",
            fmt.local_time(attempt.get("started_at")),
            fmt.duration(_between(attempt.get("started_at"), attempt.get("ended_at"))),
            attempt.get("ending") or "-",
            "-" if attempt.get("exit_code") is None else str(attempt["exit_code"]),
            fmt.clean(attempt.get("reason") or ""),
        )
        for attempt in attempts
    ]
    return ["  " + line for line in console.table(columns, rows, width - 2)]


def _text(value: object) -> str | None:
    return None if value is None else fmt.clean(value)


def _git(job: Record) -> str | None:
    if not job.get("git_sha"):
        return None
    return fmt.clean(job["git_sha"][:12]) + (", with changes not committed" if job.get("git_dirty") else "")


def _between(start: object, end: object) -> float | None:
    first, last = fmt.when(start), fmt.when(end)
    return None if first is None or last is None else last - first


def _ran_for(job: Record) -> str | None:
    ran = _between(job.get("started_at"), job.get("ended_at"))
    return None if ran is None else fmt.duration(ran)


def _runs_since(job: Record) -> str | None:
    started = fmt.when(job.get("started_at"))
    return None if started is None or job.get("ended_at") else fmt.duration(time.time() - started)


def _asked_for(job: Record) -> str | None:
    asked = []
    if job.get("share") == "never":
        asked.append("a device alone")
    if job.get("max_slowdown") is not None:
        asked.append(f"slowdown of {fmt.slowdown(job['max_slowdown'])} at most")
    if job.get("declared_memory_bytes") is not None:
        asked.append(f"{fmt.gib(job['declared_memory_bytes'])} of memory")
    if job.get("time_limit_s") is not None:
        asked.append(f"{fmt.duration(job['time_limit_s'])} of time")
    if job.get("gpus", 1) > 1 or job.get("most_gpus"):
        most = job.get("most_gpus")
        asked.append(f"{job['gpus']}{f' to {most}' if most else ''} devices")
    if job.get("deadline_at"):
        asked.append(f"an end by {fmt.local_time(job['deadline_at'])}")
    if job.get("preemptible"):
        asked.append("to be signalled before it is stopped for another")
    if job.get("blink"):
        asked.append("to be measured by blinks")
    if job.get("priority"):
        asked.append(f"priority {job['priority']}")
    return ", ".join(asked) or None
