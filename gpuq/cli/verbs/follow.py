"""Wait for jobs to end, follow their output, and derive the exit code from how they ended.

A restart of the daemon is waited out, because jobs continue without it. Exit codes: the job's own; 124 for its time limit;
128+n for a signal; 125 for an end that the job did not cause (cancelled, host lost).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TypeVar

from gpuq.cli import console, job_labels
from gpuq.cli.client import HttpClient, Record
from gpuq.errors import NotFound, Unreachable
from gpuq.line_search import LineSearch
from gpuq.states import ENDED, MAY_REQUEUE

T = TypeVar("T")
_PAGE = 500
_COME_BACK_S = 1.0
_AWAY_S = 60.0
_LOOK_EVERY_S = 0.15
_DROPPED = re.compile(rb"\n\[gpuq: ([0-9]{1,18}) bytes of output were dropped here\]\n")
TIMED_OUT = 124
NOT_THE_JOB = 125


def exit_code(job: Record) -> int:
    """The exit code for an ended job."""
    state, code = job["state"], job.get("exit_code")
    if state == "COMPLETED":
        return 0
    if state == "TIMEOUT":
        return TIMED_OUT
    if state in {"FAILED", "OUT_OF_MEMORY"} and isinstance(code, int) and code != 0:
        return 128 - code if code < 0 else min(code, 255)
    return NOT_THE_JOB


def note_end(job: Record) -> None:
    """Write a note about an end that the exit code does not explain."""
    if job["state"] == "COMPLETED":
        return
    failed = job["state"] == "FAILED" and job.get("exit_code") is not None
    code = f" with exit code {job['exit_code']}" if failed else ""
    more = job_labels.full_reason(job)
    console.note(f"gpuq: job {job_labels.id_of(job)} ended {job['state']}{code}{f' ({more})' if more else ''}.")


def wait(
    client: HttpClient,
    ids: Sequence[int],
    timeout_s: float | None = None,
    retry: Retry | None = None,
    *,
    note: Callable[[Record], object] = lambda _: None,
) -> list[Record] | None:
    """The jobs in the order of `ids`, once all have ended; None after `timeout_s`. Calls `note` with each as it ends."""
    return Waiting(ids, retry, note)(client, timeout_s)


class Waiting:
    """Jobs that are waited for, at once or in several calls."""

    def __init__(
        self, ids: Sequence[int], retry: Retry | None = None, note: Callable[[Record], object] = lambda _: None
    ) -> None:
        self._ids, self._retry, self._note = list(ids), retry or Retry(), note
        self._ended: dict[int, Record] = {}
        self._all_exist = False

    def __call__(self, client: HttpClient, timeout_s: float | None) -> list[Record] | None:
        """The jobs in the order of their ids, once all have ended; None after `timeout_s`."""
        deadline, pause = None if timeout_s is None else time.monotonic() + timeout_s, 0.05
        while open_ids := tuple(job_id for job_id in self._ids if job_id not in self._ended):
            look = _ended_of if self._all_exist else jobs_of
            for job in _settled(client, self._retry(partial(look, client, open_ids)), self._retry):
                self._ended[job["id"]] = job
                self._note(job)
            self._all_exist = True
            if all(job_id in self._ended for job_id in open_ids):
                break
            if deadline is not None and time.monotonic() >= deadline:
                return None
            time.sleep(pause if deadline is None else max(0.0, min(pause, deadline - time.monotonic())))
            pause = min(1.0, pause * 1.5)
        return [self._ended[job_id] for job_id in self._ids]


def _settled(client: HttpClient, jobs: Sequence[Record], retry: Retry) -> list[Record]:
    """Those of these jobs that have ended and are not queued again. May wait a second to find out, once for all of them."""
    ended = [job for job in jobs if job["state"] in ENDED]
    unsure = [job["id"] for job in ended if job["state"] in MAY_REQUEUE]
    if not unsure:
        return ended
    time.sleep(_COME_BACK_S)
    now = {job["id"]: job for job in retry(partial(jobs_of, client, unsure))}
    return [job for job in ended if _is_as(now.get(job["id"], job), job)]


def _is_as(now: Record, before: Record) -> bool:
    return bool(now["state"] == before["state"] and now["attempt"] == before["attempt"])


def _ended_of(client: HttpClient, ids: Sequence[int]) -> list[Record]:
    """Those of these jobs that have ended."""
    return list(listed(client, ids, state="ended"))


def listed(client: HttpClient, ids: Sequence[int], state: str | None = None) -> Iterator[Record]:
    """Those of these jobs that there are, in a group of states if one is given."""
    for start in range(0, len(ids), _PAGE):
        chunk = ids[start : start + _PAGE]
        after = None
        while True:  # a page of large jobs ends before its limit
            where = {"owner": "all", "state": state, "limit": len(chunk), "after": after}
            page: Record = client.get("/api/v1/jobs", ids=",".join(map(str, chunk)), **where)
            yield from page["jobs"]
            after = page["next"]
            if after is None:
                break


def jobs_of(client: HttpClient, ids: Sequence[int]) -> list[Record]:
    """These jobs in any state, in the given order. Raises NotFound for the first that does not exist."""
    found = {job["id"]: job for job in listed(client, ids)}
    missing = [job_id for job_id in ids if job_id not in found]
    if missing:
        raise NotFound(f"There is no job {missing[0]}.")
    return [found[job_id] for job_id in ids]


def settled(client: HttpClient, job: Record) -> bool:
    """Whether the job has ended and is not queued again. May wait a second to find out."""
    if job["state"] not in ENDED:
        return False
    if job["state"] not in MAY_REQUEUE:
        return True
    # It may wait again at once: this is its end only if it is still so a moment later.
    time.sleep(_COME_BACK_S)
    return _is_as(client.get(f"/api/v1/jobs/{job['id']}"), job)


def follow(client: HttpClient, job_id: int, search: str | None = None) -> int:
    """Copy the job's output to stdout as it comes, through all attempts, until it has ended. Returns its exit code.

    With `search` only the lines that contain this text. They are found here, because only who sees all of the output knows the
    offset at which to go on after a restart of the daemon.
    """
    out, chunks = sys.stdout.buffer, output(client, job_id)
    lines = None if search is None else LineSearch(search)
    while True:
        try:
            chunk = next(chunks)
        except StopIteration as end:
            out.write(b"" if lines is None else lines.last())
            out.flush()
            note_end(end.value)
            return exit_code(end.value)
        out.write(chunk if lines is None else lines.found(chunk))
        out.flush()


def output(client: HttpClient, job_id: int) -> Generator[bytes, None, Record]:
    """The job's output as it comes, through all attempts, until it has ended. The value at the end is the job."""
    retry = Retry()
    log = _Log(client, job_id)
    while True:
        job: Record = retry(partial(client.get, f"/api/v1/jobs/{job_id}"))
        ended = settled(client, job)
        yield from log.advance(job)
        if ended:
            return job
        time.sleep(_LOOK_EVERY_S)


