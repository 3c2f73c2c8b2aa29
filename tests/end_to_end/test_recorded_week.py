"""Every view and action of the web application on a recorded week of 100,000 attempts, in a real browser: `make soak`.

The API and the dispatcher's loop are real, and so is the record. Redis and the host are in memory: eight devices of the week, on
which the first of the 300 waiting jobs run.
"""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from benchmarks.pages import TOKEN, fill, served
from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import MarkKind
from gpuq.core.state.device import Vitals
from gpuq.core.state.job import JobId, JobState
from tests.daemon.harness import Harness
from tests.support.browser import Browser, browser, chromium
from tests.support.world import World

__all__ = ["browser", "chromium"]

ATTEMPTS = int(os.environ.get("GPUQ_TEST_ATTEMPTS", "100000"))
HOST = "node0"


class RecordedWeek(Harness):
    """A dispatcher on this record, by the real clock, with one host that does what it orders."""

    # The API answers on the same event loop meanwhile: reading the history of 100,000 attempts takes longer than a page may.
    run_blocking = staticmethod(asyncio.to_thread)

    def start(self) -> None:
        self.now = time.time()
        super().start()

    async def run(self, world: World, ready: asyncio.Event) -> None:
        """Turn the dispatcher until cancelled."""
        while True:
            self.now = time.time()
            await self.live(world, turns=1, seconds=0.0)
            ready.set()
            await asyncio.sleep(0.2)


@asynccontextmanager
async def recorded_week(folder: Path) -> AsyncIterator[tuple[str, Store]]:
    """The address of the API, and the record."""
    path = folder / "gpuq.db"
    await asyncio.to_thread(fill, path, ATTEMPTS, time.time())
    store = open_store(f"sqlite:///{path}")
    week = RecordedWeek(folder, store)
    devices = [device for device in store.devices() if device.host == HOST]
    world = World(store, *devices, host=HOST, clock=time.time)
    world.vitals = {device.id: Vitals(throttling=("power_cap",), xids=()) for device in devices[:2]}
    ready = asyncio.Event()
    running = asyncio.create_task(week.run(world, ready))
    try:
        await asyncio.wait_for(ready.wait(), 300)
        world.vitals[devices[1].id] = Vitals(throttling=(), xids=((79, 1),))
        async with served(folder, week.stream) as address:
            yield address, store
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.mark.soak
async def test_every_view_and_action_works_on_a_recorded_week(browser: Browser, tmp_path: Path) -> None:
    async with recorded_week(tmp_path) as (address, store):
        await asyncio.to_thread(sign_in, browser, address)
        failed: list[str] = []
        for work in (views, timeline, queue, waiting_job, ended_job, pairs, submit, administration, phone):
            print(work.__name__, flush=True)  # it takes minutes; `pytest -s` shows where it is
            try:
                await asyncio.to_thread(work, browser, address, store)
            except Exception as error:  # noqa: BLE001 - the rest is tried all the same; all of them are in the report
                where = f"{work.__name__} at {browser.driver.current_url}: {browser.text('#toast')}"
                failed.append(f"{where}\n{''.join(traceback.format_exception(error, limit=-4))[:2000]}")
                print(failed[-1], flush=True)
        assert not failed, "\n".join(failed)


def sign_in(browser: Browser, address: str) -> None:
    browser.open(f"{address}/?token={TOKEN}")
    browser.wait(lambda: browser.driver.current_url == f"{address}/")


def opened(browser: Browser, address: str, path: str, words: str = "") -> None:
    """Open a page, and wait until it shows these words: figures of the whole record are made beside the first answer."""
    browser.open(f"{address}{path}")
    browser.find("html.scripts #frame")
    browser.wait_for_text(words, "main")


def waiting(store: Store) -> list[JobId]:
    return [row.id for row in store.jobs(states=[JobState.PENDING], limit=40)]


def views(browser: Browser, address: str, store: Store) -> None:
    """Each is shown, nothing in it is refused by the browser, and axe-core finds nothing wrong with it."""
    looks = {
        "/": "gpu0",
        "/queue": "Waiting for",
        "/queue?show=running": "Running",
        "/queue?show=ended": "Ran for",
        "/queue?show=ended&name=bert": "bert-large",
        "/queue?sort=owner&owner=ada": "ada",
        "/timeline?hours=0.02": "gpu0",
        "/timeline?hours=24": "The latest",
        "/timeline?hours=168": "The latest",
        "/timeline?hours=720": "The latest",
        "/week": "Saved by sharing",
        "/pairs": "slowed \\ by",
        "/model": "Promised against used",
        "/administration": HOST,
        f"/jobs/{ATTEMPTS // 2}": "Forecast",
        f"/jobs/{waiting(store)[0]}": "Why it waits",
        f"/submit?like={waiting(store)[0]}": "Command",
    }
    for path, words in looks.items():
        opened(browser, address, path, words)
        assert browser.violations() == [], path
        assert browser.complaints() == [], path


def timeline(browser: Browser, address: str, store: Store) -> None:
    seen = store.device_marks(since=0.0, until=9e9)
    assert {MarkKind.LOWERED_CLOCKS, MarkKind.XID, MarkKind.BLINK} == {mark.kind for mark in seen}
    opened(browser, address, "/timeline?hours=24", "The latest")
    assert browser.find(".lane g[aria-label^='X: XID 79']").find_element("css selector", "title")
    end = float(str(browser.find(".pan").get_attribute("data-end")))
    window = browser.find(".window")
    browser.actions().move_to_element_with_offset(window, 0, 0).click_and_hold().move_by_offset(
        90, 0
    ).release().perform()
    browser.wait(lambda: float(str(browser.find(".pan").get_attribute("data-end"))) < end - 3600)
    browser.find(".window").send_keys("+")
    browser.wait(lambda: browser.find(".pan").get_attribute("data-hours") == "12.0")
    browser.find("[name=device]").send_keys("node3", Keys.ENTER)
    browser.wait(lambda: len(browser.all(".names .device-name")) == 8)


