"""What a host that is gone has not reported, sent in its name from its home, which the main host sees too.

A pilot may be killed between the end of a job and the report of it. Nothing is written into its home: if it runs after all, it
sends the same events under the same numbers, and the dispatcher takes each number once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from gpuq.adapters.main_host import RemoteInbox, joined
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.events import Exited, Started
from gpuq.home import Home, key_of_this_host
from gpuq.messages import codec, wire
from gpuq_workers.attempts import AttemptFolder, UnreadableFile, folders_in
from gpuq_workers.ended import EndedAttempts
from gpuq_workers.exit_classification import classify_exit
from gpuq_workers.spool import Spool

log = logging.getLogger(__name__)


def send(home: Home) -> int:
    """Send the events of the host that joined from this home; how many. May be repeated. Raises GpuqError and OSError."""
    where = joined(home)
    if where is None:
        return 0
    messages = unreported(home, where.host)
    if messages:
        key = key_of_this_host(home, where.host)
        asyncio.run(_send(RemoteInbox(home, where), [wire.seal(message, key) for message in messages]))
        log.info("host %s is gone: %d events were read from its home", where.host, len(messages))
    return len(messages)


async def _send(inbox: RemoteInbox, messages: list[wire.Spooled]) -> None:
    try:
        await inbox.add(*messages)
    finally:
        await inbox.close()


def unreported(home: Home, host: str) -> list[wire.Spooled]:
    """The events of this host that the dispatcher has not acknowledged, in order: those in its spool, then those of attempts
    whose end is in their folder only, because the worker service was killed with them."""
    spool = Spool(home.spool, host)
    if not spool.is_numbered:
        return []  # the dispatcher has never answered this host
    found = spool.unacknowledged()
    spooled = {(message.name, AttemptId(*message.body["attempt"])) for message in found}
    folders = folders_in(home.attempts, without=EndedAttempts(home.attempts).names)
    for folder in sorted(folders, key=lambda one: one.attempt):
        for event in _events(folder):
            name, body = codec.to_plain(event)
            if (name, folder.attempt) not in spooled:
                number = max(spool.last, found[-1].seq if found else 0) + 1
                found.append(wire.Spooled(host, number, name, body))
    return found


def _events(folder: AttemptFolder) -> Iterator[Started | Exited]:
    """The start and the end of an attempt that is over, as far as they were not spooled. What it used is not known any more."""
    marker = folder.marker()
    if marker.exited is not None:
        return
    try:
        end, start, order = folder.ended(), folder.started(), folder.order()
    except UnreadableFile as error:
        log.warning("attempt %s: %s; how it ended is not known", folder.attempt, error)
        return
    # Slurm may have killed the job a moment before its shim. Then it did not end by itself, and counts as lost.
    if end is None or end.ending is Ending.KILLED:
        return
    if start is not None and marker.started is None:
        yield Started(folder.attempt, start.at, start.pid, str(folder.log_path))
    settled = classify_exit(end, folder.attempt, order, folder.path, None)
    yield Exited(folder.attempt, end.ended_at(start), settled.ending, end.exit_code, settled.reason, Measurement())
