"""A trace as a CSV file that anybody can bring: `submit_s, duration_s, num_gpus, kind, user, deadline_s, priority`.

Arrives: such a file, columns in any order; only `submit_s` and `duration_s` must be there. Leaves: its jobs. Raises `BadInput`
with the line and what to write there. A blank `num_gpus` is 1, and 0.5 is half of one; without a kind, a job's kind is its
user, decade of duration and device count.
"""

from __future__ import annotations

from pathlib import Path

from gpuq.learn.history.rows import CsvRow, read_rows
from gpuq.sim.traces.requests import Asked, Imported, imported

COLUMNS = ("submit_s", "duration_s", "num_gpus", "kind", "user", "deadline_s", "priority")
_MOST_PRIORITY = 1000
_NOBODY = "somebody"


def read(path: Path) -> Imported:
    """The jobs of the file. Jobs without a duration are left out, and counted."""
    found, endless = [], 0
    for row in read_rows(path, ("submit_s", "duration_s"), described_in="docs/simulate.md"):
        job = _asked(row)
        if job is None:
            endless += 1
        else:
            found.append(job)
    notes = [f"left out: {endless} jobs with no duration"] if endless else []
    return imported(path.name, found, notes)


def _asked(row: CsvRow) -> Asked | None:
    submit, duration = row.moment("submit_s"), row.above_zero("duration_s")
    if submit is None:
        raise row.wrong("submit_s is blank", "Write seconds, on any clock, or a time such as 2026-11-21T14:30:00Z.")
    deadline = row.moment("deadline_s")
    if deadline is not None and deadline < submit:
        raise row.wrong(
            f"deadline_s is {deadline:g}, before submit_s {submit:g}", "Write it on the same clock, not as a time span."
        )
    devices, share = _devices(row)
    user = row.text("user") or _NOBODY
    if duration is None:
        return None
    return Asked(
        submit, duration, devices, user,
        owner=user, kind=row.text("kind") or None, share_pct=share, deadline_s=deadline, priority=_priority(row),
    )  # fmt: skip


def _devices(row: CsvRow) -> tuple[int, float | None]:
    """(how many, percent of one if it is less)."""
    count = row.above_zero("num_gpus") or 1.0
    if count < 1:
        return 1, 100 * count
    if count != int(count):
        raise row.wrong(f"num_gpus is {count:g}", "Write a whole number, or a part of one GPU such as 0.5.")
    return int(count), None


def _priority(row: CsvRow) -> int:
    """`CsvRow.number` knows no negative numbers, and priorities may be."""
    text = row.text("priority")
    minus = text.startswith("-") and len(text) > 1
    value = CsvRow(row.path, row.line, {"priority": text.removeprefix("-")}).number("priority") if minus else None
    found = -value if value is not None else row.number("priority") or 0.0
    if found != int(found) or abs(found) > _MOST_PRIORITY:
        raise row.wrong(f"priority is {text}", f"Write a whole number from -{_MOST_PRIORITY} to {_MOST_PRIORITY}.")
    return int(found)
