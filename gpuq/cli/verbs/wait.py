"""`gpuq wait ID…`: wait until jobs have ended. Exits with the job's code, the largest of several; 124 after --timeout."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpuq.cli import console, job_ids
from gpuq.cli.arguments import Parser, add_ids, add_json_lines
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.quantities import parse_duration
from gpuq.cli.verbs import follow

# Of an array that went wrong so many tasks are noted one by one.
_NOTED = 10


def run(words: list[str]) -> int:
    """Wait for jobs."""
    parser = Parser("wait", "Wait for jobs to end. The exit code is the job's; of several the largest.")
    add_ids(parser)
    add_json_lines(parser, "job that has ended, at once,")
    parser.add_argument(
        "--timeout", metavar="TIME", help="give up after this (45s, 2h; a lone number is minutes): code 124"
    )
    options = parser.parse_args(words)
    timeout_s = parse_duration(options.timeout) if options.timeout else None
    client = HttpClient.of(options)
    lines = options.json == "lines"
    jobs = job_ids.named(client, options.ids)
    ended = wait_for(client, jobs, timeout_s, every_task=options.json, note=_print_line if lines else None)
    if ended is None:
        console.note(f"gpuq: not all ended within {options.timeout}; they go on.")
        return follow.TIMED_OUT
    if options.json and not lines:
        console.print_json([_end(job) for job in ended])
    note_ends(ended)
    return max(map(follow.exit_code, ended), default=0)


def _end(job: Record) -> Record:
    return {name: job.get(name) for name in ("id", "state", "exit_code", "reason")}


def _print_line(job: Record) -> None:
    console.print_json_line(_end(job))


def wait_for(
    client: HttpClient,
    jobs: job_ids.Jobs,
    timeout_s: float | None = None,
    *,
    every_task: bool = False,
    note: Callable[[Record], None] | None = None,
) -> list[Record] | None:
    """These jobs once all have ended; None after `timeout_s`. Of whole arrays only the tasks that did not complete, unless
    `every_task`. `note` is called with each job that is returned, as soon as its end is known."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    retry, note = follow.Retry(), note or (lambda _: None)
    single = jobs.single_ids
    ended = follow.wait(client, single, timeout_s, retry, note=note) if single else []
    if ended is None or not jobs.whole:
        return ended
    from gpuq.cli import arrays

    for one in sorted(jobs.whole):
        array = arrays.wait(client, one, deadline, retry)
        if array is None:
            return None
        if array["count"] > 1:  # of one task its own end says all
            console.note(f"gpuq: array {one} ended: {arrays.summary(array)}.")
        states = [state for state in array["states"] if every_task or state != "COMPLETED"]
        for task in arrays.tasks(client, one, states):
            note(task)
            ended.append(task)
    return ended


def note_ends(ended: list[Record]) -> None:
    """Write a note about each end that the exit code does not explain; of many only about the first."""
    noted = [job for job in ended if job["state"] != "COMPLETED"]
    for job in noted[:_NOTED]:
        follow.note_end(job)
    if len(noted) > _NOTED:
        console.note(f"gpuq: and {len(noted) - _NOTED:,} more.")