def queue(browser: Browser, address: str, store: Store) -> None:
    """Hold and undo; choose and hold in bulk; let one go next, with its preview and undo; cancel; the next page.

    Jobs that are held have no place: they come after the 300 that wait, so a name finds them."""
    first, second, third, *_ = waiting(store)

    def state(job: JobId) -> JobState | None:
        row = store.job(job)
        return row.state if row else None

    opened(browser, address, "/queue", "Waiting for")
    browser.press(f"button[data-verb=hold][data-job='{first}']")
    browser.wait(lambda: state(first) is JobState.HELD)
    browser.press("#toast button")
    browser.wait(lambda: state(first) is not JobState.HELD)

    for job in (second, third):
        browser.press(f"#job-{job} .choose")
    browser.press("button[data-verb=hold][data-bulk]")
    browser.wait_for_text("Held 2 jobs.", "#toast")
    browser.wait(lambda: {state(second), state(third)} == {JobState.HELD})
    browser.press("#toast button")
    browser.wait_for_text("Undone: Released 2 jobs.", "#toast")
    browser.press(f"button[data-verb=hold][data-job='{second}']")
    browser.wait(lambda: state(second) is JobState.HELD)
    opened(browser, address, f"/queue?name=*-{second}", "Held")
    browser.wait_for_text("HELD", f"#job-{second}")
    browser.press(f"button[data-verb=release][data-job='{second}']")
    browser.wait(lambda: state(second) is not JobState.HELD)
    opened(browser, address, "/queue", "Waiting for")

    last = waiting(store)[-1]
    browser.press(f"#job-{last} .next")
    browser.wait_for_text(f"Give job {last} priority 1?", "dialog")
    browser.press("dialog button[value=yes]")
    browser.wait_for_text(f"Job {last} has priority 1.", "#toast")
    assert store.jobs(ids=[last])[0].record.submission.priority == 1
    browser.press("#toast button")
    browser.wait_for_text(f"Undone: job {last}.", "#toast")

    browser.press(f"button[data-verb=cancel][data-job='{last}']")
    browser.press("dialog button[value=yes]")
    browser.wait(lambda: state(last) is JobState.CANCELLED)
    browser.press("nav.pages a[rel=next]")
    browser.wait_for_text("101 to 200", "nav.pages")
    assert browser.complaints() == []


def waiting_job(browser: Browser, address: str, store: Store) -> None:
    job = waiting(store)[0]
    opened(browser, address, f"/jobs/{job}?share=never&max_slowdown=50#what-if", "Why it waits")
    browser.find(".rules [aria-current=step]")
    browser.wait_for_text("With this", "#what-if")
    browser.press("[data-verb=hold]")
    browser.wait_for_text("HELD", ".title")
    browser.press("[data-verb=release]")
    browser.wait(lambda: "HELD" not in browser.text(".title"))


def ended_job(browser: Browser, address: str, store: Store) -> None:
    lately = store.attempts(*[JobId(job) for job in range(ATTEMPTS - 50, ATTEMPTS)])
    job = next(one.job for one in lately if one.actual and one.actual.partners)
    opened(browser, address, f"/jobs/{job}", "Forecast")
    for words in ("Partners", "Attempts", "gpuq submit"):
        assert words in browser.text("main"), words


def pairs(browser: Browser, address: str, store: Store) -> None:
    """From the matrix to the runs that a cell rests on, and to one of them."""
    opened(browser, address, "/pairs?kind=resnet50", "resnet50")
    browser.press("td a[href*='slowed=']")
    browser.wait(lambda: "slowed=" in browser.driver.current_url and browser.all("tbody a[href^='/jobs/']"))
    browser.press("tbody a[href^='/jobs/']")
    browser.wait_for_text("Forecast", "main")


def submit(browser: Browser, address: str, store: Store) -> None:
    before = max(row.id for row in store.jobs(newest_first=True, limit=1))
    opened(browser, address, f"/submit?like={waiting(store)[0]}", "Command")
    browser.find("form[data-post='/api/v1/jobs'] input[type=password]").send_keys(TOKEN, Keys.ENTER)
    browser.wait(lambda: browser.driver.current_url == f"{address}/jobs/{before + 1}")


def administration(browser: Browser, address: str, store: Store) -> None:
    opened(browser, address, "/administration", HOST)
    browser.press("details:has(form[data-post='/api/v1/quotas']) summary")
    browser.find("form[data-post='/api/v1/quotas'] [name=name]").send_keys("ada")
    browser.find("form[data-post='/api/v1/quotas'] [name=running_devices]").send_keys("4", Keys.ENTER)
    browser.wait_for_text("The quota is set.", "#toast")
    browser.wait(lambda: [quota.account[1] for quota in store.quotas()] == ["ada"])
    browser.find(f"#host-{HOST} [name=why]").send_keys("a new disk", Keys.ENTER)
    browser.wait_for_text("drained", f"#host-{HOST}")
    browser.press(f"#host-{HOST} form[data-post$=resume] button")
    browser.wait(lambda: not store.drained())


def phone(browser: Browser, address: str, store: Store) -> None:
    """On a phone nothing is wider than the screen."""
    browser.size(390, 844)
    for path in ("/", "/queue", "/timeline?hours=168", "/week", "/pairs", "/model", f"/jobs/{ATTEMPTS // 2}"):
        opened(browser, address, path)
        wide = browser.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, path
