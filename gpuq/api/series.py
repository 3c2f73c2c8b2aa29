"""Series of running attempts: utilisation, memory, rate, power and partners over time.

An API process copies them from the live view every ten seconds into one file per attempt, `series/JOB-ATTEMPT.jsonl` in the home.
They are for people to look at and no part of the record: nothing is decided by them, and where no API process ran there is a gap.
A file has at most `MOST` points; then neighbours are merged, and the time between two points doubles.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import msgspec

from gpuq.adapters.lock import take_lock
from gpuq.adapters.tasks import wait_for_event
from gpuq.api.context import ApiContext
from gpuq.api.live import LiveReader
from gpuq.home import open_regular, write_private
from gpuq.messages.launch import NOT_JSON
from gpuq.messages.live import LiveView

log = logging.getLogger(__name__)

EVERY_S = 10.0
MOST = 1440
_DAY_S = 86_400.0
_LARGEST_BYTES = 4 * 2**20
_FILE = re.compile(r"([0-9]{1,18})-([0-9]{1,9})\.jsonl")


class Point(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt at one moment (Unix seconds), or the means around it. `power_watts` is of its whole devices, with partners."""

    at: float
    utilization_pct: float | None = None
    memory_bytes: int | None = None
    rate: float | None = None
    power_watts: float | None = None
    partners: tuple[int, ...] = ()


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Point)


def points_of(view: LiveView) -> dict[tuple[int, int], Point]:
    """(job, attempt) -> its point, of all that run. Numbers of a job are those on its first device, as `gpuq show` has them."""
    found: dict[tuple[int, int], Point] = {}
    for device in view.devices:
        watts = device.vitals.power_watts if device.vitals else None
        for resident in device.residents:
            if resident.started_at is None:
                continue
            key = (resident.job, resident.attempt)
            first = found.get(key)
            if first is None:
                found[key] = Point(
                    view.at, resident.utilization_pct, resident.memory_bytes, resident.rate, watts, resident.partners
                )
            else:
                total = None if watts is None or first.power_watts is None else first.power_watts + watts
                partners = tuple(sorted({*first.partners, *resident.partners}))
                found[key] = msgspec.structs.replace(first, power_watts=total, partners=partners)
    return found


def merged(one: Point, other: Point) -> Point:
    """Both as one point: means of what is known, all partners, at the later moment."""

    def mean(name: str) -> float | None:
        values = [value for point in (one, other) if (value := getattr(point, name)) is not None]
        return fmean(values) if values else None

    memory = mean("memory_bytes")
    return Point(
        at=other.at,
        utilization_pct=mean("utilization_pct"),
        memory_bytes=None if memory is None else round(memory),
        rate=mean("rate"),
        power_watts=mean("power_watts"),
        partners=tuple(sorted({*one.partners, *other.partners})),
    )


def read(folder: Path, job: int, attempt: int) -> list[Point]:
    """The points of an attempt, oldest first; none if there is no file. A line that was cut off by a crash is left out."""
    try:
        with os.fdopen(open_regular(folder / f"{job}-{attempt}.jsonl"), "rb") as file:
            lines = file.read(_LARGEST_BYTES).splitlines()
    except OSError:
        return []
    points = []
    for line in lines:
        with contextlib.suppress(*NOT_JSON):
            points.append(_decoder.decode(line))
    return points


class SeriesWriter:
    """Appends points to the files of `folder`. One process at a time may have one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # (job, attempt) -> (points in its file, seconds between them, the last moment).
        self._files: dict[tuple[int, int], tuple[int, float, float]] = {}

    def write(self, points: dict[tuple[int, int], Point]) -> None:
        """Append each point that is due. Raises OSError."""
        self._files = {key: known for key, known in self._files.items() if key in points}
        for key, point in points.items():
            count, step_s, last_at = self._files.get(key) or self._look(key)
            if point.at - last_at < 0.9 * step_s:
                continue
            path = self._path(key)
            if count >= MOST:
                halved = _halved(read(self._folder, *key))
                write_private(path, b"".join(_encode(each) + b"\n" for each in halved), durable=False)
                count, step_s = len(halved), 2 * step_s
            descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with os.fdopen(descriptor, "ab") as file:
                file.write(_encode(point) + b"\n")
            self._files[key] = (count + 1, step_s, point.at)

    def clean(self, before: float) -> None:
        """Remove the files that were last written before that moment (Unix seconds)."""
        for path in self._folder.iterdir():
            if _FILE.fullmatch(path.name) and path.lstat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _look(self, key: tuple[int, int]) -> tuple[int, float, float]:
        """What a process before this one had written: the time between points is that of the last two."""
        points = read(self._folder, *key)
        if not points:
            return 0, EVERY_S, float("-inf")
        steps = [after.at - before.at for before, after in pairwise(points)]
        return len(points), max(EVERY_S, min(steps, default=EVERY_S)), points[-1].at

    def _path(self, key: tuple[int, int]) -> Path:
        return self._folder / f"{key[0]}-{key[1]}.jsonl"


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most so many points: neighbours are merged in pairs until there are no more."""
    found = list(points)
    while len(found) > most:
        found = _halved(found)
    return found


def _halved(points: Sequence[Point]) -> list[Point]:
    pairs = zip(points[::2], points[1::2], strict=False)
    return [merged(one, other) for one, other in pairs] + list(points[len(points) & ~1 :])


async def record(context: ApiContext) -> None:
    """Copy series from the live view until the API stops. Waits while another process of this home does it."""
    folder, stop = context.settings.home.series, context.stopping
    # A reader of its own: what it reads is not what a caller is shown a moment later.
    live = LiveReader(context.stream, context.clock, context.settings.admission.stale_after_s)
    lock: int | None = None
    writer = SeriesWriter(folder)
    cleaned_at = float("-inf")
    try:
        while not stop.is_set():
            try:
                if lock is None:
                    folder.mkdir(mode=0o700, exist_ok=True)
                    lock = take_lock(folder / "lock")
                if lock is not None and (view := (await live.read()).view) is not None:
                    await context.run(writer.write, points_of(view))
                    if time.monotonic() - cleaned_at > _DAY_S:
                        cleaned_at = time.monotonic()
                        keep_s = context.settings.worker.keep_attempts_days * _DAY_S
                        await context.run(writer.clean, view.at - keep_s)
            except OSError as error:
                log.warning("series cannot be written to %s: %s", folder, error.strerror)
            await wait_for_event(stop, EVERY_S)
    finally:
        if lock is not None:
            os.close(lock)
