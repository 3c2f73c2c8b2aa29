"""Arrays on the screen: a line in the queue, a summary, and how their tasks ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

from gpuq import array
from gpuq import format as fmt
from gpuq.cli import console, messages
from gpuq.cli.client import HttpClient, Record
from gpuq.states import ACTIVE, ENDED, MAY_REQUEUE, WAITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpuq.cli.verbs.follow import Retry

_COLUMNS = (
    console.Column("ARRAY"),
    console.Column("NAME", least=12),
    console.Column("TASKS", give_up=1),
    console.Column("DONE", right=True),
    console.Column("RUN", right=True),
    console.Column("WAIT", right=True),
    console.Column("FAIL", right=True),
    console.Column("START", right=True, give_up=3),
    console.Column("REASON", least=14, give_up=2),
)
_PAGE = 500
_COMES_BACK_S = 1.0


def count(of: Record, states: frozenset[str]) -> int:
    """How many tasks are in one of these states."""
    return sum(number for state, number in of["states"].items() if state in states)


def failed(of: Record) -> int:
    """How many tasks ended otherwise than completed or cancelled."""
    return count(of, ENDED - {"COMPLETED", "CANCELLED"})


def table(arrays: Sequence[Record], width: int, now: float) -> list[str]:
    """A line for each array: how many of its tasks have ended, run, wait and failed."""
    rows = [
        [
            str(one["id"]),
            _name(one),
            _tasks(one),
            f"{count(one, ENDED)}/{one['count']}",
            str(count(one, ACTIVE) or "-"),
            str(count(one, WAITING) or "-"),
            str(failed(one) or "-"),
            _start(one, now),
            fmt.clean(one["reason"] or ""),
        ]
        for one in arrays
    ]
    kept = [i for i in range(len(_COLUMNS)) if i < 6 or any(row[i] not in ("", "-") for row in rows)]
    return console.table([_COLUMNS[i] for i in kept], [[row[i] for i in kept] for row in rows], width, [])


def screen(of: Record, width: int, colour: bool) -> list[str]:
    """The summary of `gpuq show`: what was submitted, and how far it is."""
    from shlex import join

    states = [f"{number:,} {state} (first: {of['id']}_{of['first'][state]})" for state, number in of["states"].items()]
    facts = [
        ("command", fmt.clean(join(of["command"])) if of["command"] else "(not shown: another user's)"),
        ("owner", fmt.clean(of["owner"])),
        ("project", None if of["project"] is None else fmt.clean(of["project"])),
        ("tasks", _tasks(of)),
        ("parameters", ", ".join(map(fmt.clean, of["params"])) if of["params"] else None),
        ("submitted", fmt.local_time(of["submitted_at"])),
        ("ended", f"{count(of, ENDED):,} of {of['count']:,}"),
    ]
    verdict = messages.lines(of["verdict"]) if of["verdict"] else []
    why = [f"  {part}" for line in verdict for part in console.wrapped(line, width - 2)]
    return [
        f"{console.paint('array ' + str(of['id']), '1', colour)}  {_name(of)}",
        *console.facts(facts, width),
        *console.section("states", [f"  {line}" for line in states], colour),
        *console.section("why the first that waits does", why, colour),
    ]


def summary(of: Record) -> str:
    """`37 COMPLETED, 3 FAILED`."""
    return ", ".join(f"{number:,} {state}" for state, number in of["states"].items())


def wait(client: HttpClient, of: int, deadline: float | None, retry: Retry) -> Record | None:
    """The array once all its tasks have ended; None when `deadline`, by the monotonic clock, has come."""
    look, pause = partial(client.get, "/api/v1/arrays", ids=of), 0.05
    while True:
        [now] = retry(look)["arrays"]
        if count(now, ENDED) == now["count"]:
            if not count(now, MAY_REQUEUE):
                return dict(now)
            # Those may wait again at once: this is their end only if it is still so a moment later.
            time.sleep(_COMES_BACK_S)
            if retry(look)["arrays"][0]["states"] == now["states"]:
                return dict(now)
        if deadline is not None and time.monotonic() >= deadline:
            return None
        time.sleep(pause if deadline is None else max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(1.0, pause * 1.5)


def tasks(client: HttpClient, of: int, states: Sequence[str]) -> Iterator[Record]:
    """The tasks of an array that are in one of these states, by their numbers."""
    after = None
    while states:
        where = {"state": ",".join(states), "owner": "all", "order": "oldest"}
        page = client.get("/api/v1/jobs", array=of, limit=_PAGE, after=after, **where)
        yield from page["jobs"]
        after = page["next"]
        if after is None:
            return


def _tasks(of: Record) -> str:
    at_once = "" if of["at_once"] is None else f"%{of['at_once']}"
    return array.text_of(array.numbers(of["tasks"])) + at_once


def _name(of: Record) -> str:
    return fmt.clean(of["name"] or "") or "-"


def _start(of: Record, now: float) -> str:
    expected = of["expected_start"]
    if not expected or expected["p50_unix"] <= now + 1:
        return "-"
    return f"~{fmt.about(expected['p50_unix'] - now)}{'' if expected.get('checked', True) else '?'}"
