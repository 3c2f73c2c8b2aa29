"""`gpuq logs ID`: a job's output, byte for byte. `-f` follows it and exits with the job's exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from gpuq.cli import console, job_ids, job_labels
from gpuq.cli.arguments import Parser, add_ids
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.quantities import whole
from gpuq.cli.verbs.submit import follow_or_leave
from gpuq.errors import BadInput, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from email.message import Message

_FIRST_TAIL_BYTES = 256 * 1024
_LAST_TAIL_BYTES = 16 * 2**20


def run(words: list[str]) -> int:
    """Print or follow a log."""
    parser = Parser(
        "logs",
        "A job's output, stdout and stderr together; of several each below its id.\n"
        "-f follows that of one; the exit code is then the job's.",
    )
    add_ids(parser)
    add = parser.add_argument
    add("-f", "--follow", action="store_true", help="go on until the job ends")
    add("-n", "--lines", metavar="N", help="only the last N lines")
    add("--grep", metavar="TEXT", help="only the lines that contain TEXT")
    add("--attempt", metavar="N", help="of this attempt; default: the last, `gpuq show` lists them")
    add("--all-attempts", action="store_true", help="of every attempt, the first one first")
    options = parser.parse_args(words)
    lines, attempt = whole("--lines", options.lines, 0, 10**9), whole("--attempt", options.attempt, 1, 10**9)
    if options.grep == "":
        raise BadInput("--grep needs a text.", fix="gpuq logs 17 --grep error")
    if options.follow and (options.json or lines is not None or attempt is not None or options.all_attempts):
        sentence = "--follow goes with none of --json, --lines, --attempt and --all-attempts."
        raise BadInput(sentence, fix="Leave out one of them.")
    if options.all_attempts and attempt is not None:
        raise BadInput("--attempt and --all-attempts exclude each other.", fix="Leave out one of them.")
    client = HttpClient.of(options)
    jobs = job_ids.named(client, options.ids)
    several = jobs.array is not None or len(jobs.ids) > 1
    if several and not options.follow and not options.all_attempts and attempt is None:
        return _each(client, jobs, lines, options.grep, as_json=options.json)
    if options.follow:
        return follow_or_leave(client, jobs.only, options.grep)
    if options.all_attempts:
        return _all_attempts(client, jobs.only, lines, options.grep, as_json=options.json)
    label = jobs.label(jobs.only)
    return _one_attempt(Log(client, jobs.only, attempt, options.grep), lines, label, as_json=options.json)


def _one_attempt(log: Log, lines: int | None, label: str, *, as_json: bool) -> int:
    if as_json:
        job: Record = log.client.get(f"/api/v1/jobs/{log.job_id}")
        text = _text(log.pieces(lines))
        state = {"id": log.job_id, "state": job["state"], "exit_code": job.get("exit_code")}
        console.print_json({**state, "attempt": log.attempt, "log": text})
        return 0
    is_last = log.attempt is None
    _copy(log.pieces(lines))
    if log.attempt is None:
        _note_no_start(label)
    elif is_last and log.attempt > 1:
        rest = f"`gpuq logs {label} --all-attempts` prints the earlier ones too"
        console.note(f"gpuq: this was attempt {log.attempt} of job {label}; {rest}.")
    return 0


def _each(client: HttpClient, jobs: job_ids.Jobs, lines: int | None, grep: str | None, *, as_json: bool) -> int:
    """The logs of the jobs that wrote something, each below a line with its id."""
    found, wrote = [], False
    for job_id in jobs.ids:
        text = b"".join(Log(client, job_id, None, grep).pieces(lines))
        if as_json:
            found.append({"id": job_id, "log": text.decode("utf-8", "replace")})
        elif text:
            wrote = True
            end = b"" if text.endswith(b"\n") else b"\n"
            _copy([f"==> job {jobs.label(job_id)} <==\n".encode(), text, end])
    if as_json:
        console.print_json(found)
    elif not wrote and grep is None:
        console.note("gpuq: none of these jobs has written anything.")
    return 0


def _all_attempts(client: HttpClient, job_id: int, lines: int | None, grep: str | None, *, as_json: bool) -> int:
    """The logs of all attempts, each below a line with its number and ending. Returns 3 if one of them was deleted."""
    job: Record = client.get(f"/api/v1/jobs/{job_id}")
    code, found = 0, []
    for attempt in job["attempts"]:
        number, ending = attempt["number"], attempt.get("ending") or "not ended"
        if not as_json:
            _copy([f"==> job {job_labels.id_of(job)}, attempt {number} ({ending}) <==\n".encode()])
        text: str | None = None
        try:
            pieces = Log(client, job_id, number, grep).pieces(lines)
            if as_json:
                text = _text(pieces)
            else:
                _copy(pieces)
        except NotFound as error:
            code = error.exit_code
            console.note(f"gpuq: {error.message}\n  {error.fix}")
        found.append({"attempt": number, "ending": attempt.get("ending"), "log": text})
    if as_json:
        console.print_json({"id": job_id, "state": job["state"], "attempts": found})
    elif not job["attempts"]:
        _note_no_start(job_labels.id_of(job))
    return code


def _note_no_start(label: str) -> None:
    console.note(f"gpuq: job {label} has not started, so there is no output.")


def _copy(pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _text(pieces: Iterable[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")


class Log:
    """The output of one attempt, by default the last, or its lines that contain a text. `attempt` is its number, None until
    something was read."""

    def __init__(self, client: HttpClient, job_id: int, attempt: int | None, search: str | None = None) -> None:
        self.client, self.job_id = client, job_id
        self._search = search
        self.attempt = attempt

    def pieces(self, lines: int | None) -> Iterator[bytes]:
        """The log as it is now, in pieces; with `lines` only that many lines at its end, searched in growing pieces."""
        offset, size = 0, _FIRST_TAIL_BYTES
        if self._search is not None:
            found, _ = self._read(0)
            yield found if lines is None else last_lines(found, lines)
            return
        while lines is None:
            piece, headers = self._read(offset)
            following = int(headers.get("X-Gpuq-Next-Offset", offset))
            if piece:
                yield piece
            if following <= offset:
                return
            offset = following
        while True:
            piece, headers = self._read(-size)
            found = last_lines(piece, lines)
            if len(found) < len(piece) or headers.get("X-Gpuq-Offset", "0") == "0" or size >= _LAST_TAIL_BYTES:
                yield found
                return
            size *= 8

    def _read(self, offset: int) -> tuple[bytes, Message]:
        """(bytes from `offset` on, headers). Reads the attempt that the first answer names, even if another one starts."""
        path = f"/api/v1/jobs/{self.job_id}/logs"
        piece, headers = self.client.piece(path, offset=offset, attempt=self.attempt, search=self._search)
        number = headers.get("X-Gpuq-Attempt", "0")
        self.attempt = self.attempt or int(number) or None
        return piece, headers


def last_lines(raw: bytes, count: int) -> bytes:
    """The last `count` lines; an unfinished last line counts."""
    end = len(raw) - 1 if raw.endswith(b"\n") else len(raw)
    for _ in range(count):
        end = raw.rfind(b"\n", 0, end)
        if end < 0:
            return raw
    return raw[end + 1 :] if count else b""
