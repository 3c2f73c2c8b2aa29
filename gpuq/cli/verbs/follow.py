"""Waiting for jobs to end, following their output, and the exit code that says how they ended.

A daemon that restarts meanwhile is waited for: the jobs go on without it. Codes: the job's own; 124 its time limit;
128+n a signal; 125 for everything that was not the job's doing (cancelled, its host lost).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from gpuq.cli import reasons
from gpuq.cli.client import Client, Record, talk
from gpuq.errors import NotFound, Unreachable
from gpuq.states import ENDED, MAY_REQUEUE

T = TypeVar("T")
_COME_BACK_S = 1.0
_AWAY_S = 60.0
_LOOK_EVERY_S = 0.15
_DROPPED = re.compile(rb"\n\[gpuq: ([0-9]{1,18}) bytes of output were dropped here\]\n")
TIMED_OUT = 124
NOT_THE_JOB = 125


def exit_code(job: Record) -> int:
    """The code that stands for how an ended job ended."""
    state, code = job["state"], job.get("exit_code")
    if state == "COMPLETED":
        return 0
    if state == "TIMEOUT":
        return TIMED_OUT
    if state in {"FAILED", "OUT_OF_MEMORY"} and isinstance(code, int) and code != 0:
        return 128 - code if code < 0 else min(code, 255)
    return NOT_THE_JOB


def say_end(job: Record) -> None:
    """Tell the person about an end that the exit code alone does not explain."""
    if job["state"] == "COMPLETED":
        return
    failed = job["state"] == "FAILED" and job.get("exit_code") is not None
    code = f" with exit code {job['exit_code']}" if failed else ""
    more = reasons.whole(job)
    reason = f" ({more})" if more else ""
    talk(f"gpuq: job {job['id']} ended {job['state']}{code}{reason}.")


def wait(client: Client, ids: Sequence[int], timeout_s: float | None = None) -> list[Record] | None:
    """The jobs, once all have ended, in the order of `ids`; None if that took longer than `timeout_s`."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    open_ids, ended, pause = list(ids), dict[int, Record](), 0.05
    patient = _Patient()
    while open_ids:
        for job in patient(partial(jobs_of, client, tuple(open_ids))):
            if settled(client, job):
                ended[job["id"]] = job
        open_ids = [job_id for job_id in open_ids if job_id not in ended]
        if not open_ids:
            break
        if deadline is not None and time.monotonic() >= deadline:
            return None
        time.sleep(pause if deadline is None else max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(1.0, pause * 1.5)
    return [ended[job_id] for job_id in ids]


def jobs_of(client: Client, ids: Sequence[int]) -> list[Record]:
    """These jobs, whatever their state. Raises NotFound for the first that does not exist."""
    found: dict[int, Record] = {}
    for start in range(0, len(ids), 500):
        chunk = ids[start : start + 500]
        listed = client.get("/api/v1/jobs", ids=",".join(map(str, chunk)), owner="all", limit=len(chunk))
        found.update((job["id"], job) for job in listed["jobs"])
    missing = [job_id for job_id in ids if job_id not in found]
    if missing:
        raise NotFound(f"There is no job {missing[0]}.")
    return [found[job_id] for job_id in ids]


def settled(client: Client, job: Record) -> bool:
    """Whether the job has ended for good."""
    if job["state"] not in ENDED:
        return False
    if job["state"] not in MAY_REQUEUE:
        return True
    # It may wait again at once: this is its end only if it is still so a moment later.
    time.sleep(_COME_BACK_S)
    again: Record = client.get(f"/api/v1/jobs/{job['id']}")
    return bool(again["state"] == job["state"] and again["attempt"] == job["attempt"])


def follow(client: Client, job_id: int) -> int:
    """Write the job's output to stdout as it comes, through every attempt, until it ended. Returns its exit code."""
    patient = _Patient()
    copy = _Copy(client, job_id)
    while True:
        job: Record = patient(partial(client.get, f"/api/v1/jobs/{job_id}"))
        ended = settled(client, job)
        copy.go_on(job["attempt"])
        if ended:
            say_end(job)
            return exit_code(job)
        time.sleep(_LOOK_EVERY_S)


class _Copy:
    """Copies a job's log to stdout, attempt by attempt, and knows where to go on when the daemon was away."""

    def __init__(self, client: Client, job_id: int) -> None:
        self._client = client
        self._job = job_id
        self._attempt = 0
        self._offset = 0
        self._told: str | None = None

    def go_on(self, attempt: int) -> None:
        """Copy what the attempt has written and will write, until it ends or the daemon goes away."""
        if attempt != self._attempt:
            if self._attempt:
                talk(f"gpuq: job {self._job} starts again (attempt {attempt}).")
            elif attempt > 1:
                talk(
                    f"gpuq: this is attempt {attempt}; `gpuq logs {self._job} --all-attempts` prints the earlier ones too."
                )
            self._attempt, self._offset = attempt, 0
        if not attempt:
            return
        out = sys.stdout.buffer
        path = f"/api/v1/jobs/{self._job}/logs"
        try:
            for chunk in self._client.stream(path, offset=self._offset, attempt=attempt, follow=1):
                out.write(chunk)
                out.flush()
                self._offset += len(chunk) + _dropped(chunk)
        except NotFound as error:
            # The job may well run where its log cannot be read from here: say so once and wait for its end.
            if self._told != error.message:
                talk(f"gpuq: {error.message}\n  {error.fix}")
            self._told = error.message
        except Unreachable:
            # The daemon restarts: the caller waits for it, and asks again from here.
            pass


def _dropped(chunk: bytes) -> int:
    """What marks of dropped output in `chunk` add to the log's own offsets."""
    return sum(int(mark[1]) - len(mark[0]) for mark in _DROPPED.finditer(chunk))


class _Patient:
    """Calls that survive a daemon's restart: once it has answered, its absence is waited out for a minute."""

    def __init__(self) -> None:
        self._answered = False

    def __call__(self, ask: Callable[[], T]) -> T:
        """What `ask` gives, asked again while the daemon is away. Raises Unreachable when that lasts too long."""
        away_since: float | None = None
        while True:
            try:
                answer = ask()
            except Unreachable:
                if not self._answered:
                    raise
                if away_since is None:
                    away_since = time.monotonic()
                    talk("gpuq: the daemon does not answer; waiting for it. Jobs go on meanwhile.")
                if time.monotonic() - away_since > _AWAY_S:
                    raise
                time.sleep(0.3)
            else:
                self._answered = True
                return answer
