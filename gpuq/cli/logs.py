"""`gpuq logs ID`: a job's output, bytes as the job wrote them. `-f` follows it and ends with the job's exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gpuq.cli.arguments import Parser, add_id, one_id
from gpuq.cli.client import Client, Record, print_json
from gpuq.cli.submit import follow_or_leave
from gpuq.errors import BadInput

_FIRST_TAIL_BYTES = 256 * 1024
_LAST_TAIL_BYTES = 16 * 2**20


def run(words: list[str]) -> int:
    """Print or follow a log."""
    parser = Parser(
        "logs", "A job's output, stdout and stderr together.\n-f follows it; the exit code is then the job's."
    )
    add_id(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    parser.add_argument("-n", "--lines", type=int, metavar="N", help="only the last N lines")
    options = parser.parse_args(words)
    job_id = one_id(options.id)
    client = Client.of(options)
    if options.lines is not None and options.lines < 0:
        raise BadInput("--lines must not be negative.")
    if options.follow:
        if options.json or options.lines is not None:
            raise BadInput("--follow goes with neither --json nor --lines.")
        return follow_or_leave(client, job_id)
    pieces = _whole(client, job_id) if options.lines is None else _tail(client, job_id, options.lines)
    if options.json:
        job: Record = client.get(f"/api/v1/jobs/{job_id}")
        log = b"".join(pieces).decode("utf-8", "replace")
        print_json({"id": job_id, "state": job["state"], "exit_code": job.get("exit_code"), "log": log})
        return 0
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    return 0


def _whole(client: Client, job_id: int) -> Iterator[bytes]:
    """The log as far as it is written now, piece by piece."""
    offset = 0
    while True:
        piece, headers = client.piece(f"/api/v1/jobs/{job_id}/logs", offset=offset)
        following = int(headers.get("X-Gpuq-Next-Offset", offset))
        if piece:
            yield piece
        if following <= offset:
            return
        offset = following


def _tail(client: Client, job_id: int, count: int) -> Iterator[bytes]:
    """The last `count` lines, looked for in ever larger pieces of the log's end."""
    size = _FIRST_TAIL_BYTES
    while True:
        piece, headers = client.piece(f"/api/v1/jobs/{job_id}/logs", offset=-size)
        found = last_lines(piece, count)
        if len(found) < len(piece) or headers.get("X-Gpuq-Offset", "0") == "0" or size >= _LAST_TAIL_BYTES:
            yield found
            return
        size *= 8


def last_lines(raw: bytes, count: int) -> bytes:
    """The last `count` lines; an unfinished last line counts."""
    end = len(raw) - 1 if raw.endswith(b"\n") else len(raw)
    for _ in range(count):
        end = raw.rfind(b"\n", 0, end)
        if end < 0:
            return raw
    return raw[end + 1 :] if count else b""
