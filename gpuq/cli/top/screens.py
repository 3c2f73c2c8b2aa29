"""Screens over the first one: a job (its facts, why it is where it is, its curves, its log), a device, the keys, a question."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from gpuq import format as fmt
from gpuq.cli import console, job_labels, plot
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.top import lines
from gpuq.cli.verbs import explain, show
from gpuq.errors import GpuqError, NotFound
from gpuq.log_text import readable

_TAIL_BYTES = 128 * 1024
_LOOK_EVERY_S = 2.0
_LONGEST_NAME = 40
_AT_END = 2

Lines = Callable[[HttpClient, int], list[str]]
"""The lines of a screen, of at most so many characters. Raises GpuqError."""


class TextScreen(Screen[None]):
    """Text that is read again every two seconds."""

    BINDINGS: ClassVar = [
        Binding("escape,q,left", "app.pop_screen", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup", "scroll_page(-1)", show=False),
        Binding("pagedown,space", "scroll_page(1)", show=False),
        Binding("home,g", "to(0)", show=False),
        Binding("end,G", "to(1)", show=False),
    ]

    def __init__(self, connect: Callable[[], HttpClient], title: str, text: Lines, keys: str) -> None:
        super().__init__()
        self._connect, self._heading, self._text, self._keys = connect, title, text, keys
        self._reading = threading.Lock()
        self.follows = False
        """Whether the end stays in view."""

    def compose(self) -> ComposeResult:
        """A heading, the text, and the keys."""
        yield Static(self._heading, classes="bar", markup=False)
        with VerticalScroll(can_focus=False):
            yield Static("reading …", id="text", markup=False)
        yield Static("", id="said", markup=False)
        yield Static(self._keys, classes="keys", markup=False)

    def on_mount(self) -> None:
        """Read, now and then."""
        self.look()
        self.set_interval(_LOOK_EVERY_S, self.look)

    def look(self) -> None:
        """Read and show it."""
        self.run_worker(self._look, thread=True, group="look")

    def _look(self) -> None:
        with self._reading:
            try:
                with closing(self._connect()) as client:
                    shown = self._text(client, max(40, self.app.size.width - 2))
            except GpuqError as error:
                shown = [error.message, error.fix]
        if self.is_running:
            self.app.call_from_thread(self._show, Text("\n").join(map(Text.from_ansi, shown)))

    def _show(self, text: Text) -> None:
        self.query_one("#text", Static).update(text)
        scroll = self.query_one(VerticalScroll)
        if self.follows and scroll.scroll_offset.y >= scroll.max_scroll_y - _AT_END:
            scroll.scroll_end(animate=False)

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_scroll_page(self, by: int) -> None:
        """Scroll by pages."""
        self.action_scroll(by * max(1, self.query_one(VerticalScroll).size.height - 1))

    def action_to(self, end: int) -> None:
        """Scroll to the beginning or the end."""
        scroll = self.query_one(VerticalScroll)
        scroll.scroll_end(animate=False) if end else scroll.scroll_home(animate=False)


class JobScreen(TextScreen):
    """One job: what is known of it, why it waits or runs where it runs, its curves, or the end of its log."""

    BINDINGS: ClassVar = [
        Binding("enter,s", "view('facts')", show=False),
        Binding("e", "view('why')", show=False),
        Binding("p", "view('plot')", show=False),
        Binding("l", "view('log')", show=False),
        Binding("h", "app.hold", show=False),
        Binding("c,f9", "app.cancel", show=False),
    ]

    def __init__(self, connect: Callable[[], HttpClient], job: Record, view: str) -> None:
        """`job` may be an array; then the task of it is shown that says most."""
        self.job, self._view = job, view
        self._number, label = int(job["id"]), job_labels.id_of(job)
        if lines.is_array(job):
            self._number = explain.telling_task(job)
            label = f"{job['id']}, task {self._number - job['id'] + 1} of {job['count']:,}"
        if job.get("name"):
            label += f" {console.shorten(fmt.clean(job['name']), _LONGEST_NAME)}"
        keys = "e why  l log  p plot  s facts  h hold  c cancel  Esc back"
        super().__init__(connect, f"job {label}", self._lines, keys)
        self.follows = view == "log"

    def action_view(self, view: str) -> None:
        """Show another side of the job."""
        self._view, self.follows = view, view == "log"
        self.look()

    def _lines(self, client: HttpClient, width: int) -> list[str]:
        address, colour = f"/api/v1/jobs/{self._number}", not self.app.no_color
        if self._view == "why":
            return explain.screen(client.get(f"{address}/explanation"), width, colour)
        if self._view == "plot":
            return ["over time", "", *plot.screen(client.get(f"{address}/series"), width)]
        if self._view == "log":
            return _log(client, address)
        return show.screen(client.get(address), width, colour)


def _log(client: HttpClient, address: str) -> list[str]:
    """The end of the log, as text that steers no terminal."""
    try:
        raw, _ = client.piece(f"{address}/logs", offset=-_TAIL_BYTES, limit=_TAIL_BYTES)
    except NotFound as none:
        return [none.message]
    return readable(raw).splitlines() or ["nothing is written yet"]


def device_lines(client: HttpClient, width: int, device_id: str) -> list[str]:
    """All about a device, and its jobs against their forecasts. Raises NotFound."""
    device: Record | None = next(
        (one for one in client.get("/api/v1/gpus", ids=device_id) if one["id"] == device_id), None
    )
    if device is None:
        raise NotFound(f"There is no device {device_id} any more.")
    promised, total = fmt.gib(device["promised_memory_bytes"]), fmt.gib(device["total_memory_bytes"])
    clocks = ", ".join(device["throttling"] or []).replace("_", " ")
    xids = ", ".join(f"XID {code}: {count}" for code, count in (device["xids"] or {}).items())
    facts = [
        ("type", fmt.clean(device["kind"])),
        ("host", fmt.clean(device["host"])),
        ("id", fmt.clean(device["id"])),
        ("trouble", lines.trouble_of(device)),
        (
            "utilisation",
            f"{fmt.percent(device['utilization_pct'])}, {fmt.percent(lines.peak_forecast(device))} forecast",
        ),
        ("memory", f"{fmt.gib(device['used_memory_bytes'])}, {promised} promised, of {total}"),
        ("power", fmt.watts(device["power_watts"])),
        ("temperature", None if device["temperature_c"] is None else f"{device['temperature_c']:.0f} °C"),
        ("shared by", None if device["sharing"] == "exclusive" else device["sharing"]),
        ("compute mode", "one process at a time" if device["sharing"] == "exclusive" else None),
        ("lower clocks", clocks or None),
        ("XID errors", xids or None),
    ]
    return [*console.facts(facts, width), "", *_residents(device["residents"], width)]


def _residents(residents: list[Record], width: int) -> list[str]:
    if not residents:
        return ["  no job"]
    rows = []
    for resident in residents:
        forecast = resident["forecast"] or {}
        rows.append(
            (
                str(resident["job"]),
                fmt.clean(resident["name"] or ""),
                f"{fmt.percent(resident['utilization_pct'])}/{fmt.percent(forecast.get('peak_utilization_pct'))}",
                f"{fmt.gib(resident['memory_bytes'], 'G')}/{fmt.gib(forecast.get('upper_memory_bytes'), 'G')}",
                fmt.slowdown(resident["slowdown"]),
                fmt.slowdown(resident["expected_slowdown"]),
                fmt.rate(resident["rate"]),
            )
        )
    columns = [
        console.Column("JOB"),
        console.Column("NAME", least=8),
        *(console.Column(title, right=True) for title in ("UTIL/FORECAST", "MEM/FORECAST", "SLOW", "EXPECTED", "RATE")),
    ]
    return [f"  {line}" for line in console.table(columns, rows, width - 2)]


HELP = """\
↑ ↓ PgUp PgDn    choose a line; also j and k, Home and End
Tab              devices, or jobs
Enter            the chosen job or device; Esc goes back
e                why it waits, or runs where it runs
l                the end of its log, which goes on
p                its utilisation, memory, rate and power over time
h                hold a waiting job; of a held one: release it
c                cancel it, after a question
/                only what contains these words; Esc there: all again
u                jobs of all users, or mine
q                leave

UTIL/FORECAST    utilisation now, and the peaks forecast, added up
MEMORY/PROMISED  memory now, what jobs may take at most, and all of it
█ now   ░ up to what is forecast or promised   ! trouble: Enter says it
JOBS, SLOWDOWN   what its partners cost each; ~ where only expected"""


class HelpScreen(ModalScreen[None]):
    """The keys, and what the columns mean."""

    BINDINGS: ClassVar = [Binding("escape,q,question_mark,enter", "app.pop_screen", show=False)]

    def compose(self) -> ComposeResult:
        """The text."""
        yield Static(HELP, classes="box", markup=False)


class Confirmation(ModalScreen[bool]):
    """A question that y answers with yes, and n or Escape with no."""

    BINDINGS: ClassVar = [
        Binding("y", "dismiss(True)", show=False),
        Binding("n,escape,q,enter", "dismiss(False)", show=False),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The question."""
        yield Static(f"{self._text}\n\n  y yes   n no", classes="box", markup=False)
