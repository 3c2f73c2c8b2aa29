"""`gpuq events [ID]`: what happens in the queue, a line of JSON for each event, for scripts. Ctrl-C ends it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial

from gpuq.cli import job_ids
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.verbs.follow import Retry
from gpuq.errors import Unreachable

_PAUSE_S = 1.0


def run(words: list[str]) -> int:
    """Print events until it is interrupted, or the gpuq is gone."""
    parser = Parser(
        "events",
        "Follow what happens, as lines of JSON: id, at, name, jobs, body.\n"
        "From now on, or from an event that was printed before. Ctrl-C ends it.",
    )
    add = parser.add_argument
    add("id", metavar="ID", nargs="?", help="only of this job. Without it, of all jobs, which operators may see.")
    add("--after", metavar="EVENT", help="go on after the event with this id; 0: from the beginning")
    add("--all", action="store_true", help="also events that name no job, as the reports of hosts do")
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    job = None if options.id is None else job_ids.one(client, options.id)
    after, retry = options.after, Retry()
    while True:
        retry(partial(client.get, "/version"))
        try:
            for last, event in _events(client, after, job, everything=options.all):
                after = last
                if event is not None:
                    print(json.dumps({"id": last, **event}), flush=True)
        except Unreachable:
            pass  # the endpoint was restarted: nothing is missed, and one that is gone is noticed when it is asked again
        time.sleep(_PAUSE_S)


def _events(
    client: HttpClient, after: str | None, job: int | None, *, everything: bool
) -> Iterator[tuple[str | None, Record | None]]:
    """(id, event) of one connection; first the id after which it begins, without an event. Raises Lost when it breaks."""
    rest = b""
    for piece in client.stream("/api/v1/events", after=after, job=job, all="1" if everything else None):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            field, _, value = line.partition(b": ")
            if field == b"id":
                after = value.decode()
            elif field == b"data":
                yield after, json.loads(value)
            elif not field and value.startswith(b"after ") and after is None:
                after = value.removeprefix(b"after ").decode()
                yield after, None
