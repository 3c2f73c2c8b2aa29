"""`GET /api/v1/jobs/{id}/logs`: a job's output, also while it is written.

Without `follow`: the bytes from `offset` on; with `limit`, also `X-Gpuq-Next-Offset` for the next request. With `follow=1`:
chunks until the job has ended and all its output is sent; a job that starts again is followed into its next attempt.

With `search` only the lines that contain a text. They are found here, wherever the log is: hosts of an earlier release cannot
search.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass

from aiohttp import web

from gpuq.adapters import job_log
from gpuq.adapters.job_log import Chunk
from gpuq.adapters.store.row_types import AttemptRow
from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of
from gpuq.api.contract import limits, params
from gpuq.api.contract.problem import break_off
from gpuq.api.handlers.jobs import find
from gpuq.core.state.job import ENDED
from gpuq.errors import GpuqError, NotFound, Unreachable
from gpuq.line_search import LineSearch

_CHUNK = 256 * 1024
_LOOK_EVERY_S = 0.15
_ASK_EVERY_S = 0.5
MOST_SEARCHES = 8
"""Of one user at the same time: each reads a whole log."""
_MEDIA_TYPE = "application/octet-stream"


async def output(request: web.Request) -> web.StreamResponse:
    """The log of a job's last attempt, or of the requested one."""
    context = context_of(request)
    row, attempts = await find(context, request.match_info["id"])
    visibility.check_sees(request, row.id, row.record.owner)
    query = params.query(request, params.LogsQuery)
    number = params.given(query.attempt)
    if number is not None and number not in [attempt.number for attempt in attempts]:
        raise NotFound(
            f"Job {row.id} has no attempt {number}; it has had {len(attempts)} so far.",
            fix=f"`gpuq logs {row.id} --all-attempts` prints them all.",
        )
    limit, last = params.given(query.limit), number or row.attempt
    search = params.given(query.search)
    log = JobLog(context, row.id, {attempt.number: attempt for attempt in attempts})
    first = await log.read(last, query.offset, _CHUNK)
    if first is None:
        log.check_missing(last)
    # An offset below 0 counts from the end, which only the first read knows.
    offset = max(0, query.offset) if first is None else first.next_offset - len(first.data) - first.dropped
    if query.follow or limit is None or search is not None:
        lines = None if search is None else LineSearch(search)
        only = number is not None
        sender = _Sender(context, request, log, last, offset, lines, only=only, follow=query.follow)
        with nullcontext() if search is None else limits.one_of(request, "searches of logs", MOST_SEARCHES):
            return await sender.run()
    return await _piece(log, last, offset, limit)


@dataclass
class JobLog:
    """The logs of one job's attempts, on this host or on others. `attempts` are those known so far, by number."""

    context: ApiContext
    job: int
    attempts: dict[int, AttemptRow]

    async def read(self, number: int, offset: int, limit: int) -> Chunk | None:
        """As `job_log.read`, from the attempt's host if the log is not here. Raises Unreachable if that does not answer."""
        context = self.context
        home, attempt = context.settings.home, self.attempts.get(number)
        found = await context.run(job_log.read, home.attempts, self.job, number, offset, limit)
        if found is None and attempt is not None and home.pilots.exists():
            here = home.attempts_of_pilot(attempt.host)
            found = await context.run(job_log.read, here, self.job, number, offset, limit)
        elsewhere = (
            attempt is not None and attempt.started_at is not None and attempt.host != context.settings.worker.host
        )
        if found is not None or not elsewhere or attempt is None or context.host_logs is None:
            return found
        try:
            return await context.host_logs.read(attempt.host, self.job, number, offset, limit)
        except Unreachable as error:
            place = attempt.log_path or "its attempt folder"
            raise Unreachable(
                f"The log of job {self.job}, attempt {number}, cannot be read now: {error.message}",
                fix=f"It is on host {attempt.host}: {place}.",
            ) from error

    def check_missing(self, number: int) -> None:
        """Raises NotFound for an attempt that has started: its log, if only an empty one, must have been deleted."""
        attempt = self.attempts.get(number)
        if attempt is not None and attempt.started_at is not None:
            raise NotFound(
                f"The log of job {self.job}, attempt {number}, was deleted: {attempt.log_path or 'its file'} on host "
                f"{attempt.host} is gone.",
                fix="gpuq itself deletes logs after `keep_attempts_days` days (docs/settings.md).",
            )


