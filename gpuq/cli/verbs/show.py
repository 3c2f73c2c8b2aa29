"""`gpuq show ID…`: all facts about jobs, what was expected of them and what really happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from gpuq import format as fmt
from gpuq.cli import again, console, job_ids, job_labels, messages, tracking
from gpuq.cli.arguments import Parser, add_ids
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.quantities import whole
from gpuq.errors import BadInput
from gpuq.messages.submit_options import constraint_options

_BASES = {
    "within attempt": "against its time alone",
    "kind's alone rate": "against its kind alone",
    "beside foreign load": "beside foreign load, not used for predictions",
}
_LOSSES = {"slowed_s": "lost to partners", "paused_s": "paused"}


def run(words: list[str]) -> int:
    """Show jobs and arrays."""
    parser = Parser("show", "All facts about a job: what was expected of it and what really happened.")
    add_ids(parser)
    parser.add_argument("--plot", action="store_true", help="also its utilisation, memory, rate and power over time")
    parser.add_argument("--attempt", metavar="N", help="with --plot: of this attempt; default: the last")
    options = parser.parse_args(words)
    if options.attempt is not None and not options.plot:
        raise BadInput("--attempt goes with --plot.", fix="Add --plot, or leave --attempt out.")
    attempt = whole("--attempt", options.attempt, 1, 10**9) if options.attempt is not None else None
    client = HttpClient.of(options)
    jobs = job_ids.named(client, options.ids)
    if not options.plot:
        whole_arrays = [jobs.arrays[one] for one in sorted(jobs.whole)]
        found = [*whole_arrays, *(_job(client, job_id) for job_id in jobs.single_ids)]
        console.show(options, found if len(found) > 1 else found[0], _screens)
        return 0
    from gpuq.cli import plot

    job = _job(client, jobs.only)
    series: Record = client.get(f"/api/v1/jobs/{jobs.only}/series", attempt=attempt)
    job["series"] = series["points"]

    def with_plot(shown: Record, width: int, colour: bool) -> list[str]:
        return [*screen(shown, width, colour), *console.section("over time", list(plot.screen(series, width)), colour)]

    console.show(options, job, with_plot)
    return 0


def _job(client: HttpClient, job_id: int) -> Record:
    """All that is known of one job, with its runs in tools that track experiments."""
    job: Record = client.get(f"/api/v1/jobs/{job_id}")
    if runs := tracking.runs_of(client, job):
        job["tracking"] = runs
    return job


def _screens(shown: Record | list[Record], width: int, colour: bool) -> list[str]:
    """The facts of a job or an array; of several one below the other."""
    if isinstance(shown, list):
        parts = [_screens(one, width, colour) for one in shown]
        return [line for part in parts for line in ("", *part)][1:]
    if "count" in shown:
        from gpuq.cli import arrays

        return arrays.screen(shown, width, colour)
    return screen(shown, width, colour)


def screen(job: Record, width: int, colour: bool) -> list[str]:
    """The sections."""
    style = console.state_style(job["state"])
    state = console.paint(job["state"], style or "", colour and style is not None)
    verdict = messages.lines(job["verdict"]) if job.get("verdict") else []
    if late := messages.slow_start(job):
        verdict.append(late)
    why = [f"  {part}" for line in verdict for part in console.wrapped(line, width - 2)]
    command = [f"  {typed}"] if (typed := _again(job)) else []  # not wrapped, so that it can be copied
    return [
        f"{console.paint('job ' + job_labels.id_of(job), '1', colour)}  {fmt.clean(job.get('name') or '')}  {state}",
        *console.facts(_what(job), width),
        *console.section("where", console.facts(_where(job), width), colour),
        *console.section("why", why, colour),
        *console.section("forecast and actual", list(_comparison(job, width)), colour),
        *console.section("run again", command, colour),
        *console.section("tracking", list(_tracking(job.get("tracking") or [])), colour),
        *console.section("attempts", _attempts(job, width), colour),
    ]


def _what(job: Record) -> list[tuple[str, str | None]]:
    from shlex import join

    started, ended = fmt.when(job.get("started_at")), fmt.when(job.get("ended_at"))
    refused = job.get("verdict") and not job["verdict"].get("admitted")
    live = job.get("live") or {}
    changed = ", with changes not committed" if job.get("git_dirty") else ""
    return [
        ("command", fmt.clean(join(job["command"])) if job["command"] else "(not shown: another user's)"),
        ("folder", _known(fmt.clean, job.get("cwd"))),
        ("kind", _known(fmt.clean, job["kind"])),
        ("parameters", _known(_parameters, job.get("params") or None)),
        ("owner", _known(fmt.clean, job.get("owner"))),
        ("project", _known(fmt.clean, job.get("project"))),
        ("git", fmt.clean(job["git_sha"][:12]) + changed if job.get("git_sha") else None),
        ("submitted", fmt.local_time(job.get("submitted_at"))),
        ("started", _known(fmt.local_time, job.get("started_at"))),
        ("ended", _known(fmt.local_time, job.get("ended_at"))),
        ("ran for", None if started is None or ended is None else fmt.duration(ended - started)),
        ("running for", None if started is None or job.get("ended_at") else fmt.duration(time.time() - started)),
        ("idle", fmt.duration(live["idle_s"]) if live.get("warned_of_idleness") else None),
        ("exit code", _known(str, job.get("exit_code"))),
        ("reason", None if refused else job_labels.full_reason(job)),  # a refusal stands below, with its numbers
        ("asked for", ", ".join(_asked_for(job)) or None),
        ("messages", _known(lambda rules: " and ".join(map(fmt.clean, rules)) or "none", job.get("notify"))),
        ("log", _known(fmt.clean, job.get("log_path"))),
    ]


def _again(job: Record) -> str | None:
    """The command that submits a job with the same files; None without a snapshot. Its variables are those of the shell."""
    found = again.of_job(job, time.time()) if job.get("snapshot") else None
    if found is None:
        return None
    from shlex import join

    return fmt.clean(f"cd {join([str(found.folder)])} && gpuq submit {join([*found.options, *found.words])}")


def _asked_for(job: Record) -> Iterator[str]:
    """What the submitter asked for beyond the defaults."""
    if job.get("share") == "never":
        yield "a device alone"
    if job.get("max_slowdown") is not None:
        yield f"slowdown of {fmt.slowdown(job['max_slowdown'])} at most"
    if job.get("declared_memory_bytes") is not None:
        yield f"{fmt.gib(job['declared_memory_bytes'])} of memory"
    if job.get("time_limit_s") is not None:
        yield f"{fmt.duration(job['time_limit_s'])} of time"
    if job.get("gpus", 1) > 1 or job.get("most_gpus"):
        most = f" to {job['most_gpus']}" if job.get("most_gpus") else ""
        on = f" of {job['wanted_hosts']} hosts" if job.get("wanted_hosts", 1) > 1 else ""
        yield f"{job['gpus']}{most} devices{on}"
    constraints = constraint_options(job.get("constraints") or {})
    yield from (fmt.clean(f"{option}={value}") for option, value in constraints.items())
    yield from _when(job)
    if job.get("preemptible"):
        yield "to be signalled before it is stopped for another"
    if job.get("blink"):
        yield "to be measured by blinks"
    if job.get("no_pause"):
        yield "not to be paused for others"
    if job.get("lend_cores"):
        yield f"up to {job['lend_cores']} idle cores"
    if job.get("idle_ok"):
        yield "not to be stopped when idle"
    if job.get("priority"):
        yield f"priority {job['priority']}"


def _when(job: Record) -> Iterator[str]:
    if job.get("after"):
        yield f"a start after {', '.join(job['after'])}"
    if job.get("begin_at"):
        yield f"a start at {fmt.local_time(job['begin_at'])} or later"
    if job.get("singleton"):
        yield "no other job of its name at a time"
    if job.get("signal_before_s"):
        yield f"{job['signal']} {fmt.duration(job['signal_before_s'])} before its time limit"
    if job.get("requeue_on_node_fail"):
        yield "to be queued again if its host fails"
    if job.get("retry"):
        used = job.get("retried") or [0] * len(job["retry"])
        yield "retries " + ", ".join(
            f"{rule} ({n} used)" if n else rule for rule, n in zip(job["retry"], used, strict=False)
        )
    if job.get("raised_memory_bytes"):
        yield f"{fmt.gib(job['raised_memory_bytes'])} of memory since it ran out of it"
    if job.get("deadline_at"):
        yield f"an end by {fmt.local_time(job['deadline_at'])}"


def _where(job: Record) -> list[tuple[str, str | None]]:
    live, actual = job.get("live") or {}, job.get("actual") or {}
    ids = [fmt.clean(device) for device in job.get("devices") or []]
    names = [fmt.clean(name) for name in job.get("device_names") or ids]
    # Logs and CUDA_VISIBLE_DEVICES have the id, so it stands beside a name that does not contain it.
    devices = (name if id_.endswith(name) else f"{name} ({id_})" for name, id_ in zip(names, ids, strict=False))
    waits = job.get("position") is not None
    return [
        ("device", ", ".join(devices) or None),
        ("host", ", ".join(map(fmt.clean, job.get("hosts") or [job["host"]])) if job.get("host") else None),
        ("shares with", ", ".join(f"job {partner}" for partner in job.get("partners") or []) or None),
        ("memory now", _known(fmt.gib, live.get("memory_bytes"))),
        ("memory so far", _memory_so_far(live)),
        ("utilisation now", _known(fmt.percent, live.get("utilization_pct"))),
        ("steps", _steps(live or actual)),
        ("rate", _known(fmt.rate, live.get("rate"))),
        ("slowdown now", _slowdown_now(live)),
        ("paused for", _known(lambda other: f"job {other}", live.get("paused_for"))),
        ("slowdown account", _known(_account, live.get("slowdown_account"))),
        ("partner paused", _known(fmt.clean, live.get("blink") or actual.get("blink"))),
        ("place in queue", str(job["position"]) if waits else None),
        ("starts", messages.expected_start(job) if waits else None),
    ]


def _memory_so_far(live: Record) -> str | None:
    """The peak of a job that runs, and whether it is evidence for other jobs of its kind."""
    if live.get("peak_memory_bytes") is None or live.get("level_s") is None:
        return None
    level = f"level for {fmt.duration(live['level_s'])}, so jobs of its kind are predicted from it"
    return f"{fmt.gib(live['peak_memory_bytes'])} at most, {level}"


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


def _account(account: Record) -> str:
    """What it may still lose to partners and pauses, and what it has lost."""
    budget, left = f"budget {fmt.slowdown(account['budget'])}", account["left_s"]
    if left is None:
        return f"not known ({budget}): its partners' cost is not measured"
    lost = [f"{fmt.duration(account[name])} {how}" for name, how in _LOSSES.items() if account[name]]
    shown = f"{fmt.duration(-left)} over" if left < 0 else f"{fmt.duration(left)} left"
    return ", ".join([f"{shown} of {fmt.duration(account['earned_s'])} ({budget})", *lost])


def _steps(seen: Record) -> str | None:
    if seen.get("steps") is not None:
        ranks = seen.get("step_processes") or 1
        return str(seen["steps"]) + (f" (the most of any of its {ranks} processes that step)" if ranks > 1 else "")
    return f"not counted: {fmt.clean(seen['not_counted'])}" if seen.get("not_counted") else None


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
    if job["state"] == "COMPLETED" and actual.get("peak_memory_bytes") == 0:
        yield "  none of its processes was on its device while it ran: it may need none"
    for remark in _bounds(actual):
        yield from (f"  {line}" for line in console.wrapped(remark, width - 2))
    if actual.get("energy_joules") is not None:
        idle = "" if actual.get("idle_joules") is None else _watt_hours(actual["idle_joules"])
        apart = f", {idle} of it what the device takes idle" if idle else ""
        yield f"  energy: {_watt_hours(actual['energy_joules'])}{apart}"
    if actual.get("slowdown_basis"):
        best = {"basis": actual["slowdown_basis"], "value": actual["slowdown"]}
        found = [best, *(actual.get("slowdown_otherwise") or [])]
        shown = (f"{fmt.slowdown(one['value'])} {_BASES.get(one['basis'], fmt.clean(one['basis']))}" for one in found)
        yield f"  slowdown: {', '.join(shown)}"
    if actual.get("partners"):
        yield f"  partners: {', '.join(fmt.clean(partner) for partner in actual['partners'])}"
    model = f" (model {fmt.clean(forecast['model_version'])})" if forecast.get("model_version") else ""
    yield f"  evidence: {fmt.clean(forecast.get('evidence') or 'none')}{model}"


def _bounds(actual: Record) -> Iterator[str]:
    """Which measured figures are only upper bounds, or are not used, and why."""
    on_cores = str(actual.get("device_type")).startswith("cpu-")
    if actual.get("peak_memory_is_bound"):
        why = (
            "its processes share memory that this kernel does not tell apart"
            if on_cores
            else "the framework took most of the device in advance"
        )
        yield f"{why}: the measured memory is only what the job needs at most"
    spoiled = []
    if actual.get("utilization_is_bound"):
        spoiled.append("its utilisation is only known to be at most what is shown")
    if actual.get("disturbed_rate") is not None:
        spoiled.append("the rate disturbed is not used for predictions")
    load = actual.get("foreign_load")
    if spoiled and load is not None:
        much = f"{load:.1f} cores" if on_cores else fmt.percent(100 * load)
        yield f"foreign load: other processes kept {much} of the device busy; {' and '.join(spoiled)}"


def _watt_hours(joules: float) -> str:
    return f"{joules / 3600:.3g} Wh" if joules < 3.6e6 else f"{joules / 3.6e6:.3g} kWh"


_TOOLS = {"wandb": "W&B", "mlflow": "MLflow", "tensorboard": "TensorBoard"}


def _tracking(runs: list[Record]) -> Iterator[str]:
    """A line per run, and what opens or uploads it."""
    from shlex import quote

    for run in runs:
        name = f" {fmt.clean(run['id'])}" if run["id"] else ""
        doubt = "  (by its time)" if run["found_in"] == "time" else ""
        yield f"  {_TOOLS[run['tool']]}{name}  {fmt.clean(run['url'] or run['folder'])}{doubt}"
        if run["tool"] == "tensorboard":
            yield f"    tensorboard --logdir {fmt.clean(quote(run['folder']))}"
        elif run["offline"] and run["folder"]:
            yield f"    wandb sync {fmt.clean(quote(run['folder']))}"


def _attempts(job: Record, width: int) -> list[str]:
    attempts = job.get("attempts") or []
    if len(attempts) < 2:
        return []
    columns = [
        console.Column(title, right=title in ("RAN", "EXIT"))
        for title in ("#", "DEVICE", "STARTED", "RAN", "ENDING", "EXIT")
    ]
    columns.append(console.Column("REASON", least=10))
    rows = []
    for attempt in attempts:
        started, ended = fmt.when(attempt.get("started_at")), fmt.when(attempt.get("ended_at"))
        rows.append(
            (
                str(attempt["number"]),
                ", ".join(map(fmt.clean, attempt.get("device_names") or attempt.get("devices") or [])) or "-",
                fmt.local_time(attempt.get("started_at")),
                fmt.duration(None if started is None or ended is None else ended - started),
                attempt.get("ending") or "-",
                "-" if attempt.get("exit_code") is None else str(attempt["exit_code"]),
                fmt.clean(attempt.get("reason") or ""),
            )
        )
    return ["  " + line for line in console.table(columns, rows, width - 2)]


def _parameters(params: dict[str, str]) -> str:
    return ", ".join(f"{fmt.clean(name)}={fmt.clean(value)}" for name, value in params.items())


def _known(text: Callable[[Any], str], value: object) -> str | None:
    """`text(value)`; None for None, which leaves the fact out."""
    return None if value is None else text(value)
