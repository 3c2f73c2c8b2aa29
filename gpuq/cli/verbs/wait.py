"""`gpuq wait ID…`: wait until jobs have ended. Exits with the job's code, the largest of several; 124 after --timeout."""

from __future__ import annotations

from gpuq.cli import console, job_ids
from gpuq.cli.arguments import Parser, add_ids, add_json_lines
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.quantities import parse_duration
from gpuq.cli.verbs import follow


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
    ids = job_ids.several(client, options.ids)
    ended = follow.wait(client, ids, timeout_s, note=lambda job: console.print_json_line(_end(job)) if lines else None)
    if ended is None:
        console.note(f"gpuq: not all ended within {options.timeout}; they go on.")
        return follow.TIMED_OUT
    if options.json and not lines:
        console.print_json([_end(job) for job in ended])
    for job in ended:
        follow.note_end(job)
    return max(map(follow.exit_code, ended))


def _end(job: Record) -> Record:
    return {name: job.get(name) for name in ("id", "state", "exit_code", "reason")}
