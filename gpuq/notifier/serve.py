"""`gpuq notify run`: look at the user's jobs every few seconds, and send what there is to say."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gpuq import notify_file
from gpuq.adapters.lock import take_lock
from gpuq.cli.client import HttpClient
from gpuq.errors import Conflict, GpuqError
from gpuq.home import write_private
from gpuq.logs import report, start_log
from gpuq.notifier.outbox import Outbox, send
from gpuq.notifier.watch import Notification, Watch
from gpuq.notify_file import NotifyFile

log = logging.getLogger("gpuq.notifier")

_LOOK_EVERY_S = 2.0
_WHILE_SENDING_S = 0.2
_PART_OF_THE_TIME = 0.05
"""With many jobs a look takes longer: it then looks less often, to take at most this part of the API's time."""
_PAGE = 1000


class Notes(msgspec.Struct, kw_only=True):
    """What is kept on disk, between two runs of this process."""

    address: str
    watch: Watch = msgspec.field(default_factory=Watch)
    waiting: list[Notification] = []


def main() -> int:
    """Run until SIGTERM or Ctrl-C. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="gpuq notify run", description="Send notifications about your jobs.")
    parser.add_argument("--host", help="the gpuq to look at")
    options = parser.parse_args()
    start_log()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    folder = notify_file.state_folder(os.environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = take_lock(folder / "lock")
        if lock is None:
            raise Conflict("a process of yours sends notifications already.", fix="Stop that one first.")
        serve(HttpClient(options.host, away_s=0), folder / "notes.json", notify_file.path(os.environ), stop)
    except GpuqError as error:
        return report(error)
    return 0


def serve(client: HttpClient, kept: Path, file: Path, stop: threading.Event) -> None:
    """Look and send until `stop` is set. What goes wrong is logged and tried again: `gpuq up` runs this beside the queue."""
    notes = _read(kept, client.address)
    outbox = Outbox(send, notes.waiting)
    next_look = 0.0
    while not stop.is_set():
        try:
            targets = notify_file.load(file)
            began, before = time.monotonic(), msgspec.json.encode(notes.watch)
            if began >= next_look:
                outbox.add(list(_look(client, notes.watch, targets)), targets.targets)
                next_look = began + max(_LOOK_EVERY_S, (time.monotonic() - began) / _PART_OF_THE_TIME)
            if outbox.turn(targets.targets, time.time()) or before != msgspec.json.encode(notes.watch):
                notes.waiting = outbox.waiting
                write_private(kept, msgspec.json.encode(notes), durable=False)
        except GpuqError as error:
            log.warning("%s %s", error.message, error.fix)
        except OSError as error:
            log.warning("the notes in %s cannot be written: %s", kept, error.strerror)
        stop.wait(_WHILE_SENDING_S if outbox.sends else _LOOK_EVERY_S)
    outbox.close()


def _read(kept: Path, address: str) -> Notes:
    """The notes of the run before; new ones if there are none of this gpuq."""
    try:
        notes = msgspec.json.decode(kept.read_bytes(), type=Notes)
    except (OSError, msgspec.MsgspecError):
        return Notes(address=address)
    return notes if notes.address == address else Notes(address=address)


def _look(client: HttpClient, watch: Watch, file: NotifyFile) -> Iterator[Notification]:
    """The messages of one look: at the jobs that were submitted since the last, and at those that are watched."""
    if watch.last is None:
        newest = client.get("/api/v1/jobs", owner="me", limit=1)["jobs"]
        unfinished = list(_pages(client, state="waiting,active", order="oldest"))
        watch.begin(newest[0]["id"] if newest else 0, unfinished)
    known = list(watch.jobs)
    parts = [known[start : start + _PAGE] for start in range(0, len(known), _PAGE)]
    jobs = {job["id"]: job for part in parts for job in _pages(client, ids=",".join(map(str, part)))}
    jobs |= {job["id"]: job for job in _pages(client, after=watch.last, order="oldest")}
    for gone in set(known) - set(jobs):
        del watch.jobs[gone]  # the record was restored from before it
    yield from watch.look(jobs.values(), file.default, file.targets, time.time())


def _pages(client: HttpClient, **query: Any) -> Iterator[dict[str, Any]]:
    """All of the user's jobs that these parameters of the list select."""
    while True:
        page = client.get("/api/v1/jobs", owner="me", limit=_PAGE, **query)
        yield from page["jobs"]
        if page["next"] is None:
            return
        query["after"] = page["next"]
