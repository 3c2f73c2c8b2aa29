"""`gpuq submit`: queue a script or a command.

On a terminal a sentence goes to stderr; into a pipe, or with --parsable, only the id goes to stdout.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpuq.array import numbers, ranges
from gpuq.cli import capture, console, job_body, job_options
from gpuq.cli.client import HttpClient, Record, new_key
from gpuq.cli.verbs import follow
from gpuq.errors import BadInput, GpuqError
from gpuq.format import clean

# The limits of one request, so that it is answered soon and stays far below the API's limit.
_BATCH_JOBS = 500
_BATCH_BYTES = 512 * 1024
# The longest command that Linux accepts.
_LINE_BYTES = 2 * 2**20
# What a shell takes as it is.
_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"")


def run(words: list[str]) -> int:
    """Submit. Returns 0, or the job's exit code with --wait or --follow."""
    parser = job_options.job_parser(
        "submit", "Queue a script or a command. Prints the id alone when stdout is not a terminal."
    )
    job_options.add_job_options(parser)
    job_options.add_array_options(parser)
    add = parser.group("submitting")
    add("--stdin", action="store_true", help="one command per line on stdin, quoted as in a shell")
    add("--wait", action="store_true", help="wait for the end; exit with the job's code")
    add("-f", "--follow", action="store_true", help="follow the output; exit with the job's code")
    add("--dry-run", action="store_true", help="say what is expected of it. The job is not queued.")
    add("--parsable", rare=True, action="store_true", help="Print only the id, also on a terminal.")
    own, verbatim, command = parser.split(words)
    by_line = parser.parse_args(own).stdin
    options, read = job_body.options_of(parser, own, [] if by_line else command, verbatim)
    if options.stdin:
        return _submit_lines(options, command)
    if options.follow and job_options.asks_for_array(options):
        raise BadInput("-f follows one job, not an array.", fix="Use --wait; `gpuq logs -f ID` follows a task.")
    body = job_body.submission(options, command, verbatim, read)
    job_body.warn_of_words(parser, body)
    if options.dry_run:
        from gpuq.cli.verbs.predict import predict

        return predict(HttpClient.of(options), _first_task(body), as_json=options.json)
    client = HttpClient.of(options)
    job_id = submit_one(client, body)
    console.write_of_done(lambda: _report(options, job_id, body), f"job {job_id} is queued")
    if options.follow:
        return follow_or_leave(client, job_id)
    return _wait(client, [job_id]) if options.wait else 0


def submit_one(client: HttpClient, body: Record) -> int:
    """Submit one job or array; its id. An idempotency key makes a repetition after a lost answer harmless."""
    send_files(client, body)
    answer: Record = client.post("/api/v1/jobs", body, key=new_key())
    tidy_snapshots(client, body)
    return int(answer["id"])


def send_files(client: HttpClient, body: Record) -> None:
    """Before a submission with `sync`: send what the server lacks of its files."""
    if "sync" in body:
        from gpuq.cli import sync

        sync.send(client, body)


def task_count(body: Record) -> int | None:
    """How many tasks a submission has; None for one that is no array."""
    return len(numbers(body["array"]["tasks"])) if "array" in body else None


def _first_task(body: Record) -> Record:
    """The submission that the first task of an array would be; a single job as it is."""
    if "array" not in body:
        return body
    from gpuq.array import filled
    from gpuq.cli.sweep import task_values

    values = task_values(body["array"], 0)
    console.note(f"gpuq: this is about the first of {task_count(body):,} tasks.")
    words = [filled(word, values) for word in body["command"]]
    return {**{name: value for name, value in body.items() if name != "array"}, "command": words}


def tidy_snapshots(client: HttpClient, body: Record) -> None:
    """After a submission with a snapshot: note that this gpuq uses it, and remove those that are old and not in use."""
    if "snapshot" in body:
        from gpuq.cli import snapshot

        snapshot.note_address(body["snapshot"]["key"], client.address)
        snapshot.remove_old(client, time.time())


def follow_or_leave(client: HttpClient, job_id: int, search: str | None = None) -> int:
    """Follow the job to its end and return its exit code; Ctrl-C leaves it running. With `search` see follow.follow."""
    try:
        return follow.follow(client, job_id, search)
    except KeyboardInterrupt:
        console.note(
            f"\ngpuq: job {job_id} goes on. `gpuq logs -f {job_id}` follows it, `gpuq cancel {job_id}` ends it."
        )
        raise


def _report(options: argparse.Namespace, job_id: int, body: Record) -> None:
    tasks = task_count(body)
    if options.json:
        console.print_json({"id": job_id} if tasks is None else {"id": job_id, "tasks": tasks})
    elif options.parsable or not (sys.stdout.isatty() or options.follow):
        print(job_id, flush=True)
    else:
        what, more = f"job {job_id}", f"`gpuq logs -f {job_id}` follows it."
        if tasks is not None:
            what, more = f"array {job_id} of {tasks:,} tasks", f"`gpuq queue {job_id}` shows how far it is."
        if options.hold:
            more = f"Held; `gpuq release {job_id}` lets it start."
        console.note(f"Submitted {what} ({clean(body['name'])}). {more}")


