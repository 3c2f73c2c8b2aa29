"""The web application of a real gpuq, in a real browser: what a button does to a job, and what a restart looks like."""

from __future__ import annotations

import json
import os
import signal

from tests.support.browser import Browser
from tests.support.site import Site


def sign_in(browser: Browser, site: Site, path: str = "/") -> None:
    url = json.loads((site.home / "run" / "http.json").read_text())["url"]
    browser.open(f"{url}?token={(site.home / 'token').read_text().strip()}")
    browser.wait(lambda: browser.driver.current_url == url)
    browser.open(f"{url}{path.removeprefix('/')}")
    browser.find("html.scripts #frame")


def test_jobs_are_held_released_and_cancelled_from_the_browser(browser: Browser) -> None:
    with Site() as site:
        # With a memory of their own they need no first run, which a machine with other programs would not give them.
        running = site.submit("sleep", "100", name="running", gpu_memory=2**28)
        site.wait(running, "RUNNING")
        waiting = site.submit("sleep", "100", name="waiting", gpu_memory=2**28, share="never")
        sign_in(browser, site, "/queue")
        browser.press(f"[data-verb=hold][data-job='{waiting}']")
        site.wait(waiting, "HELD", within_s=15)
        browser.wait_for_text("HELD", f"#job-{waiting}")
        browser.press("#toast button")
        site.wait(waiting, "PENDING", within_s=15)

        browser.press(f"#job-{waiting} a.jobname")
        browser.wait_for_text("Do all the jobs share?", "#why [aria-current=step]")
        assert f"#{running} running" in browser.text("#why table")
        browser.press(f"#why table a[href='/jobs/{running}']")
        browser.wait_for_text("RUNNING", ".title")

        (api,) = site.pids("api")
        os.kill(api, signal.SIGSTOP)
        browser.wait_for_text("gpuq does not answer; what you see is from", ".health")
        site.kill("api")
        browser.wait(lambda: browser.text(".health") == "live")

        browser.press("[data-verb=cancel]")
        browser.press("dialog button[value=yes]")
        browser.wait_for_text("CANCELLED", ".title")
        assert site.wait(running)["state"] == "CANCELLED"
        site.wait(waiting, "RUNNING", within_s=20)
