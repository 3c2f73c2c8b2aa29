"""A trace as a CSV file: `submit_s, duration_s, num_gpus, kind, user, deadline_s, priority, preemptible`, in any order.

Only `submit_s` and `duration_s` are required; docs/simulate.md describes the columns. What cannot be read raises `BadInput`
with its line and what to write there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from gpuq.learn.history.rows import CsvRow, read_rows
from gpuq.sim.traces.requests import ImportedTrace, TraceJob, imported

COLUMNS = ("submit_s", "duration_s", "num_gpus", "kind", "user", "deadline_s", "priority", "preemptible")
_MOST_PRIORITY = 1000
_YEAR_S = 365.25 * 86_400
# No job lasts as long, and no queue is empty for as long: a clock or a unit is wrong.
_LONGEST_S = 10 * _YEAR_S
# The year 5138: such a clock counts milliseconds.
_LAST_S = 1e11
# The owner of jobs that name none. Kinds and reports contain this name.
DEFAULT_USER = "somebody"


def read(path: Path) -> ImportedTrace:
    """The jobs of the file. Those without a duration and those without a GPU are left out, and notes count them."""
    found, lines = [], []
    columns: set[str] = set()
    left_out: Counter[str] = Counter()
    for row in read_rows(path, ("submit_s", "duration_s"), described_in="docs/simulate.md"):
        columns |= row.cells.keys()
        job = _trace_job(row)
        if isinstance(job, str):
            left_out[job] += 1
        else:
            found.append(job)
            lines.append((job.submit_s, row))
    _check_gaps(lines)
    notes = [f"left out: {count} jobs {why}" for why, count in left_out.items()]
    if not any(job.preemptible for job in found):
        notes.append("no job is preemptible: the column preemptible names none")
    return imported(path.name, found, [*notes, *_about_columns(columns)])


def _about_columns(columns: set[str]) -> Iterator[str]:
    """A name that is spelt otherwise here would else go unnoticed."""
    if "num_gpus" not in columns:
        yield "each job is played on one device: there is no column num_gpus"
    if unread := sorted(columns.difference(COLUMNS, {""})):
        yield f"columns that are not read: {', '.join(unread)}"


def _check_gaps(lines: list[tuple[float, CsvRow]]) -> None:
    """Raises BadInput where one job was submitted many years after the one before it."""
    for (before_s, before), (after_s, after) in pairwise(sorted(lines, key=lambda line: line[0])):
        if after_s - before_s > _LONGEST_S:
            raise after.wrong(
                f"submit_s is {_years(after_s - before_s)} after line {before.line}, and nothing came between",
                "Write all times on one clock, in seconds or as dates.",
            )


def _years(seconds: float) -> str:
    return f"{seconds / _YEAR_S:.3g} years"


def _trace_job(row: CsvRow) -> TraceJob | str:
    """The job of this line, or why it is left out."""
    submit, duration = row.moment("submit_s"), row.above_zero("duration_s")
    if submit is None:
        raise row.wrong("submit_s is blank", "Write seconds, on any clock, or a time such as 2026-11-21T14:30:00Z.")
    if abs(submit) > _LAST_S:
        raise row.wrong(f"submit_s is {submit:g}, {_years(submit)} of seconds", "Divide milliseconds by 1000.")
    if duration is not None and duration > _LONGEST_S:
        raise row.wrong(f"duration_s is {_years(duration)}", "Write seconds; blank is unknown, and leaves the job out.")
    deadline = row.moment("deadline_s")
    if deadline is not None and deadline < submit:
        raise row.wrong(
            f"deadline_s is {deadline:g}, before submit_s {submit:g}", "Write it on the same clock, not as a time span."
        )
    asked = _devices(row)
    user = row.text("user") or DEFAULT_USER
    priority, preemptible = _priority(row), row.flag("preemptible") or False
    if duration is None:
        return "with no duration"
    if asked is None:
        return "with no GPU"
    devices, share = asked
    return TraceJob(
        submit, duration, devices, user,
        owner=user, kind=row.text("kind") or None, share_pct=share, deadline_s=deadline, priority=priority,
        preemptible=preemptible,
    )  # fmt: skip


def _devices(row: CsvRow) -> tuple[int, float | None] | None:
    """(number of devices, percent of one device for a part of one, else None); None for a job on no device."""
    count = row.number("num_gpus")
    if count == 0:
        return None
    if count is None:
        return 1, None
    if count < 1:
        return 1, 100 * count
    if count != int(count):
        raise row.wrong(f"num_gpus is {count:g}", "Write a whole number, or a part of one GPU such as 0.5.")
    return int(count), None


def _priority(row: CsvRow) -> int:
    """A whole number from -1000 to 1000."""
    found = row.signed("priority") or 0.0
    if found != int(found) or abs(found) > _MOST_PRIORITY:
        raise row.wrong(f"priority is {found:g}", f"Write a whole number from -{_MOST_PRIORITY} to {_MOST_PRIORITY}.")
    return int(found)