async def _piece(log: JobLog, number: int, offset: int, limit: int) -> web.Response:
    parts: list[bytes] = []
    position, left = offset, limit
    while left > 0:
        chunk = await log.read(number, position, min(left, _CHUNK))
        if chunk is None or not chunk.data:
            break
        parts.append(chunk.marked)
        position = chunk.next_offset
        left -= len(chunk.data)
    headers = {"X-Gpuq-Offset": str(offset), "X-Gpuq-Next-Offset": str(position), "X-Gpuq-Attempt": str(number)}
    return web.Response(body=b"".join(parts), content_type=_MEDIA_TYPE, headers=headers)


@dataclass
class _Sender:
    """Sends one job's output to one client, or the lines that `search` finds: what there is now, or with `follow` until the job
    has ended."""

    context: ApiContext
    request: web.Request
    log: JobLog
    number: int
    offset: int
    search: LineSearch | None
    only: bool
    follow: bool

    async def run(self) -> web.StreamResponse:
        headers = {"X-Gpuq-Offset": str(self.offset), "X-Gpuq-Attempt": str(self.number)}
        # nginx would hold back what comes until its buffer is full.
        headers |= {"Content-Type": _MEDIA_TYPE, "X-Accel-Buffering": "no"}
        answer = web.StreamResponse(headers=headers)
        await answer.prepare(self.request)
        try:
            await self._send(answer)
            await self._end_line(answer)
            await answer.write_eof()
        except ConnectionError:
            pass
        except Exception:  # noqa: BLE001 - the answer has begun, so no problem document can be sent
            break_off(self.request)
        return answer

    async def _send(self, answer: web.StreamResponse) -> None:
        if not self.follow:
            await self._drain(answer)
            return
        loop = asyncio.get_running_loop()
        while self._wanted():
            # Queried before the last read, so that everything written before the end is sent.
            over, newest = await self._ended()
            await self._drain(answer)
            if newest > self.number and not self.only:
                await self._end_line(answer)
                self.number, self.offset = newest, 0
                continue
            if over:
                return
            # The files are read more often than the database.
            until = loop.time() + _ASK_EVERY_S
            while self._wanted() and loop.time() < until:
                await asyncio.sleep(_LOOK_EVERY_S)
                await self._drain(answer)

    async def _drain(self, answer: web.StreamResponse) -> None:
        while self.number and self._wanted():
            try:
                chunk = await self.log.read(self.number, self.offset, _CHUNK)
            except Unreachable:
                if not self.follow:
                    raise
                return  # it may be back at the next look
            if chunk is None or not chunk.data:
                return
            # Nothing is written where nothing is found: an empty piece would end a chunked answer.
            if piece := chunk.marked if self.search is None else self.search.found(chunk.marked):
                await answer.write(piece)
            self.offset = chunk.next_offset

    async def _end_line(self, answer: web.StreamResponse) -> None:
        """No more will come of the attempt, so its last line may lack a newline."""
        if self.search is not None and (piece := self.search.last()):
            await answer.write(piece)

    async def _ended(self) -> tuple[bool, int]:
        """(whether no more output will come, number of the newest attempt). False while the database is unreachable."""
        try:
            row, attempts = await find(self.context, str(self.log.job))
        except NotFound:
            return True, self.number
        except GpuqError:
            return False, self.number
        self.log.attempts.update({attempt.number: attempt for attempt in attempts})
        if self.only:
            mine = [attempt for attempt in attempts if attempt.number == self.number]
            return not mine or mine[0].ended_at is not None, row.attempt
        return row.state in ENDED, row.attempt

    def _wanted(self) -> bool:
        transport = self.request.transport
        return transport is not None and not transport.is_closing() and not self.context.stopping.is_set()
