"""A real browser: Debian's Chromium, driven by Selenium, without a screen. Tests that need it skip where there is none.

Selenium is imported when a browser is used: every process of the suite collects these tests, and it takes half a second.
"""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import axe_core_python
import pytest

if TYPE_CHECKING:
    from selenium.webdriver import ActionChains, Chrome
    from selenium.webdriver.remote.webelement import WebElement

AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
PATIENCE_S = 60


class Browser:
    """One window. `complaints` are the browser's own: what the content policy refused, and errors of scripts."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        self.driver.get(address)

    def find(self, selector: str) -> WebElement:
        return self.wait(lambda: self.driver.find_element("css selector", selector))

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def text(self, selector: str = "body") -> str:
        return str(self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def press(self, selector: str) -> None:
        self.find(selector)
        self.driver.execute_script("document.querySelector(arguments[0]).click()", selector)

    def actions(self) -> ActionChains:
        """Movements of the mouse."""
        from selenium.webdriver import ActionChains

        return ActionChains(self.driver)

    def wait(self, condition: Callable[[], Any]) -> Any:
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, PATIENCE_S, 0.05, (WebDriverException,)).until(lambda _: condition())

    def wait_for_text(self, words: str, selector: str = "body") -> None:
        self.wait(lambda: words in self.text(selector))

    def violations(self) -> list[str]:
        """What axe-core finds wrong with the page as it is now."""
        self.driver.execute_script(AXE.read_text(encoding="utf-8"))
        # On a page of thousands of bars it takes a minute to describe all that passed.
        run = "axe.run({resultTypes: ['violations']})"
        script = f"const done = arguments[0]; {run}.then((found) => done(JSON.stringify(found.violations)));"
        found = json.loads(self.driver.execute_async_script(script))
        return [f"{one['id']}: {node['html'][:200]} {node['failureSummary']}" for one in found for node in one["nodes"]]

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def shade(self, name: str) -> None:
        """Prefer `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def picture(self, *, whole: bool = False) -> bytes:
        """What the window shows, or the whole page, as PNG."""
        self.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        wanted: dict[str, Any] = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
            wanted["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        return b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", wanted)["data"])


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chrome]:
    with started_chromium() as running:
        yield running


@contextmanager
def started_chromium() -> Iterator[Chrome]:
    """Skips the test where there is no Chromium."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no `chromium` with `chromedriver`; Debian's packages are chromium and chromium-driver")
    options = ChromeOptions()
    options.binary_location = program
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = Chrome(options=options, service=ChromeService(driver))
    running.set_script_timeout(PATIENCE_S)
    try:
        yield running
    finally:
        running.quit()


@pytest.fixture
def browser(chromium: Chrome) -> Iterator[Browser]:
    chromium.get("about:blank")
    chromium.get_log("browser")
    yield Browser(chromium)
    chromium.get("about:blank")
    for command in ("Emulation.clearDeviceMetricsOverride", "Network.clearBrowserCookies"):
        chromium.execute_cdp_cmd(command, {})
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
