"""The demo's arithmetic, and its report of who shared, what each lost, what was saved and what was refused.

Takes jobs as `gpuq show --json` prints them; returns numbers and lines of text. What was not measured is None or a dash, never 0.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
UNKNOWN = "–"
WIDTH = 79
LABEL = 9


def overlap(one: Json, other: Json) -> float:
    """Seconds in which both jobs ran; 0 or less where they did not."""
    start = max(float(one["started_at_unix"]), float(other["started_at_unix"]))
    return min(float(one["ended_at_unix"]), float(other["ended_at_unix"])) - start


def share_saved(slowdowns: Sequence[float | None]) -> float | None:
    """The part of the time that is saved while jobs with these slowdowns run together; None where one is not known.

    Each makes 1 / slowdown of its progress alone, so in one second together they do what takes the sum of these, in seconds, one
    after the other.
    """
    known = [value for value in slowdowns if value is not None]
    if len(known) < 2 or len(known) < len(slowdowns):
        return None
    return 1 - 1 / sum(1 / value for value in known)


def cost(job: Json) -> Json | None:
    """What its partner cost the job: `value`, `low`, `high` and `basis` of the best slowdown that has an interval, else of the
    best one; None where none was measured.

    On a machine with other work the best one may rest on a single window without that work, and so have no interval.
    """
    actual = job["actual"]
    if actual.get("slowdown") is None:
        return None
    best = {"value": actual["slowdown"], **{key: actual.get(f"slowdown_{key}") for key in ("low", "high", "basis")}}
    found = [best, *(actual.get("slowdown_otherwise") or [])]
    return next((one for one in found if one["low"] is not None and one["high"] is not None), best)


def measured(job: Json) -> bool:
    """Whether the job has a slowdown with its interval."""
    found = cost(job)
    return found is not None and found["low"] is not None and found["high"] is not None


def foreign_load(verdict: Json, beside: Iterable[Json]) -> float | None:
    """Percent of the device that other processes used when a job was admitted; None where it is unknown.

    That is what was committed, less what the residents were expected to use.
    """
    committed = verdict["numbers"].get("committed_pct")
    expected = [(job.get("forecast") or {}).get("peak_utilization_pct") for job in beside]
    if committed is None or None in expected:
        return None
    return max(0.0, float(committed - sum(expected)))


def first_runs(jobs: Sequence[Json]) -> list[str]:
    """What gpuq measured of each job that ran alone."""
    return section("alone", [_first_run(job) for job in jobs])


def shared(jobs: Sequence[Json], on: str | None = None) -> list[str]:
    """Who ran beside whom, by which forecast it was admitted, what each lost, and what was saved."""
    first, second = jobs
    seconds = overlap(first, second)
    forecast, verdict = second.get("forecast") or {}, second["verdict"]
    evidence = str(forecast.get("evidence") or "no evidence").partition(";")[0]
    admitted = (
        f"{_name(first)} with {_name(second)}{f' on {on}' if on else ''}, {seconds:.0f} s. {second['id']} was admitted: "
        f"{percent(forecast.get('peak_utilization_pct'))} forecast ({evidence}) + "
        f"{_committed(verdict, foreign_load(verdict, [first]))} = {percent(_sum(verdict))}, limit {percent(_limit(verdict))}"
    )
    saving = share_saved([None if (found := cost(job)) is None else found["value"] for job in jobs])
    saved = "not known, since not both slowdowns were measured"
    if saving is not None:
        saved = (
            f"{saving:.0%}: {seconds:.0f} s together did what takes {seconds / (1 - saving):.0f} s one after the other"
        )
    return [
        *section("shared", [admitted]),
        *section("lost", [_lost(job) for job in jobs]),
        *section("saved", [saved]),
    ]


def refused(job: Json) -> list[str]:
    """Which job was refused a place beside which others, by which rule, and the sum that decided it."""
    verdict, numbers = job["verdict"], job["verdict"]["numbers"]
    why = f"by {verdict['rule']}: {verdict.get('sentence') or 'its load is not known'}"
    if _sum(verdict) is not None:
        residents = " and ".join(str(numbers.get("residents", "")).split()) or "others"
        why = (
            f"beside {residents}, by {verdict['rule']}: {percent(numbers['newcomer_pct'])} forecast + "
            f"{_committed(verdict, numbers.get('foreign_pct'))} = {percent(_sum(verdict))}, limit {percent(_limit(verdict))}"
        )
    return section("refused", [f"{_name(job)} {why}"])


def section(label: str, entries: Iterable[str]) -> list[str]:
    """Lines of at most `WIDTH` characters, with the label before the first."""
    lines = []
    for entry in entries:
        lines += textwrap.wrap(entry, WIDTH, initial_indent=f"{label:<{LABEL}}", subsequent_indent=" " * LABEL)
        label = ""
    return lines


def _first_run(job: Json) -> str:
    actual = job["actual"]
    at_most = "at most " if actual.get("utilization_is_bound") else ""
    rate = actual.get("alone_rate") or actual.get("disturbed_rate")
    return (
        f"{_name(job):<10} uses {at_most}{percent(actual.get('peak_utilization_pct'))} of the device and "
        f"{memory(actual.get('peak_memory_bytes'))}{'' if rate is None else f', {number(rate)} steps/s'}"
    )


def _lost(job: Json) -> str:
    actual, name, found = job["actual"], f"{_name(job):<10}", cost(job)
    if found is None:
        return f"{name} {UNKNOWN}, not measured{_disturbed(actual)}"
    rate = f"{number(actual.get('shared_rate') or actual.get('disturbed_rate'))} steps/s"
    if found["basis"] == "beside foreign load":
        rate += " beside other processes"
    if not measured(job):
        return f"{name} {lost(found['value'])}, no interval: {rate}"
    between = f"{100 * (found['low'] - 1):.1f} to {100 * (found['high'] - 1):.1f}%"
    return f"{name} {lost(found['value'])} (95% interval {between}): {rate}"


def _disturbed(actual: Json) -> str:
    taken = actual.get("held_back")
    return "" if taken is None else f": other processes took up to {taken:.0%} of its time"


def _committed(verdict: Json, foreign: float | None) -> str:
    by_others = "" if foreign is None or foreign < 1 else f" ({percent(foreign)} of it other processes)"
    return f"{percent(verdict['numbers'].get('committed_pct'))} in use{by_others}"


def _sum(verdict: Json) -> float | None:
    numbers = verdict["numbers"]
    own, committed = numbers.get("newcomer_pct"), numbers.get("committed_pct")
    return None if own is None or committed is None else float(own + committed)


def _limit(verdict: Json) -> float | None:
    found: float | None = verdict["numbers"].get("limit_pct")
    return found


def _name(job: Json) -> str:
    return f"{job['id']} {job['name']}"


def lost(slowdown: float) -> str:
    """What a slowdown is in percent of time."""
    return f"{round(100 * (slowdown - 1), 1) + 0.0:.1f}%"  # + 0.0: no "-0.0%"


def percent(value: float | None) -> str:
    """Percent of the device."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def memory(value: float | None) -> str:
    """Bytes as GiB."""
    return UNKNOWN if value is None else f"{value / 2**30:.2f} GiB"


def number(value: float | None) -> str:
    """Steps per second."""
    return UNKNOWN if value is None else f"{value:.1f}"