class _Log:
    """Reads a job's log, attempt by attempt, and remembers the offset for when the daemon returns."""

    def __init__(self, client: HttpClient, job_id: int) -> None:
        self._client = client
        self._job = job_id
        self._attempt = 0
        self._offset = 0
        self._noted: str | None = None

    def advance(self, job: Record) -> Iterator[bytes]:
        """The output of the job's attempt until it ends or the daemon is unreachable."""
        attempt, named = job["attempt"], job_labels.id_of(job)
        if attempt != self._attempt:
            if self._attempt:
                console.note(f"gpuq: job {named} starts again (attempt {attempt}).")
            elif attempt > 1:
                console.note(
                    f"gpuq: this is attempt {attempt}; `gpuq logs {named} --all-attempts` prints the earlier ones too."
                )
            self._attempt, self._offset = attempt, 0
        if not attempt:
            return
        path = f"/api/v1/jobs/{self._job}/logs"
        try:
            for chunk in self._client.stream(path, offset=self._offset, attempt=attempt, follow=1):
                # Where output was dropped, the log's offsets go on as if the mark were the dropped bytes.
                dropped = sum(int(mark[1]) - len(mark[0]) for mark in _DROPPED.finditer(chunk))
                self._offset += len(chunk) + dropped
                yield chunk
        except NotFound as error:
            # The job may run on a host whose logs cannot be read from here: write one note and wait for its end.
            if self._noted != error.message:
                console.note(f"gpuq: {error.message}\n  {error.fix}")
            self._noted = error.message
        except Unreachable:
            # The daemon restarts. The caller waits for it and calls this again, which continues at the offset.
            pass


class Retry:
    """Repeats calls during a restart of the daemon: once it has answered, calls wait up to a minute for it."""

    def __init__(self) -> None:
        self._answered = False

    def __call__(self, call: Callable[[], T]) -> T:
        """The result of `call`, repeated while the daemon is unreachable. Raises Unreachable after a minute."""
        away_since: float | None = None
        while True:
            try:
                answer = call()
            except Unreachable:
                if not self._answered:
                    raise
                if away_since is None:
                    away_since = time.monotonic()
                    console.note("gpuq: the daemon does not answer; waiting for it. Jobs go on meanwhile.")
                if time.monotonic() - away_since > _AWAY_S:
                    raise
                time.sleep(0.3)
            else:
                self._answered = True
                return answer