def _wait(client: HttpClient, ids: Sequence[int]) -> int:
    from gpuq.cli import job_ids
    from gpuq.cli.verbs.wait import note_ends, wait_for

    named = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges(ids))
    try:
        ended = wait_for(client, job_ids.named(client, [named])) or []
    except KeyboardInterrupt:
        goes_on, it = (f"job {named} goes on", "it") if len(ids) == 1 else (f"jobs {named} go on", "them")
        console.note(f"\ngpuq: {goes_on}. `gpuq wait {named}` waits again, `gpuq cancel {named}` ends {it}.")
        raise
    note_ends(ended)
    return max(map(follow.exit_code, ended), default=0)


# --- one command per line ------------------------------------------------------------------------------------------


def _submit_lines(options: argparse.Namespace, command: list[str]) -> int:
    if command:
        raise BadInput(
            "--stdin takes its commands from stdin, not from the command line.", fix="Leave one of them out."
        )
    if job_options.asks_for_array(options):
        raise BadInput(
            "--stdin goes with none of --array, --grid and --sweep.", fix="Write a line for each job, or use --sweep."
        )
    if options.follow or options.dry_run:
        raise BadInput("--stdin goes with neither --follow nor --dry-run.", fix="Use --wait, or submit one job.")
    bodies = list(_bodies(options))
    if not bodies:
        raise BadInput("stdin holds no command.", fix="Write one command per line: printf 'train.py --lr 0.1\\n' | …")
    client = HttpClient.of(options)
    send_files(client, bodies[0])
    ids: list[int] = []
    try:
        for batch in batches(bodies):
            ids += client.post("/api/v1/jobs", batch, key=new_key())["ids"]
    except GpuqError:
        if ids:
            console.note(
                f"gpuq: {len(ids)} of {len(bodies)} commands were queued before this; their ids are on stdout."
            )
        console.write_of_done(lambda: _print_ids(options, ids), _queued(ids))
        raise
    tidy_snapshots(client, bodies[0])
    console.write_of_done(lambda: _print_ids(options, ids), _queued(ids))
    return _wait(client, ids) if options.wait else 0


def batches(bodies: Iterable[Record]) -> Iterator[list[Record]]:
    """Group submissions, in order, into requests of bounded size."""
    batch: list[Record] = []
    size = 0
    for body in bodies:
        length = len(json.dumps(body))
        if batch and (len(batch) == _BATCH_JOBS or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(body)
        size += length
    if batch:
        yield batch


def _bodies(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The submission of each line of stdin that is neither empty nor a comment. Raises BadInput with the line's number."""
    import shlex

    shared = job_body.prepare(options)
    # A line longer than the limit is read in part only, and refused.
    lines = iter(lambda: sys.stdin.buffer.readline(_LINE_BYTES + 1), b"")
    for number, raw in enumerate(lines, start=1):
        if len(raw) > _LINE_BYTES:
            raise BadInput(f"line {number} of stdin is longer than 2 MiB.", fix="Write one command per line.")
        # Undecodable bytes become surrogates, so that the check for UTF-8 can name the line.
        line = raw.decode("utf-8", "surrogateescape").removesuffix("\n")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line)
            _check_no_shell(line)
            verbatim = words[:1] == ["--"]
            yield job_body.body_of(shared, words[1:] if verbatim else words, verbatim=verbatim, read=_no_script)
        except ValueError as error:
            fix = "Close the quotes; one command per line."
            raise BadInput(f"line {number} of stdin: {error}.", fix=fix) from error
        except BadInput as error:
            raise BadInput(f"line {number} of stdin: {error.message}", fix=error.fix) from error


def _check_no_shell(line: str) -> None:
    """Raises BadInput for what a shell would do with the line, outside of quotes: redirect, pipe, run a second command."""
    if found := capture.OPERATOR.search(_QUOTED.sub("", line)):
        fix = "Write the line as bash -c '…', which runs it in a shell, or quote this if the command is to get it."
        raise BadInput(f"no shell runs the line, so `{found[0]}` would be an argument of the command.", fix=fix)


def _no_script() -> str:
    raise BadInput("with --stdin a command cannot read its own script from there.", fix="Save the script in a file.")


def _queued(ids: Sequence[int]) -> str:
    return f"jobs {', '.join(map(str, ids))} are queued"


def _print_ids(options: argparse.Namespace, ids: list[int]) -> None:
    if options.json:
        console.print_json({"ids": ids})
        return
    for job_id in ids:
        print(job_id)
    if ids and sys.stdout.isatty():
        console.note(f"Submitted {len(ids)} jobs.")
