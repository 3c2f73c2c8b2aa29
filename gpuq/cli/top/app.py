"""The first screen of `gpuq top`, and what its keys do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import Input, Static

from gpuq import format as fmt
from gpuq.cli import job_labels
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.top import feed, lines
from gpuq.cli.top.panes import Pane
from gpuq.cli.top.screens import Confirmation, HelpScreen, JobScreen, TextScreen, device_lines
from gpuq.errors import GpuqError

_KEYS = "Enter open  e why  l log  p plot  h hold  c cancel  / filter  u mine  ? help"
_AT_MOST_EVERY_S = 0.4
_DONE = {"hold": "held", "release": "released", "cancel": "cancelled"}


class Top(App[None]):
    """Devices above, jobs below. What is shown is read every `interval_s`, and at once when the journal has something new."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; }
    .bar { height: 1; text-style: bold; }
    .keys, #said, #columns { height: 1; }
    #columns { text-style: bold; }
    #jobs { height: 1fr; }
    #devices, #jobs { overflow-x: hidden; scrollbar-size-vertical: 0; }
    #filter { display: none; height: 1; border: none; padding: 0; }
    #filter.open { display: block; }
    ModalScreen { align: center middle; }
    .box { width: auto; max-width: 78; height: auto; border: ascii; padding: 0 1; }
    """
    BINDINGS: ClassVar = [
        Binding("q,f10", "quit", show=False),
        Binding("question_mark,f1", "help", show=False),
        Binding("slash,f4", "filter", show=False),
        Binding("u", "user", show=False),
        Binding("tab", "other_pane", show=False, priority=True),
        Binding("e", "job('why')", show=False),
        Binding("l", "job('log')", show=False),
        Binding("p", "job('plot')", show=False),
        Binding("h", "hold", show=False),
        Binding("c,f9", "cancel", show=False),
    ]

    def __init__(self, connect: Callable[[], HttpClient], interval_s: float, owner: str) -> None:
        super().__init__(ansi_color=True)  # the terminal's own colours; none with NO_COLOR
        self.theme = "ansi-dark"
        self._connect, self._interval_s, self._owner = connect, interval_s, owner
        self._changed, self._over = threading.Event(), threading.Event()
        self._shown: feed.ScreenData | None = None
        self._words = ""

    def compose(self) -> ComposeResult:
        """The lines of the screen."""
        yield Static("gpuq top: reading …", id="title", classes="bar", markup=False)
        yield Static("", id="columns", markup=False)
        yield Pane(id="devices")
        yield Static("", classes="keys")
        yield Pane(id="jobs")
        yield Static("", id="said", markup=False)
        yield Input(placeholder="only what contains …", id="filter")
        yield Static(_KEYS, classes="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one("#jobs").focus()
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=feed.listen, args=(self._connect, self._changed, self._over), daemon=True).start()

    def on_unmount(self) -> None:
        """End the threads."""
        self._over.set()
        self._changed.set()

    def _read(self) -> None:
        devices = self.query_one("#devices", Pane)
        with closing(self._connect()) as client:
            looks = feed.Feed(client)
            while not self._over.is_set():
                self._changed.clear()
                next_at = time.monotonic() + self._interval_s
                try:
                    show = partial(self._show, looks.read(self._owner, devices.on_screen))
                except GpuqError as error:
                    show = partial(self._show_old, error)
                if self._over.is_set():
                    return
                self.call_from_thread(show)
                self._over.wait(_AT_MOST_EVERY_S)
                self._changed.wait(max(0.0, next_at - time.monotonic()))

    # --- what is shown -------------------------------------------------------------------------------------------------

    def _show_old(self, error: GpuqError) -> None:
        since = "" if self._shown is None else f"; what you see is from {_clock(self._shown.at)}"
        self._title(f"gpuq does not answer{since}", healthy=False)
        if self._shown is None:
            self._say(error.message)

    def _show(self, snapshot: feed.ScreenData) -> None:
        self._shown = snapshot
        running, waiting = lines.count(snapshot.jobs)
        loads = [one["utilization_pct"] for one in snapshot.devices if one["utilization_pct"] is not None]
        load = f", {sum(loads) / len(loads):.0f}% busy" if loads else ""
        whose = {"me": "my jobs: ", "all": ""}.get(self._owner, f"jobs of {fmt.clean(self._owner)}: ")
        more = f"; {feed.MOST} of each are shown" if snapshot.more else ""
        more += f"; filter: {self._words}" if self._words else ""
        self._title(
            f"{snapshot.health} {_clock(snapshot.at)}  {len(snapshot.devices):,} devices{load}; "
            f"{whose}{running:,} running, {waiting:,} waiting{more}",
            healthy=snapshot.healthy,
        )
        self._fill()

    def _fill(self) -> None:
        if self._shown is None:
            return
        width = self.size.width
        devices = (
            [one for one in self._shown.devices if lines.device_matches(one, self._words)]
            if self._words
            else self._shown.devices
        )
        pane = self.query_one("#devices", Pane)
        # Half of the screen at most, and as much as the jobs leave.
        height = min(len(devices), max(3, (self.size.height - 6) // 2))
        if pane.styles.height is None or pane.styles.height.value != height:
            pane.styles.height = height
        self.query_one("#columns", Static).update(lines.device_heading(devices, width))
        pane.fill([one["id"] for one in devices], partial(lines.device, devices, width=width))
        jobs = [job for job in self._shown.jobs if not self._words or lines.matches(job, self._words)]
        listed = lines.jobs(jobs, width, time.time())
        if not listed:
            none = "no job contains these words" if self._words else "no job waits or runs"
            listed = [lines.PaneLine(None, f"  {none}")]
        self.query_one("#jobs", Pane).fill([line.key for line in listed], listed.__getitem__)

    def on_resize(self) -> None:
        """Make the lines as wide as the terminal is now."""
        self._fill()

    def _title(self, text: str, *, healthy: bool) -> None:
        title = self.query_one("#title", Static)
        title.styles.color = "ansi_default" if healthy else "ansi_red"
        title.update(text[: self.size.width])

    def _say(self, text: str) -> None:
        for line in self.screen.query("#said").results(Static):
            line.update(fmt.clean(text))

    # --- keys ----------------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpScreen())

    def action_other_pane(self) -> None:
        """Go to the other pane."""
        if len(self.screen_stack) == 1:
            here = self.query_one("#devices", Pane)
            (self.query_one("#jobs", Pane) if here.has_focus else here).focus()

    def action_user(self) -> None:
        """Jobs of all users, or mine."""
        self._owner = "me" if self._owner == "all" else "all"
        self._changed.set()

    def action_filter(self) -> None:
        """Type words that lines are to contain."""
        if len(self.screen_stack) == 1:
            field = self.query_one("#filter", Input)
            field.add_class("open")
            field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show only what contains what was typed so far."""
        self._words = event.value
        self._fill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Leave the field; what it says stays in force."""
        if not event.value:
            event.input.remove_class("open")
        self.query_one("#jobs", Pane).focus()

    def on_key(self, event: object) -> None:
        """Escape in the field ends the filter."""
        field = self.query_one("#filter", Input) if len(self.screen_stack) == 1 else None
        if field is not None and getattr(event, "key", "") == "escape" and field.has_class("open"):
            field.value = ""
            field.remove_class("open")
            self.query_one("#jobs", Pane).focus()

    def on_pane_opened(self, event: Pane.Opened) -> None:
        """Show the device, or the job."""
        if event.pane.id == "jobs":
            self.action_job("facts")
            return
        device = next((one for one in self._devices() if one["id"] == event.key), None)
        if device is not None:
            text = partial(device_lines, device_id=device["id"])
            self.push_screen(TextScreen(self._connect, f"device {fmt.clean(device['name'])}", text, "Esc back"))

    def _devices(self) -> list[Record]:
        return [] if self._shown is None else self._shown.devices

    def action_job(self, view: str) -> None:
        """Show this side of the chosen job; of an array, of the task that says most."""
        job = self._chosen()
        if job is not None and len(self.screen_stack) == 1:
            self.push_screen(JobScreen(self._connect, job, view))

    def _chosen(self) -> Record | None:
        """The job on the screen, or on the line that is chosen; of a device that one job has, this one."""
        jobs = {job["id"]: job for job in self._shown.jobs} if self._shown else {}
        if isinstance(self.screen, JobScreen):
            return jobs.get(self.screen.job["id"], self.screen.job)
        pane = self.query_one("#devices", Pane)
        if not pane.has_focus:
            return jobs.get(self.query_one("#jobs", Pane).chosen)
        found = [one["job"] for device in self._devices() if device["id"] == pane.chosen for one in device["residents"]]
        if len(found) != 1:
            self._say("Choose a job: Tab goes to the jobs.")
            return None
        return jobs.get(found[0])

    def action_hold(self) -> None:
        """Hold the chosen job; of a held one: release it."""
        job = self._chosen()
        if job is None:
            return
        states = job["states"] if lines.is_array(job) else {job["state"]}
        self._act("release" if "HELD" in states and "PENDING" not in states else "hold", job)

    def action_cancel(self) -> None:
        """Cancel the chosen job, after a question."""
        job = self._chosen()
        if job is None:
            return
        what = (
            f"array {job['id']} with its {job['count']:,} tasks"
            if lines.is_array(job)
            else f"job {job_labels.id_of(job)}"
        )
        name = fmt.clean(job["name"] or "")
        question = f"Cancel {what} ({name[:40]})?\nWhat runs of it is stopped. This cannot be undone."
        self.push_screen(Confirmation(question), lambda yes: self._act("cancel", job) if yes else None)

    def _act(self, verb: str, job: Record) -> None:
        ids = [job["id"], job["id"] + job["count"] - 1] if lines.is_array(job) else job["id"]
        self.run_worker(partial(self._do, verb, ids), thread=True)

    def _do(self, verb: str, ids: int | list[int]) -> None:
        try:
            with closing(self._connect()) as client:
                answer: Record = client.post(f"/api/v1/jobs/{verb}", {"where": {"ids": [ids]}})
        except GpuqError as error:
            text = f"{error.message} {error.fix}"
        else:
            taken = [job for jobs in answer["jobs"].values() for job in jobs]
            what = f"Job {taken[0]} is" if len(taken) == 1 else f"{len(taken):,} jobs are"
            refused = [f"Job {job} {one['why']}." for one in answer["refused"] for job in one["ids"][:1]]
            text = " ".join([*([f"{what} {_DONE[verb]}."] if taken else []), *refused[:1]])
        self.call_from_thread(self._say, text)
        self._changed.set()

    @property
    def failure(self) -> Exception | None:
        """What ended it, if it did not end well."""
        return self._exception

    def _print_error_renderables(self) -> None:
        """Textual would print a traceback; the command prints a sentence."""


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))
