"""A trace as a CSV file: `submit_s, duration_s, num_gpus, kind, user, deadline_s, priority`, in any order.

Only `submit_s` and `duration_s` are required; docs/simulate.md describes the columns. What cannot be read raises `BadInput`
with its line and what to write there.
"""

from __future__ import annotations

from pathlib import Path

from gpuq.learn.history.rows import CsvRow, read_rows
from gpuq.sim.traces.requests import ImportedTrace, TraceJob, imported

COLUMNS = ("submit_s", "duration_s", "num_gpus", "kind", "user", "deadline_s", "priority")
_MOST_PRIORITY = 1000
# The owner of jobs that name none. Kinds and reports contain this name.
DEFAULT_USER = "somebody"


def read(path: Path) -> ImportedTrace:
    """The jobs of the file. Jobs without a duration are left out, and a note counts them."""
    found, without_duration = [], 0
    for row in read_rows(path, ("submit_s", "duration_s"), described_in="docs/simulate.md"):
        job = _trace_job(row)
        if job is None:
            without_duration += 1
        else:
            found.append(job)
    notes = [f"left out: {without_duration} jobs with no duration"] if without_duration else []
    return imported(path.name, found, notes)


def _trace_job(row: CsvRow) -> TraceJob | None:
    submit, duration = row.moment("submit_s"), row.above_zero("duration_s")
    if submit is None:
        raise row.wrong("submit_s is blank", "Write seconds, on any clock, or a time such as 2026-11-21T14:30:00Z.")
    deadline = row.moment("deadline_s")
    if deadline is not None and deadline < submit:
        raise row.wrong(
            f"deadline_s is {deadline:g}, before submit_s {submit:g}", "Write it on the same clock, not as a time span."
        )
    devices, share = _devices(row)
    user = row.text("user") or DEFAULT_USER
    if duration is None:
        return None
    return TraceJob(
        submit, duration, devices, user,
        owner=user, kind=row.text("kind") or None, share_pct=share, deadline_s=deadline, priority=_priority(row),
    )  # fmt: skip


def _devices(row: CsvRow) -> tuple[int, float | None]:
    """(number of devices, percent of one device for a part of one, else None)."""
    count = row.above_zero("num_gpus") or 1.0
    if count < 1:
        return 1, 100 * count
    if count != int(count):
        raise row.wrong(f"num_gpus is {count:g}", "Write a whole number, or a part of one GPU such as 0.5.")
    return int(count), None


def _priority(row: CsvRow) -> int:
    """A whole number from -1000 to 1000. `CsvRow.number` refuses negative numbers, so the sign is handled here."""
    text = row.text("priority")
    minus = text.startswith("-") and len(text) > 1
    value = CsvRow(row.path, row.line, {"priority": text.removeprefix("-")}).number("priority") if minus else None
    found = -value if value is not None else row.number("priority") or 0.0
    if found != int(found) or abs(found) > _MOST_PRIORITY:
        raise row.wrong(f"priority is {text}", f"Write a whole number from -{_MOST_PRIORITY} to {_MOST_PRIORITY}.")
    return int(found)
