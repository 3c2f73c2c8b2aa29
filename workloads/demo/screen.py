"""What a person sees while the demo runs: a live table on a terminal, a line every few seconds elsewhere.

Arrives: jobs and devices as the HTTP endpoint gives them. Leaves: text on stdout.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from workloads.demo import report

Json = Mapping[str, Any]
LINE_EVERY_S = 5.0


class Screen:
    """The console, with the time since the demo began."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=False)
        self.began = time.monotonic()

    def say(self, text: str = "") -> None:
        """A paragraph of talk."""
        self.console.print(text, markup=False)

    def act(self, title: str) -> None:
        """A heading."""
        self.console.print()
        self.console.print(f"--- {self.elapsed():.0f} s. {title}", style="bold", markup=False)

    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self.began

    def board(self) -> Board:
        """A view of jobs and devices that follows them."""
        return Board(self)


class Board:
    """Shows jobs and devices as they change. A context manager."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._live = Live(console=screen.console, auto_refresh=False) if screen.console.is_terminal else None
        self._next_line_at = 0.0
        self._last_states: list[tuple[object, object]] = []

    def __enter__(self) -> Board:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, jobs: Sequence[Json], devices: Sequence[Json]) -> None:
        """The present state; off a terminal only when a job's state changed or some seconds went by."""
        if self._live is not None:
            self._live.update(table(jobs, devices), refresh=True)
            return
        states = [(job["state"], job["partners"]) for job in jobs]
        if states != self._last_states or time.monotonic() >= self._next_line_at:
            self._last_states = states
            self._next_line_at = time.monotonic() + LINE_EVERY_S
            self._screen.console.print(line(jobs, devices, self._screen.elapsed()), markup=False, soft_wrap=True)


def table(jobs: Sequence[Json], devices: Sequence[Json]) -> Table:
    """The live view."""
    title = "; ".join(map(device_text, devices))
    found = report.narrow_table(title, ("job", "state", "beside"), ("steps/s", "util", "memory"))
    found.add_column("why it waits", no_wrap=True)
    for job in jobs:
        live = job.get("live") or {}
        found.add_row(
            f"{job['id']} {job['name']}",
            job["state"],
            ", ".join(map(str, job["partners"])) or report.UNKNOWN,
            report.number(live.get("rate")),
            report.percent(live.get("utilization_pct")),
            report.memory(live.get("memory_bytes")),
            waits_for(job),
        )
    return found


def line(jobs: Sequence[Json], devices: Sequence[Json], elapsed: float) -> str:
    """The same in one line."""
    parts = [job_text(job) for job in jobs if job["state"] in ("RUNNING", "STARTING", "COMPLETING", "PENDING")]
    return f"[{elapsed:4.0f} s] " + " | ".join([*map(device_text, devices), *parts])


def job_text(job: Json) -> str:
    """One job in a few words."""
    name, live = f"{job['id']} {job['name']}", job.get("live") or {}
    if job["state"] == "PENDING":
        return f"{name} waits ({waits_for(job) or 'not looked at yet'})"
    beside = "".join(f" beside {partner}" for partner in job["partners"])
    rate = f" {live['rate']:.1f} steps/s" if live.get("rate") is not None else ""
    return f"{name} {job['state'].lower()}{beside}{rate} {report.percent(live.get('utilization_pct'))}"


def device_text(device: Json) -> str:
    """One device in a few words."""
    used, total = report.memory(device["used_memory_bytes"]), report.memory(device["total_memory_bytes"])
    return f"{device['id']}: {report.percent(device['utilization_pct'])} busy, {used} of {total}"


def waits_for(job: Json) -> str:
    """The rule that keeps a job waiting, with its sum where it has one."""
    verdict = job.get("verdict")
    if job["state"] != "PENDING" or not verdict or verdict["admitted"]:
        return ""
    numbers = verdict["numbers"]
    if numbers.get("sum_pct") is not None:
        return f"{verdict['rule']}: {numbers['sum_pct']:.0f}% > {numbers['limit_pct']:.0f}%"
    return str(verdict["rule"])
