"""The timeline in Chromium, without a GPU: scripting, style and layout of each frame while it is dragged, and its first view.

With 64 devices for 24 hours of the recorded week of `pages`, and with 1,000 devices of 125 hosts.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from benchmarks.pages import ATTEMPTS, TOKEN, fill, served
from benchmarks.table import Row

FRAMES = 120
_OF_A_FRAME = frozenset(
    {"FunctionCall", "EventDispatch", "FireAnimationFrame", "UpdateLayoutTree", "Layout", "PrePaint"}
)
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
        rows.append(Row(f"drag {name}, p95 of {len(frames)} frames", quantiles(frames, n=20)[-1], "ms", reach))
        rows.append(Row(f"  first view of it after the first byte, of {len(first)}", median(first), "ms", 300.0))
    return rows


async def _measure(folder: Path) -> tuple[list[float], list[float]]:
    async with served(folder) as address:
        return await asyncio.to_thread(_drag, address)


def _drag(address: str) -> tuple[list[float], list[float]]:
    options = ChromeOptions()
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,900",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    options.add_experimental_option("perfLoggingPrefs", {"traceCategories": "devtools.timeline"})
    driver = Chrome(options=options, service=ChromeService("/usr/bin/chromedriver"))
    try:
        driver.get(f"{address}/?token={TOKEN}")
        deadline = time.monotonic() + _READY_WITHIN_S
        while not driver.find_elements("css selector", ".pan") and time.monotonic() < deadline:
            time.sleep(1)
            driver.get(f"{address}/timeline?hours=24")
        first = []
        for _ in range(5):
            driver.get(f"{address}/timeline?hours=24")
            time.sleep(0.5)
            first.append(driver.execute_script(_FIRST_VIEW))
        driver.get_log("performance")  # type: ignore[no-untyped-call]
        box = driver.execute_script(
            "const b = document.querySelector('.window').getBoundingClientRect(); return [b.x, b.y, b.width]"
        )
        x, y = box[0] + box[2] / 2, box[1] + 60
        _mouse(driver, "mousePressed", x, y)
        for number in range(FRAMES):
            _mouse(driver, "mouseMoved", x + 2 * number, y)
            time.sleep(1 / 60)
        entries = driver.get_log("performance")  # type: ignore[no-untyped-call]
        _mouse(driver, "mouseReleased", x + 2 * FRAMES, y)
    finally:
        driver.quit()
    return list(_frames(entries)), [value for value in first if value is not None]


def _mouse(driver: Chrome, kind: str, x: float, y: float) -> None:
    found = {"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
    driver.execute_cdp_cmd("Input.dispatchMouseEvent", found)


def _frames(entries: list[Any]) -> Iterator[float]:
    """Milliseconds of scripting, style and layout between the starts of two frames, of the frames that have any."""
    spent: list[tuple[float, str, float]] = []
    for entry in entries:
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Tracing.dataCollected":
            event = message["params"]
            spent.append((event["ts"], event["name"], event.get("dur", 0) / 1000))
    spent.sort()
    total, end = 0.0, 0.0
    for at, name, took in spent:
        if name in ("BeginFrame", "BeginMainThreadFrame"):
            if total:
                yield total
            total = 0.0
        elif name in _OF_A_FRAME and at >= end:
            # An event within another one is counted with that.
            total += took
            end = at + 1000 * took


if __name__ == "__main__":
    from benchmarks.table import lines

    print("\n".join(lines(run())))
