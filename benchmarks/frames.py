"""The timeline in Chromium, without a GPU: scripting, style and layout of each frame while it is dragged, and its first view.

With 64 devices for 24 hours of the recorded week of `pages`, and with 1,000 devices of 125 hosts.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from benchmarks.pages import ATTEMPTS, TOKEN, fill, served
from benchmarks.table import Row

FRAMES = 120
_VISITS = 5
_CATEGORIES = ["devtools.timeline", "devtools.timeline.frame", "disabled-by-default-devtools.timeline"]
_OF_A_FRAME = frozenset(
    {"FunctionCall", "EventDispatch", "FireAnimationFrame", "UpdateLayoutTree", "Layout", "PrePaint"}
)
_PAINTS = frozenset({"Paint", "Layerize", "Commit"})
"""What the page's thread does beside: no script and no layout. What other threads do with it afterwards is in neither."""
_READY_WITHIN_S = 120
_FIRST_VIEW = """
const [page] = performance.getEntriesByType("navigation");
const paint = performance.getEntriesByName("first-contentful-paint")[0];
return paint ? paint.startTime - page.responseStart : null;
"""


def run() -> list[Row]:
    """Milliseconds at the 95th percentile of frames, and until something is seen after the first byte."""
    rows = []
    for name, hosts, reach in (("64 devices × 24 h", 8, 8.0), ("1,000 devices", 125, 25.0)):
        with tempfile.TemporaryDirectory(prefix="gpuq-frames-") as folder:
            fill(Path(folder) / "gpuq.db", ATTEMPTS, time.time(), hosts=hosts)
            frames, first = asyncio.run(_measure(Path(folder)))
        worked, painted = zip(*frames, strict=True)
        rows.append(Row(f"drag {name}, scripting and layout, p95 of {len(frames)} frames", _p95(worked), "ms", reach))
        rows.append(Row("  painting by the page's thread besides, p95", _p95(painted), "ms"))
        rows.append(Row(f"  first view of it after the first byte, of {len(first)}", median(first), "ms", 300.0))
    return rows


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]


async def _measure(folder: Path) -> tuple[list[tuple[float, float]], list[float]]:
    async with served(folder) as address:
        driver = await asyncio.to_thread(_chromium)
        try:
            first = await asyncio.to_thread(_first_views, driver, address)
            return list(_frames(await _traced(driver, _drag))), first
        finally:
            await asyncio.to_thread(driver.quit)


def _chromium() -> Chrome:
    options = ChromeOptions()
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,900",
    ):
        options.add_argument(word)
    return Chrome(options=options, service=ChromeService("/usr/bin/chromedriver"))


def _first_views(driver: Chrome, address: str) -> list[float]:
    """Milliseconds from the first byte to the first thing that is seen, of some visits; the timeline stays open."""
    driver.get(f"{address}/?token={TOKEN}")
    deadline = time.monotonic() + _READY_WITHIN_S
    while not driver.find_elements("css selector", ".pan") and time.monotonic() < deadline:
        time.sleep(1)
        driver.get(f"{address}/timeline?hours=24")
    found = []
    for _ in range(_VISITS):
        driver.get(f"{address}/timeline?hours=24")
        time.sleep(0.5)
        found.append(driver.execute_script(_FIRST_VIEW))
    return [value for value in found if value is not None]


def _drag(driver: Chrome) -> None:
    """Drag the timeline, a frame's time between two moves."""
    box = driver.execute_script(
        "const b = document.querySelector('.window').getBoundingClientRect(); return [b.x, b.y, b.width]"
    )
    x, y = box[0] + box[2] / 2, box[1] + 60
    _mouse(driver, "mousePressed", x, y)
    for number in range(FRAMES):
        _mouse(driver, "mouseMoved", x + 2 * number, y)
        time.sleep(1 / 60)
    _mouse(driver, "mouseReleased", x + 2 * FRAMES, y)


async def _traced(driver: Chrome, act: Callable[[Chrome], None]) -> list[dict[str, Any]]:
    """What the browser did meanwhile, by its own trace. The driver's performance log has none of it in this Chromium."""
    debugger = driver.capabilities["goog:chromeOptions"]["debuggerAddress"]
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://{debugger}/json/version") as answer:
            url = (await answer.json(content_type=None))["webSocketDebuggerUrl"]
        async with session.ws_connect(url, max_msg_size=0) as browser:
            recorded = {"traceConfig": {"includedCategories": _CATEGORIES}, "transferMode": "ReportEvents"}
            await browser.send_json({"id": 1, "method": "Tracing.start", "params": recorded})
            await browser.receive_json()
            await asyncio.to_thread(act, driver)
            await browser.send_json({"id": 2, "method": "Tracing.end"})
            events: list[dict[str, Any]] = []
            while (message := await browser.receive_json()).get("method") != "Tracing.tracingComplete":
                events += message["params"]["value"] if message.get("method") == "Tracing.dataCollected" else []
            return events


def _mouse(driver: Chrome, kind: str, x: float, y: float) -> None:
    found = {"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
    driver.execute_cdp_cmd("Input.dispatchMouseEvent", found)


def _frames(events: list[dict[str, Any]]) -> Iterator[tuple[float, float]]:
    """Milliseconds of processor time of the page's thread for each frame in which it was dragged: scripting, style and layout;
    and painting."""
    (thread, _), *_ = Counter(
        (event["pid"], event["tid"]) for event in events if event["name"] == "FireAnimationFrame"
    ).most_common(1)
    worked, painted, end, animated = 0.0, 0.0, 0.0, False
    for event in sorted(events, key=lambda event: float(event["ts"])):
        if (event["pid"], event["tid"]) != thread:
            continue
        if event["name"] in _OF_A_FRAME | _PAINTS and event["ts"] >= end:
            # An event within another one is counted with that.
            taken = event.get("tdur", event.get("dur", 0)) / 1000
            if event["name"] in _PAINTS:
                painted += taken
            else:
                worked += taken
            animated = animated or event["name"] == "FireAnimationFrame"
            end = event["ts"] + event.get("dur", 0)
        if event["name"] == "Commit":
            if animated:
                yield worked, painted
            worked, painted, animated = 0.0, 0.0, False


if __name__ == "__main__":
    from benchmarks.table import lines

    print("\n".join(lines(run())))
