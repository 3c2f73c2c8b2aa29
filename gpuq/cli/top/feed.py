"""What `gpuq top` shows, read from the HTTP API."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from dataclasses import dataclass

from gpuq.cli.client import HttpClient, Record
from gpuq.cli.verbs.queue import start_order
from gpuq.errors import GpuqError, NotPermitted

try:
    from msgspec.json import (
        decode,
    )  # a thousand devices are 1.5 MB, which takes half as long as with the standard library
except ImportError:  # gpuq-client
    from json import loads as decode  # type: ignore[no-redef]

MOST = 100
"""Jobs that are read of those that run, and of those that wait: a terminal shows fewer."""
_WAITING, _ACTIVE = "PENDING,HELD", "STARTING,RUNNING,COMPLETING"
_SILENT = "the dispatcher is silent: jobs run on, but none starts"
_LISTEN_AGAIN_S = 5.0
FEW = 50
_MOST_IDS = 100  # of one request, as the API's document says
_ALL_EVERY_S = 10.0

Key = int | str
"""What a line of a pane is about: a device's id, or a job's."""


@dataclass(frozen=True)
class ScreenData:
    """What the API said at one moment (Unix seconds, of this machine). `jobs` are those that run, arrays of which tasks wait, and
    other jobs that wait, in the order of their start. `more`: there are jobs beyond `MOST`."""

    at: float
    health: str
    healthy: bool
    devices: list[Record]
    jobs: list[Record]
    more: bool


class Feed:
    """Looks at a gpuq again and again. Of more than `FEW` devices those on the screen are read each time, all now and then."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._devices: dict[str, Record] = {}
        self._read_all_at = float("-inf")

    def read(self, owner: str, on_screen: Collection[Key]) -> ScreenData:
        """Look now; `on_screen` are the ids of devices. Raises GpuqError."""
        at, client = time.time(), self._client
        self._read_devices(on_screen)
        active: Record = client.get("/api/v1/jobs", state=_ACTIVE, owner=owner, limit=MOST)
        # Those that were submitted first are mostly the next to start.
        waiting: Record = client.get(
            "/api/v1/jobs", state=_WAITING, owner=owner, limit=MOST, tasks="together", order="oldest"
        )
        ready: Record = client.look("/readyz")
        silent = ready.get("dispatcher") != "ok"
        jobs = sorted(active["jobs"], key=lambda job: int(job["id"]))
        return ScreenData(
            at=at,
            health=_SILENT if silent else "live",
            healthy=not silent,
            devices=list(self._devices.values()),
            jobs=[*jobs, *waiting["arrays"], *sorted(waiting["jobs"], key=start_order)],
            more=active["next"] is not None or waiting["next"] is not None,
        )

    def _read_devices(self, on_screen: Collection[Key]) -> None:
        now = time.monotonic()
        if len(self._devices) > FEW and now - self._read_all_at < _ALL_EVERY_S:
            wanted = [str(device) for device in on_screen if device in self._devices]
            for some in (wanted[start : start + _MOST_IDS] for start in range(0, len(wanted), _MOST_IDS)):
                self._devices |= self._ask(ids=",".join(some))
        else:
            self._devices, self._read_all_at = self._ask(), now

    def _ask(self, **query: object) -> dict[str, Record]:
        found: list[Record] = decode(self._client.piece("/api/v1/gpus", **query)[0])
        return {device["id"]: device for device in found}


def listen(connect: Callable[[], HttpClient], changed: threading.Event, over: threading.Event) -> None:
    """Set `changed` whenever the journal has something new, until `over`. Users who may not see the journal do without."""
    while not over.is_set():
        with suppress(GpuqError):
            try:
                with closing(connect()) as client:
                    for chunk in client.stream("/api/v1/events"):
                        if over.is_set():
                            return
                        if b"event:" in chunk:
                            changed.set()
            except NotPermitted:
                return
        over.wait(_LISTEN_AGAIN_S)
