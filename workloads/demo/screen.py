"""What a person sees while the demo runs: one line that changes on a terminal; elsewhere a line when something happens, or every
ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from workloads.demo import report

Json = Mapping[str, Any]
LINE_EVERY_S = 10.0


class Screen:
    """The console, with the time since the demo began."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self.clock = clock
        self.began = clock()

    def say(self, text: str = "") -> None:
        """A paragraph."""
        self.console.print(text, markup=False)

    def act(self, title: str) -> None:
        """A heading with the time."""
        self.console.print(f"[{self.elapsed():3.0f} s] {title}", style="bold", markup=False)

    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return self.clock() - self.began

    def board(self) -> Board:
        """A view of jobs that follows them."""
        return Board(self)


class Board:
    """Shows jobs as they change. A context manager."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._live = (
            Live(console=screen.console, auto_refresh=False, transient=True) if screen.console.is_terminal else None
        )
        self._next_line_at = screen.clock() + LINE_EVERY_S
        self._last_states: list[tuple[object, object]] | None = None

    def __enter__(self) -> Board:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, jobs: Sequence[Json]) -> None:
        """The present state; off a terminal only when jobs began or ended, or some seconds went by."""
        text = f"[{self._screen.elapsed():3.0f} s]   {line(jobs)}"
        if self._live is not None:
            self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
            return
        states = [(job["state"] == "RUNNING", job["ended_at_unix"]) for job in jobs]
        changed = self._last_states is not None and states != self._last_states
        self._last_states = states
        if changed or self._screen.clock() >= self._next_line_at:
            self._next_line_at = self._screen.clock() + LINE_EVERY_S
            self._screen.console.print(text, markup=False)


def line(jobs: Sequence[Json]) -> str:
    """The jobs that are not over, in one line."""
    return "; ".join(job_text(job) for job in jobs if job["ended_at_unix"] is None) or "all ended"


def job_text(job: Json) -> str:
    """One job in a few words."""
    name, live = f"{job['id']} {job['name']}", job.get("live") or {}
    if job["state"] == "PENDING":
        return f"{name} waits{waits_for(job)}"
    rate = f" {live['rate']:.1f} steps/s" if live.get("rate") is not None else ""
    busy = f" {live['utilization_pct']:.0f}%" if live.get("utilization_pct") is not None else ""
    return f"{name}{rate}{busy}" if rate or busy else f"{name} {job['state'].lower()}"


def waits_for(job: Json) -> str:
    """The sum that keeps a job waiting, where that is why; else nothing."""
    numbers = (job.get("verdict") or {}).get("numbers") or {}
    if numbers.get("sum_pct") is None:
        return ""
    return f" ({report.percent(numbers['sum_pct'])} > {report.percent(numbers['limit_pct'])})"
