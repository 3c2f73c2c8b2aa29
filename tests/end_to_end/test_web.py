"""The web application of a real gpuq, in a real browser: what a button does to a job, and what a restart looks like."""

from __future__ import annotations

import json
import os
import signal

from selenium.webdriver.common.keys import Keys

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
        browser.wait_for_text(f"#{running} running", "#why table")
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
        site.request("POST", f"/api/v1/jobs/{waiting}/cancel")
        work_in_a_job(browser, site)


def work_in_a_job(browser: Browser, site: Site) -> None:
    """A shell in the browser: typed in, made smaller, left, gone back to, kept through a restart of the API, and ended."""
    shell = site.submit("bash", "--norc", interactive="terminal", gpu_memory=2**28, env={"PATH": os.environ["PATH"]})
    site.wait(shell, "RUNNING")
    sign_in(browser, site, f"/jobs/{shell}")
    browser.press(".title a.action")
    browser.find(".xterm-helper-textarea")
    browser.complaints()  # of the restart before

    def attach(token: str) -> None:
        browser.find("#attach input").send_keys(token, Keys.ENTER)

    def type_in(keys: str) -> None:
        browser.find(".xterm-helper-textarea").send_keys(keys, Keys.ENTER)

    attach("no-token-of-this-gpuq")
    browser.wait_for_text("The token is not this gpuq's", "#attached")
    attach((site.home / "token").read_text().strip())
    browser.wait_for_text("Attached.", "#attached")
    type_in("stty size; echo began-$((40 + 2))")
    browser.wait_for_text("began-42", ".xterm-rows")
    type_in(r"printf '\033]0;broken into\007\033[38;2;9;9;9m<img src=x>\n'; echo shown-$((1 + 1))")
    browser.wait_for_text("shown-2", ".xterm-rows")
    assert "<img src=x>" in browser.text(".xterm-rows")
    assert "broken into" not in browser.driver.title
    assert not browser.all(".xterm img")
    assert not browser.violations()
    assert [one for one in browser.complaints() if "/ticket " not in one] == [], "only the wrong token is refused"

    browser.size(500, 700)
    type_in('while [ "$(stty size | cut -d" " -f2)" -gt 70 ]; do sleep 0.1; done; echo narrow-$((1 + 1))')
    browser.wait_for_text("narrow-2", ".xterm-rows")

    browser.press("#detach")
    browser.wait_for_text("Detached. The job goes on.", "#attached")
    browser.open(browser.driver.current_url)
    attach((site.home / "token").read_text().strip())
    browser.wait_for_text("narrow-2", ".xterm-rows")
    (supervisor,) = site.pids("up")
    os.kill(supervisor, signal.SIGSTOP)  # so that it stays away until that is seen
    site.kill("api")
    browser.wait_for_text("Connecting again", "#attached")
    os.kill(supervisor, signal.SIGCONT)
    browser.wait_for_text("Attached.", "#attached")
    type_in("exit 7")
    browser.wait_for_text("The job has ended the connection.", "#attached")
    assert site.wait(shell)["exit_code"] == 7
