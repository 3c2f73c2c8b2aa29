"""`gpuq edit ID…`: change what waiting jobs ask for, and the name, time limit and notifications of running ones."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpuq.array import ranges
from gpuq.cli import console, edits, job_ids, job_options
from gpuq.cli.arguments import Parser, add_ids
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.verbs.control import check_one_request, drop_refused_tasks
from gpuq.cli.verbs.queue import start_order
from gpuq.errors import BadInput, Conflict, Failure, GpuqError

# Up to this many jobs get a line each.
_LINES = 10
# So many of the waiting jobs are looked at, to find the first that still waits.
_LOOKED_AT = 20
MOST_PRIORITY = 1000
_EPILOG = """\
A value `default` takes back what the job was given: --time default. Without an
option of these the editor ($VISUAL, $EDITOR) opens on the values of one job.
Of a running job the name, a shorter time limit and the notifications change.
All of the jobs are changed, or none; of an array those that can be.
"""


def run(words: list[str]) -> int:
    """Run the verb. Exit code 6: a job is too far to be changed so; 7: no device could run it then."""
    parser = Parser("edit", "Change what jobs ask for.", epilog=_EPILOG)
    add_ids(parser)
    add = parser.group("new values")
    others = {"name": ("-n", "-J"), "priority": ("-p",), "time": ("-t", "--time-limit")}
    for one in edits.FIELDS:
        repeated: dict[str, Any] = {"action": "append"} if one.option == "notify" else {}
        add(f"--{one.option}", *others.get(one.option, ()), metavar="X", help=one.help, **repeated)
    add("--next", action="store_true", help="let it go next: a priority above that of the first that waits")
    parser.add_argument("--dry-run", action="store_true", help="only say which jobs would be changed")
    try:
        options = parser.parse_args(words)
    except BadInput as error:
        raise _fixed(parser, words) or error from None
    if options.notify == [edits.DEFAULT]:
        options.notify = edits.DEFAULT
    edit = edits.fields(vars(options))
    client = HttpClient.of(options)
    jobs = job_ids.named(client, options.ids, only_one=True)
    if options.next:
        if "priority" in edit:
            raise BadInput("--next and --priority exclude each other.", fix="Leave one of them out.")
        edit["priority"] = _above_the_first(client, set(jobs.ids))
    if edit:
        return _change(client, options, jobs, edit)
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or (sys.stdin.isatty() and sys.stdout.isatty())):
        raise BadInput(
            "there is nothing to change.", fix="Name a value, as in --priority 5; an editor needs a terminal."
        )
    return _in_editor(client, options, jobs)


def _fixed(parser: Parser, words: list[str]) -> BadInput | None:
    """The error for an option of a submission that no edit has; None if none was typed."""
    submission = job_options.job_parser("submit", "")
    job_options.add_job_options(submission)
    fixed = set(submission.long_options()) - set(parser.long_options())
    typed = next((name for word in words if (name := word.partition("=")[0]) in fixed), None)
    if typed is None:
        return None
    why = "Only what `gpuq edit --help` lists can; the rest decides what is learned from the job"
    return BadInput(f"{typed} of a job cannot be changed.", fix=f"{why}. Cancel it and submit it again.")


def _above_the_first(client: HttpClient, ids: set[int]) -> int:
    """A priority above that of the first of the other jobs that wait. Raises Conflict where no other waits."""
    others = [job for job in client.get("/api/v1/queue")["waiting"] if job not in ids]
    found: list[Record] = []
    while others and not found:  # those that have started since then are left out
        some, others = others[:_LOOKED_AT], others[_LOOKED_AT:]
        of_some = {"ids": ",".join(map(str, some)), "state": "PENDING", "owner": "all", "limit": len(some)}
        found = client.get("/api/v1/jobs", **of_some)["jobs"]
    if not found:
        raise Conflict("No other job waits.", fix="It starts as soon as a device takes it; `gpuq explain` says more.")
    first = min(found, key=start_order)
    if first["priority"] >= MOST_PRIORITY:
        raise Conflict(
            f"Job {first['id']} waits with the highest priority, {MOST_PRIORITY}.",
            fix="Lower the priority of that one.",
        )
    return int(first["priority"]) + 1


def _in_editor(client: HttpClient, options: argparse.Namespace, jobs: job_ids.Jobs) -> int:
    """Change the values of one job in an editor. What was refused stays in its file."""
    if len(jobs.ids) > 1:
        raise BadInput(
            "there is nothing to change.", fix="Name a value, as in --priority 5; the editor is for one job."
        )
    job = client.get(f"/api/v1/jobs/{jobs.only}")
    if job["state"] not in ("PENDING", "HELD", "RUNNING"):
        raise Conflict(f"Job {jobs.label(jobs.only)} cannot be edited: it is {job['state']}.")
    values = edits.values_of(job)
    title = f"Job {jobs.label(jobs.only)} is {job['state']}. It is changed when you save this and leave the editor."
    with tempfile.NamedTemporaryFile("w", prefix="gpuq-edit-", suffix=".toml", delete=False, encoding="utf-8") as file:
        file.write(edits.as_text(values, title))
    path = Path(file.name)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        status = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
    except OSError as error:
        path.unlink()
        raise Failure(f"The editor `{editor}` cannot be started: {error.strerror}.", fix="Set EDITOR.") from error
    if status:
        path.unlink()
        raise Failure(f"The editor `{editor}` ended with {status}; nothing was changed.", fix="Run it again.")
    try:
        edit = edits.from_text(path.read_text(encoding="utf-8"), values)
        code = _change(client, options, jobs, edit) if edit else 0
    except GpuqError as error:
        error.fix = f"{error.fix} Your text is in {path}."
        raise
    path.unlink()
    if not edit:
        console.note("Nothing was changed.")
    return code


def _change(client: HttpClient, options: argparse.Namespace, jobs: job_ids.Jobs, edit: Record) -> int:
    """Request the edit, and print what became of it."""
    where: Record = {"ids": jobs.merged}
    check_one_request(where["ids"])
    body = {"where": where, "edit": edit}
    if jobs.whole:
        # An array means those of its tasks that can be changed.
        look = client.post("/api/v1/jobs/edit", {**body, "dry_run": True})
        drop_refused_tasks(look, jobs)
        refused = [job for one in look["refused"] for job in one["ids"]]
        meant = sorted([*refused, *(job for ids in look["jobs"].values() for job in ids)])
        where["ids"] = [*map(list, ranges(meant)), *look["missing"]]
        if len(jobs.whole) == len(jobs.ranges) and look["jobs"]:
            # Tasks that start or end before the request comes are those for which it is not possible.
            where["state"] = list(look["jobs"])
    answer: Record = client.post("/api/v1/jobs/edit", {**body, "dry_run": options.dry_run})
    if options.json:
        console.print_json(answer)
    else:
        _print(answer, jobs)
    return Conflict.exit_code if answer["unchanged"] or answer["refused"] else 0


def _print(answer: Record, jobs: job_ids.Jobs) -> None:
    changed = [job for ids in answer["jobs"].values() for job in ids if job not in set(answer["unchanged"])]
    outcome = "would be changed" if answer["dry_run"] else "changed" if answer["done"] else "will change in a moment"
    if len(changed) > _LINES:
        console.note(f"{len(changed):,} jobs {outcome}.")
    for job in changed if len(changed) <= _LINES else ():
        console.note(f"Job {jobs.label(job)} {outcome}.")
    for refused in answer["refused"]:
        console.note(f"gpuq: Job {jobs.label(refused['ids'][0])} {refused['why']}.")
    for job in answer["unchanged"][:_LINES]:
        console.note(f"gpuq: Job {jobs.label(job)} had started or ended before, and stays as it was.")
    if changed and not answer["dry_run"] and len(answer["undo"]) == 1:
        # By ids: `@` and names mean other jobs later.
        (undo,) = answer["undo"]
        ids = [jobs.label(first) if first == last else f"{first}-{last}" for first, last in undo["where"]["ids"]]
        console.note(f"  To take it back: {shlex.join(['gpuq', 'edit', *ids, *edits.as_options(undo['edit'])])}")
