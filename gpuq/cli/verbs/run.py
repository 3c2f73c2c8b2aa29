"""`gpuq run`: submit a job, follow it, exit with its code. Ctrl-C asks whether to leave the job running or to end it."""

from __future__ import annotations

import sys
from functools import partial

from gpuq.cli import console, job_body, job_options
from gpuq.cli.client import HttpClient
from gpuq.cli.verbs import follow
from gpuq.cli.verbs.submit import submit_one
from gpuq.errors import BadInput, Conflict
from gpuq.format import clean

_CANCELLED_HERE = 130


def run(words: list[str]) -> int:
    """Run one job to its end. Returns its exit code, or 130 after Ctrl-C."""
    parser = job_options.job_parser("run", "Submit, follow the output, exit with the job's code.")
    job_options.add_job_options(parser)
    options, body = job_body.parse(parser, words)
    if options.json:
        raise BadInput(
            "`gpuq run` prints what the job prints, and no JSON.",
            fix="`gpuq submit --json` prints the id, and `gpuq show --json ID` the job once it has ended.",
        )
    client = HttpClient.of(options)
    job_id = submit_one(client, body)
    how_to_leave = " Enter, ~, d leaves its terminal, and it goes on." if options.pty else ""
    console.note(f"gpuq: job {job_id} ({clean(body['name'])}) is queued.{how_to_leave}")
    try:
        if options.pty:
            from gpuq.cli import terminal

            return terminal.work_in(partial(HttpClient.of, options), job_id, whole=True)
        return follow.follow(client, job_id)
    except KeyboardInterrupt:
        if not _wants_cancel(job_id):
            console.note(
                f"gpuq: job {job_id} goes on. `gpuq logs -f {job_id}` follows it, `gpuq cancel {job_id}` ends it."
            )
            return _CANCELLED_HERE
    client = HttpClient.of(options)
    try:
        client.post(f"/api/v1/jobs/{job_id}/cancel")
    except Conflict:
        # It ended before the user answered.
        return follow.exit_code(client.get(f"/api/v1/jobs/{job_id}"))
    follow.wait(client, [job_id])
    console.note(f"gpuq: job {job_id} is cancelled.")
    return _CANCELLED_HERE


def _wants_cancel(job_id: int) -> bool:
    """Ask on the terminal. Without a terminal, or on a second Ctrl-C, the job keeps running."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    console.note(f"\ngpuq: leave job {job_id} running (d: detach) or end it (c: cancel)?")
    try:
        sys.stderr.write("[d/c] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"c", "cancel"}
    except KeyboardInterrupt:
        return False
