"""`gpuq top` with Textual's pilot, over a real endpoint: what is on the screen of 80 columns, and what the keys do."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gpuq.cli.client import HttpClient
from gpuq.core.state.job import JobId, JobState
from tests.api.conftest import TOKEN, Endpoint, endpoint, settings
from tests.api.page.opening import carry_out
from tests.api.page.test_browser import ESCAPES, HOSTILE, write_log
from tests.api.support import afternoon, record, row
from tests.cli.conftest import Command, gpuq, home
from tests.support.top_screen import TopScreen, opened_top

__all__ = ["endpoint", "gpuq", "home", "settings"]


@asynccontextmanager
async def opened(endpoint: Endpoint, width: int = 80, height: int = 24) -> AsyncIterator[TopScreen]:
    """The screen of the afternoon."""
    afternoon(endpoint.store, endpoint.stream)
    carry_out(endpoint)

    def connect() -> HttpClient:
        return HttpClient(f"http://127.0.0.1:{endpoint.port}", {"GPUQ_TOKEN": TOKEN}, away_s=0.0)

    async with opened_top(connect, width, height) as screen:
        await screen.until("51 ")
        yield screen


async def test_devices_are_shown_against_forecasts_and_the_queue_with_reasons(endpoint: Endpoint) -> None:
    async with opened(endpoint) as screen:
        lines = (
            await screen.until("PredictedLoad", "4 devices, 60% busy", "84/94%", "/141G", "42 resnet50-image")
        ).splitlines()
    assert "4 devices, 60% busy; 5 running, 5 waiting" in lines[0]
    assert "84/94%" in lines[2], "its load, and the peaks that are forecast"
    assert "/141G" in lines[2]
    assert "42 resnet50-image" in lines[2]
    ids = [line.split()[0].lstrip(">") or line.split()[1] for line in lines[6:] if "PD" in line.split()]
    assert [int(one) if one else 51 for one in ids] == [51, 49, 50, 53], "in the order of their start"
    assert max(map(len, lines)) <= 80


async def test_a_job_is_explained_held_released_and_cancelled_after_a_question(endpoint: Endpoint) -> None:
    states = endpoint.store.job_rows
    async with opened(endpoint) as screen:
        await screen.press("e")
        await screen.until("sum")
        await screen.press("escape")
        await screen.until("NAME")
        await screen.press("h")
        await screen.until("Job 51 is held.")
        await screen.until(
            lambda text: "> 51" in text and " H " in next(line for line in text.splitlines() if "> 51" in line)
        )
        await screen.press("h")
        await screen.until("Job 51 is released.")
        await screen.press("c")
        await screen.until("Cancel job 51 (vit-large)?")
        await screen.press("n")
        await screen.until("Enter open")
        assert states[JobId(51)].state is JobState.PENDING
        await screen.press("c", "y")
        await screen.until("Job 51 is cancelled.")
    assert states[JobId(51)].state is JobState.CANCELLED


async def test_words_leave_what_contains_them_and_escape_brings_all_back(endpoint: Endpoint) -> None:
    async with opened(endpoint) as screen:
        await screen.press("slash", *"whisper")
        await screen.until(lambda text: "whisper" in text and "sd-xl" not in text and "gan-celeba" not in text)
        await screen.press("escape")
        await screen.until(lambda text: "sd-xl" in text and "gan-celeba" in text)


async def test_a_device_says_what_its_jobs_lose(endpoint: Endpoint) -> None:
    async with opened(endpoint) as screen:
        await screen.press("tab", "home", "enter")
        await screen.until(
            "UTIL/FORECAST  MEM/FORECAST", "promised, of 141 GiB", "/25.3G"
        )  # the most that is forecast of job 43
        await screen.press("escape")
        await screen.until("Enter open")


async def test_a_log_goes_on_and_steers_no_terminal(endpoint: Endpoint) -> None:
    write_log(endpoint, "".join(f"step {number}\n" for number in range(100)))
    async with opened(endpoint) as screen:
        await screen.press("slash", *"resnet50", "enter", "l")
        await screen.until("step 99")
        write_log(endpoint, f"{ESCAPES}\nthe last line\n")
        text = await screen.until("the last line", "<img src=x")
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


async def test_hostile_names_are_shown_and_do_nothing(endpoint: Endpoint) -> None:
    of = record(time.time(), name=HOSTILE, command=[ESCAPES, ESCAPES], project=HOSTILE)
    endpoint.store.job_rows[JobId(2)] = row(2, of, JobState.HELD, reason=ESCAPES)
    async with opened(endpoint) as screen:
        text = await screen.until("u202e")
        await screen.press("slash", *"img", "enter", "enter")
        text += await screen.until("job 2 ")
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


async def test_ten_thousand_waiting_jobs_and_a_narrow_terminal(endpoint: Endpoint) -> None:
    for job in range(1000, 11_000):
        endpoint.store.job_rows[JobId(job)] = row(job, record(time.time(), name=f"sweep-{job}"), JobState.PENDING)
    async with opened(endpoint, width=50, height=14) as screen:
        text = await screen.until("NAME")
        assert max(map(len, text.splitlines())) <= 50
        await screen.press("end")
        await screen.until(">")


async def test_what_is_old_says_so_and_is_renewed_after_a_restart(endpoint: Endpoint) -> None:
    async with opened(endpoint) as screen:
        endpoint.store.refuse = RuntimeError("the database is gone")
        await screen.until("gpuq does not answer; what you see is from ")
        assert "vit-large" in screen.text
        endpoint.store.refuse = None
        await screen.until("devices, ")


@pytest.mark.parametrize(
    ("options", "env", "coloured"), [((), {}, True), (("--no-color",), {}, False), ((), {"NO_COLOR": "1"}, False)]
)
async def test_it_has_no_colours_where_none_are_wanted(
    endpoint: Endpoint, gpuq: Command, options: tuple[str, ...], env: dict[str, str], coloured: bool
) -> None:
    afternoon(endpoint.store, endpoint.stream)
    of_gpuq = {name: value for name, value in gpuq.env.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    address = {"GPUQ_TOKEN": TOKEN, "GPUQ_HOST": f"http://127.0.0.1:{endpoint.port}"}
    shown = await asyncio.to_thread(drawn, gpuq, options, {**of_gpuq, **address, "TERM": "xterm-256color", **env})
    assert b"PredictedLoad" in shown
    assert bool(re.search(rb"\033\[(?:[0-9]+;)*(?:[349][0-7]|10[0-7]|[34]8;[0-9;]+)(?:;[0-9]+)*m", shown)) is coloured


def drawn(gpuq: Command, options: tuple[str, ...], env: dict[str, str]) -> bytes:
    """What is written to a terminal of 80 columns until the queue is there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = gpuq.start("top", *options, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + 60
    while b"PredictedLoad" not in shown and time.monotonic() < deadline:
        if select.select([ours], [], [], 1)[0]:
            shown += os.read(ours, 65536)
    process.kill()
    process.wait()
    os.close(ours)
    return shown


@pytest.mark.parametrize("env", [{}, {"TERM": "dumb"}])
def test_without_a_terminal_it_says_what_to_use_instead(gpuq: Command, env: dict[str, str]) -> None:
    done = gpuq("top", **env)
    assert (done.code, done.out) == (2, "")
    assert "needs a terminal" in done.err
    assert "`gpuq queue` print the same once" in done.err
