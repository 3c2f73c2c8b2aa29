"""`gpuq attach`: go back to the terminal of a job that was started with `--pty`."""

from __future__ import annotations

from functools import partial

from gpuq.cli import job_ids, terminal
from gpuq.cli.arguments import Parser, add_id
from gpuq.cli.client import HttpClient
from gpuq.cli.verbs import follow
from gpuq.errors import Conflict

EPILOG = """\
Every key goes to the job, Ctrl-C and Ctrl-Z too. Enter, ~, d detaches: the job
goes on. So does closing this terminal. The exit code is the job's, 0 after
detaching.
"""


def run(words: list[str]) -> int:
    """Work in the terminal of a job. Returns the job's exit code, or 0 after detaching."""
    parser = Parser("attach", "Work in the terminal of a job that was started with --pty.", epilog=EPILOG)
    add_id(parser)
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    job_id = job_ids.one(client, options.id)
    job = client.get(f"/api/v1/jobs/{job_id}")
    if job["interactive"] != "terminal":
        raise Conflict(
            f"Job {job_id} has no terminal.", fix=f"`gpuq logs -f {job_id}` follows its output; --pty gives a job one."
        )
    if follow.settled(client, job):
        raise Conflict(f"Job {job_id} has ended; it is {job['state']}.", fix=f"`gpuq logs {job_id}` prints its output.")
    return terminal.work_in(partial(HttpClient.of, options), job_id, whole=False)
