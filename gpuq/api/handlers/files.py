"""`gpuq submit --sync` and `gpuq fetch`: take what submitters send, and pass on the files that their jobs made or changed.

A tree is sent in rounds: the list of its files, which is answered with the contents that are missing, then these, until none is.
What was sent stays, so a transfer that broke off goes on where it was.
"""

from __future__ import annotations

import asyncio
import json
import socket
from itertools import pairwise

import msgspec
from aiohttp import web

from gpuq.adapters.relay import PIECE
from gpuq.adapters.store.contract import Store
from gpuq.adapters.synced import SyncedTrees
from gpuq.api import connections
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import bodies, params
from gpuq.api.contract.problem import BadRequest, break_off
from gpuq.api.contract.schema_jobs import FilesTaken, TreeTaken
from gpuq.api.handlers.jobs import find
from gpuq.api.identity import Caller, Role, caller_of
from gpuq.core.state.job import ACTIVE, WAITING
from gpuq.errors import Conflict, NotFound, NotPermitted, Unreachable
from gpuq.files import BadStream, ListedFile
from gpuq.format import gib
from gpuq.messages.job_record import JobRecord
from gpuq.messages.submission import Submission

_tree = msgspec.json.Decoder(bodies.TreeBody)
_MOST_NAMED = 3


async def keep_tree(request: web.Request) -> web.Response:
    """Take the list of a tree's files; which contents are missing."""
    context, caller = context_of(request), caller_of(request)
    body = await bodies.body(request, _tree, bodies.MOST_TREE)
    check_taken(context)
    files = [ListedFile(one.name, one.size, one.sha256, one.executable) for one in body.files]
    await context.for_user(_check, files, context.settings.api.sync_tree_bytes)
    trees = trees_of(context, caller)
    now = context.now()
    if await context.for_user(trees.has_old, now):
        await context.for_user(trees.remove_unused, await context.read(_in_use, context.store, caller.user), now)
    try:
        id_, missing = await context.for_user(trees.keep, files)
    except NotPermitted:
        await context.for_user(trees.remove_unused, await context.read(_in_use, context.store, caller.user), now, 0.0)
        id_, missing = await context.for_user(trees.keep, files)
    return reply(TreeTaken(tree=id_, missing=missing))


async def take_files(request: web.Request) -> web.Response:
    """Take contents, as a stream of files (`gpuq.files`)."""
    context, caller = context_of(request), caller_of(request)
    check_taken(context)
    receiver = await context.for_user(trees_of(context, caller).receiver)
    try:
        async for piece in connections.pieces(request):
            await context.for_user(receiver.feed, piece)
        if request.body_exists:  # none at all is no file
            await context.for_user(receiver.close)
    except BadStream as error:
        raise BadRequest(f"The body is no stream of files: {error}.", fix="Send it as docs/api.md says.") from error
    finally:
        await context.for_user(receiver.abort)
    return reply(FilesTaken(count=receiver.count))


async def results(request: web.Request) -> web.StreamResponse:
    """The files that a job with `sync` made or changed, as a stream of files."""
    context = context_of(request)
    query = params.query(request, params.FilesQuery)
    job, attempts = await find(context, request.match_info["id"])
    caller = caller_of(request)
    if caller.user != job.record.owner and caller.role < Role.ADMIN:
        raise NotPermitted(
            f"The files of job {job.id} are for {job.record.owner} and for admins.", fix=f"Ask {job.record.owner}."
        )
    if job.record.submission.sync is None:
        raise Conflict(
            f"Job {job.id} was not submitted with --sync; it ran in {job.record.submission.cwd} on its host.",
            fix="Its files are there; `gpuq show` names the host.",
        )
    number = params.given(query.attempt) or job.attempt
    attempt = next((one for one in attempts if one.number == number), None)
    if attempt is None or attempt.started_at is None:
        raise NotFound(
            f"Job {job.id} has no attempt {number} that has started." if number else f"Job {job.id} has not started.",
            fix=f"`gpuq show {job.id}` lists its attempts.",
        )
    if context.channels is None:
        raise Unreachable("This endpoint cannot reach the hosts of jobs.")
    try:
        connection = await context.channels.open(attempt.host, job.id, attempt.number, "files")
    except Conflict:
        raise NotFound(
            f"Host {attempt.host} does not have the files of job {job.id}, attempt {number}, or not any more.",
            fix="gpuq removes them `keep_attempts_days` days after its end (docs/settings.md).",
        ) from None
    with connection:
        return await _send(request, connection, query.match)


async def _send(request: web.Request, connection: socket.socket, match: list[str]) -> web.StreamResponse:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, json.dumps({"match": match}).encode() + b"\n")
    answer = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    await answer.prepare(request)
    try:
        # The stream has an end of its own, by which the client knows that nothing is missing.
        while piece := await loop.sock_recv(connection, PIECE):
            await answer.write(piece)
        await answer.write_eof()
    except ConnectionError:
        pass
    except Exception:  # noqa: BLE001 - the answer has begun, so no problem document can be sent
        break_off(request)
    return answer


def trees_of(context: ApiContext, caller: Caller) -> SyncedTrees:
    """What the caller has sent."""
    return SyncedTrees(context.settings.home, caller.user, context.settings.api.sync_user_bytes)


def check_taken(context: ApiContext) -> None:
    """Raises NotPermitted where no files are taken."""
    if not context.settings.api.sync_tree_bytes:
        raise NotPermitted(
            "This gpuq takes no files: `sync_tree_bytes` under [api] is 0.",
            fix="Submit where its hosts see your files.",
        )


async def note_use(context: ApiContext, caller: Caller, wanted: list[Submission]) -> None:
    """Note the trees that submissions name. Raises Conflict for one that the caller has not sent, and as `check_taken`."""
    for tree in {one.sync.tree for one in wanted if one.sync is not None}:
        check_taken(context)
        await context.run(trees_of(context, caller).use, tree)


def _check(files: list[ListedFile], most_bytes: int) -> None:
    """Raises NotPermitted for a tree that is too large, and Conflict for one that cannot be."""
    size = sum(file.size for file in files)
    if size > most_bytes:
        largest = sorted(files, key=lambda file: -file.size)[:_MOST_NAMED]
        raise NotPermitted(
            f"The files have {_bytes(size)}; this gpuq takes {_bytes(most_bytes)}. The largest are "
            + ", ".join(f"{file.name} ({_bytes(file.size)})" for file in largest)
            + ".",
            fix="List data and results in .gpuqignore, and read them from a path of the host; or have `sync_tree_bytes` raised.",
        )
    # With the parts of a name apart by what no name has, a folder stands right before what is in it.
    names = sorted(file.name.replace("/", "\0") for file in files)
    if any(later == name or later.startswith(f"{name}\0") for name, later in pairwise(names)):
        raise Conflict("The list has a name twice, or as a file and as a folder.", fix="Send each file once.")


def _bytes(size: int) -> str:
    return gib(size) if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def _in_use(store: Store, owner: str) -> set[str]:
    """The trees of the user's jobs that wait or run. Blocks."""
    states = sorted(WAITING | ACTIVE)
    records: list[JobRecord] = [row.record for row in store.jobs(states=states, owner=owner, tasks=False)]
    records += [row.record for row in store.arrays(states=states, owner=owner)]
    return {record.submission.sync.tree for record in records if record.submission.sync is not None}
