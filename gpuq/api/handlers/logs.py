"""`GET /api/v1/jobs/{id}/logs`: a job's output, also while it is written.

Without `follow`: the bytes from `offset` on; with `limit`, also `X-Gpuq-Next-Offset` for the next request. With `follow=1`:
chunks until the job has ended and all its output is sent; a job that starts again is followed into its next attempt.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiohttp import web

from gpuq.adapters.store.contract import AttemptRow, JobRow
from gpuq.api import logs
from gpuq.api.context import ApiContext, context_of
from gpuq.api.contract import params
from gpuq.api.contract.problem import break_off
from gpuq.api.handlers.jobs import find
from gpuq.core.state.job import ENDED
from gpuq.errors import GpuqError, NotFound

_CHUNK = 256 * 1024
_LOOK_EVERY_S = 0.15
_ASK_EVERY_S = 0.5
_MEDIA_TYPE = "application/octet-stream"


async def output(request: web.Request) -> web.StreamResponse:
    """The log of a job's last attempt, or of the requested one."""
    context = context_of(request)
    row, attempts = await find(context, request.match_info["id"])
    query = params.query(request, params.LogsQuery)
    number = params.given(query.attempt)
    if number is not None and number not in [attempt.number for attempt in attempts]:
        raise NotFound(
            f"Job {row.id} has no attempt {number}; it has had {len(attempts)} so far.",
            fix=f"`gpuq logs {row.id} --all-attempts` prints them all.",
        )
    offset, limit = query.offset, params.given(query.limit)
    last = number or row.attempt
    await _check_there(context, row, attempts, last)
    if offset < 0:
        end = await context.run(logs.length, context.settings.home.attempts, row.id, last)
        offset = max(0, end + offset)
    if query.follow or limit is None:
        only = number is not None
        return await _Sender(context, request, row.id, last, offset, only=only, follow=query.follow).run()
    return await _piece(context, row.id, last, offset, limit)


async def _check_there(context: ApiContext, row: JobRow, attempts: list[AttemptRow], number: int) -> None:
    """A job that started on this host has a log, if only an empty one. Raises NotFound if it is deleted or on another host."""
    started = [attempt for attempt in attempts if attempt.number == number and attempt.started_at is not None]
    if not started or await context.run(logs.exists, context.settings.home.attempts, row.id, number):
        return
    if started[0].host == context.settings.worker.host:
        raise NotFound(
            f"The log of job {row.id}, attempt {number}, was deleted: {started[0].log_path or 'its file'} is gone.",
            fix="gpuq itself deletes logs after `keep_attempts_days` days (docs/settings.md).",
        )
    raise NotFound(
        f"The log of job {row.id}, attempt {number}, is not here.",
        fix=f"It ran on host {started[0].host}; look there for {started[0].log_path or 'its attempt folder'}.",
    )


async def _piece(context: ApiContext, job: int, number: int, offset: int, limit: int) -> web.Response:
    parts: list[bytes] = []
    position, left = offset, limit
    while left > 0:
        chunk = await context.run(logs.read, context.settings.home.attempts, job, number, position, min(left, _CHUNK))
        if not chunk.data:
            break
        parts.append(chunk.marked)
        position = chunk.next_offset
        left -= len(chunk.data)
    headers = {"X-Gpuq-Offset": str(offset), "X-Gpuq-Next-Offset": str(position), "X-Gpuq-Attempt": str(number)}
    return web.Response(body=b"".join(parts), content_type=_MEDIA_TYPE, headers=headers)


@dataclass
class _Sender:
    """Sends one job's output to one client: what there is now, or with `follow` until the job has ended."""

    context: ApiContext
    request: web.Request
    job: int
    number: int
    offset: int
    only: bool
    follow: bool

    async def run(self) -> web.StreamResponse:
        headers = {"X-Gpuq-Offset": str(self.offset), "X-Gpuq-Attempt": str(self.number)}
        answer = web.StreamResponse(headers={"Content-Type": _MEDIA_TYPE, **headers})
        answer.enable_chunked_encoding()
        await answer.prepare(self.request)
        try:
            await self._send(answer)
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
        attempts = self.context.settings.home.attempts
        while self.number and self._wanted():
            chunk = await self.context.run(logs.read, attempts, self.job, self.number, self.offset, _CHUNK)
            if not chunk.data:
                return
            await answer.write(chunk.marked)
            self.offset = chunk.next_offset

    async def _ended(self) -> tuple[bool, int]:
        """(whether no more output will come, number of the newest attempt). False while the database is unreachable."""
        try:
            row, attempts = await find(self.context, str(self.job))
        except NotFound:
            return True, self.number
        except GpuqError:
            return False, self.number
        if self.only:
            mine = [attempt for attempt in attempts if attempt.number == self.number]
            return not mine or mine[0].ended_at is not None, row.attempt
        return row.state in ENDED, row.attempt

    def _wanted(self) -> bool:
        transport = self.request.transport
        return transport is not None and not transport.is_closing() and not self.context.stopping.is_set()
