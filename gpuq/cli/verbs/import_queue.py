"""`gpuq import ts|gflow`: take over the jobs that wait in another queue. Without --yes it only says what it would do."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from itertools import repeat
from pathlib import Path

from gpuq.cli import capture, console, variables
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record, new_key
from gpuq.cli.console import Column
from gpuq.cli.imports import ImportedJob
from gpuq.cli.verbs.submit import batches
from gpuq.errors import BadInput
from gpuq.format import clean


def run(words: list[str]) -> int:
    """Show them, or submit them. Raises BadInput, Unreachable; then none is submitted."""
    parser = Parser(
        "import",
        "Take over the jobs that wait in task-spooler (ts) or gflow. Running jobs stay\n"
        "there, and so does what waits for another job. First shows what it would do;\n"
        "--yes does it. Nothing there is changed: remove there what was taken over.",
    )
    parser.add_argument("queue", choices=["ts", "gflow"], help="the queue, of this user on this machine")
    parser.add_argument(
        "--file", metavar="FILE", help="gflow: its list of jobs as JSON, in place of its daemon's answer"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="submit them")
    options = parser.parse_args(words)
    if options.file and options.queue != "gflow":
        raise BadInput("--file is for gflow only.", fix="task-spooler has no file: its processes hold its queue.")
    found = _waiting(options.queue, Path(options.file) if options.file else None)
    bodies = [body(job) for job in found if job.stays is None]
    if options.yes and bodies:
        client, ids = HttpClient.of(options), list[int]()
        for batch in batches(bodies):
            ids += client.post("/api/v1/jobs", batch, key=new_key())["ids"]
    else:
        ids = []
    new_ids: Iterator[int | None] = iter(ids or repeat(None))
    answer = [
        {"id": job.id, "command": job.words, "cwd": str(job.cwd), "stays": job.stays}
        | ({"job": next(new_ids)} if job.stays is None else {})
        for job in found
    ]
    console.show(options, {"jobs": answer, "submitted": bool(ids)}, lambda _, width, __: _listing(answer, width))
    taken = [job.id for job in found if job.stays is None]
    if ids and not options.json:
        remove = {"ts": "\n  ".join(f"tsp -r {one}" for one in taken), "gflow": f"gcancel {','.join(taken)}"}
        console.note(f"They wait here now. Remove them there:\n  {remove[options.queue]}")
    elif taken and not options.json:
        console.note(f"Nothing is submitted yet. `gpuq import {options.queue} --yes` submits {len(taken)}.")
    return 0


def _waiting(queue: str, file: Path | None) -> list[ImportedJob]:
    if queue == "ts":
        from gpuq.cli.imports import task_spooler

        return task_spooler.waiting()
    from gpuq.cli.imports import gflow

    return gflow.waiting(file, os.environ)


def body(job: ImportedJob) -> Record:
    """The submission of a job, with its words as they are there. Raises BadInput with its id there."""
    try:
        command = capture.command(job.words, verbatim=True, python=None, environ=job.env, cwd=job.cwd)
        found: Mapping[str, object] = {
            "command": command.words,
            "cwd": str(job.cwd),
            "env": variables.environment(job.env, (), ()),
            "name": Path(job.words[0]).name,
            "script": str(command.script) if command.script else None,
            "script_sha256": capture.work_sha256(command, job.cwd),
            "hints": capture.hints(command, job.cwd),
            "umask": capture.umask(),
            **job.fields,
        }
    except BadInput as error:
        raise BadInput(f"job {job.id} there: {error.message}", fix=error.fix) from error
    return {name: value for name, value in found.items() if value is not None}


def _listing(answer: list[Record], width: int) -> list[str]:
    if not answer:
        return ["No job waits there."]
    columns = [Column("THERE"), Column("HERE"), Column("FOLDER", least=12, give_up=1), Column("COMMAND", least=20)]
    rows = []
    for job in answer:
        here = "stays: " + job["stays"] if job["stays"] else str(job["job"] or "would wait")
        rows.append((job["id"], here, clean(job["cwd"]), clean(shlex.join(job["command"]))))
    return console.table(columns, rows, width)
