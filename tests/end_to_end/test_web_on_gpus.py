"""Every view and action of the web application, in a real browser on a real gpuq with eight emulated H100s: `make soak`.

Jobs share two of the GPUs, a gang has five, and an idle shell one; others wait. docs/web.md lists the views.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from gpuq.learn.serving.shelf import Shelf
from tests.end_to_end.test_gpus import XID_79, Machine
from tests.end_to_end.test_web import sign_in, work_in_a_job
from tests.learn.serving.test_shelf import publish
from tests.support.browser import Browser
from tests.support.mock_gpus import MockGpus
from tests.support.site import Site, wait_for

RESNET, BERT, LLAMA = (45, 18_000), (40, 24_000), (90, 60_000)
FIRST_S, LONG_S = 13, 1800
LOG_BYTES = 100 * 2**20
WRITER = """
import sys, time
for number in range({lines}):
    sys.stdout.write(f"step {{number:08}} loss {{1 / (number + 1):.6f}} " + "x" * 68 + "\\n")
sys.stdout.write("needle in the haystack\\n\\x1b]0;broken into\\x07<img src=x onerror=alert(1)>\\n")
sys.stdout.flush()
time.sleep(1800)
"""
LINE_BYTES = len("step 00000000 loss 0.000000 " + "x" * 68 + "\n")


@dataclass
class Story:
    """A gpuq with jobs in every state, and a browser that is signed in."""

    browser: Browser
    site: Site
    machine: Machine
    jobs: dict[str, int]

    @property
    def url(self) -> str:
        return str(self.browser.driver.execute_script("return location.origin"))

    def open(self, path: str, words: str = "") -> None:
        self.browser.open(f"{self.url}{path}")
        self.browser.find("html.scripts #frame")
        self.browser.wait_for_text(words, "main")

    def state(self, job: int) -> str:
        return str(self.site.job(job)["state"])

    def becomes(self, job: int, *states: str) -> None:
        self.browser.wait(lambda: self.state(job) in states)


@pytest.mark.soak
def test_every_view_and_action_works_on_emulated_gpus(browser: Browser) -> None:
    with MockGpus() as gpus:
        site = Site(
            interpreters=True,
            devices_backend="nvml",
            worker_sample_every_s=0.25,
            worker_log_limit_bytes=4 * LOG_BYTES,
            admission_risk=1,
        )
        site.env.update(gpus.environ)
        with site:
            machine = Machine(site, gpus)
            jobs = started(machine)
            sign_in(browser, site)
            story = Story(browser, site, machine, jobs)
            failed = [trouble for step in STEPS if (trouble := tried(step, story))]
            assert not failed, "\n".join(failed)


def tried(step: Callable[[Story], None], story: Story) -> str | None:
    """What went wrong in a step; the steps after it are tried all the same."""
    print(step.__name__, flush=True)  # the story takes minutes; `pytest -s` shows where it is
    try:
        step(story)
        complaints = story.browser.complaints()
        assert complaints == [], complaints
    except Exception as error:  # noqa: BLE001 - all of them are in the report
        where = f"{step.__name__} at {story.browser.driver.current_url}: {story.browser.text('#toast')}"
        trouble = f"{where}\n{''.join(traceback.format_exception(error, limit=-4))[:2000]}"
        print(trouble, flush=True)
        return trouble
    return None


def started(machine: Machine) -> dict[str, int]:
    """Jobs by what they are for."""
    site = machine.site
    first = machine.train("resnet50", RESNET, FIRST_S, name="resnet50-first")
    second = machine.train("bert-large", BERT, 3 * FIRST_S, name="bert-large-first")
    jobs = {"ended": first, "shell": site.submit("bash", "--norc", interactive="terminal", name="notebook")}
    for job in (first, second):
        assert site.wait(job, within_s=120)["state"] == "COMPLETED"
    writer = site.home / "writer.py"
    writer.write_text(WRITER.format(lines=LOG_BYTES // LINE_BYTES))
    jobs["rest"] = machine.train("pretrain", (30, 10_000), LONG_S, gpus=4, name="pretrain-4")
    jobs["talkative"] = site.submit("python3", str(writer), name="talkative", env={"PATH": "/usr/bin:/bin"})
    for name in ("rest", "talkative"):
        machine.where(jobs[name])
    for name, kind, needs in (
        ("resnet", "resnet50", RESNET),
        ("resnet-2", "resnet50", RESNET),
        ("bert", "bert-large", BERT),
        ("bert-2", "bert-large", BERT),
    ):
        jobs[name] = machine.train(kind, needs, LONG_S, name=name)
        machine.where(jobs[name])
    for number in range(5):
        jobs[f"waiting-{number}"] = machine.train("llama-lora", LLAMA, LONG_S, name=f"llama-{number}")
    jobs["array"] = site.submit("sleep", "1", name="sweep", array={"tasks": "0-19"}, share="never")
    wait_for(lambda: (site.job(jobs["resnet-2"]).get("live") or {}).get("slowdown"), 120)
    return jobs


def views(story: Story) -> None:
    """Each has its data; axe-core finds nothing wrong, in light and dark; it fits a phone, and text of twice the size."""
    jobs = story.jobs
    looks = {
        "/": "2 share",
        "/queue": "llama-0",
        "/queue?show=running": "resnet-2",
        "/queue?show=ended": "resnet50-first",
        f"/jobs/{jobs['resnet-2']}": "Partners",
        f"/jobs/{jobs['waiting-1']}": "Why it waits",
        f"/jobs/{jobs['waiting-1']}?share=auto&max_slowdown=50&gpus=1#what-if": "With this",
        f"/jobs/{jobs['ended']}": "Forecast and actual",
        f"/jobs/{jobs['shell']}/terminal": "Not attached.",
        f"/submit?like={jobs['resnet']}": "It rests on",
        "/timeline?hours=0.1": "gpu0",
        "/week": "Saved by sharing",
        "/pairs": "Pairs of kinds",
        "/model": "Prediction model",
        "/administration": "Tokens",
    }
    browser = story.browser
    wrong: dict[str, Any] = {}
    try:
        for shade, width in (("light", 1280), ("dark", 390)):
            browser.shade(shade)
            browser.size(width, 844)
            for path, words in looks.items():
                story.open(path, words)
                wide = browser.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
                if found := [*browser.violations(), *([f"{wide} pixels too wide"] if wide > 0 else [])]:
                    wrong[f"{path} in {shade}"] = found
        browser.size(1280, 844)
        browser.driver.execute_cdp_cmd("Page.setFontSizes", {"fontSizes": {"standard": 32, "fixed": 26}})
        for path, words in looks.items():
            story.open(path, words)
            wide = browser.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
            if wide > 0:
                wrong[f"{path} with text of twice the size"] = wide
    finally:
        browser.driver.execute_cdp_cmd("Page.setFontSizes", {"fontSizes": {"standard": 16, "fixed": 13}})
        browser.shade("light")
        browser.size(1280, 800)
    assert wrong == {}


def predicts_ends(story: Story) -> None:
    """Right of now, where a job is expected to end: half of those like it, and nine in ten."""
    story.open("/timeline?hours=0.1", "gpu0")
    story.browser.find(".pan rect.fade")


def sharing_is_shown_in_words(story: Story) -> None:
    """The slowdown of a job is a number on the first page, its own page and the timeline; colour is beside it."""
    story.open("/", "2 share")
    story.browser.wait_for_text("slowdown +3%", "#devices")
    story.open(f"/jobs/{story.jobs['resnet-2']}", "Slowdown")
    story.browser.wait_for_text("+3%", "#facts")
    story.open("/timeline?hours=0.1", "gpu0")
    story.browser.wait_for_text("+3%", ".pan")


def filters_and_sorts(story: Story) -> None:
    """By name, owner and state; sorted by name; an array is one line that leads to its tasks."""
    browser = story.browser
    story.open("/queue", "llama-0")
    browser.find("[name=name]").send_keys("llama-3", Keys.ENTER)
    browser.wait_for_text("1 job", "#found")
    story.open("/queue?sort=name", "sweep")
    names = [one.text for one in browser.all("a.jobname")]
    assert names == sorted(names)
    story.open("/queue?owner=no-such-user", "There is no such job.")
    story.open("/queue", "array of 20")
    browser.press(f"#job-{story.jobs['array']} a.jobname")
    browser.wait_for_text(f"The tasks of array {story.jobs['array']}", "main")
    browser.wait_for_text("20 jobs", "#found")


def holds_releases_and_undoes(story: Story) -> None:
    """One job, several that are chosen, and an array."""
    browser, one, two = story.browser, story.jobs["waiting-0"], story.jobs["waiting-1"]
    story.open("/queue", "llama-0")
    browser.press(f"button[data-verb=hold][data-job='{one}']")
    browser.wait_for_text(f"Held job {one}.", "#toast")
    story.becomes(one, "HELD")
    browser.press("#toast button")
    story.becomes(one, "PENDING")
    browser.wait(lambda: "HELD" not in browser.text(f"#job-{one}"))
    for job in (one, two):
        browser.press(f"#job-{job} .choose")
    browser.press("[data-bulk][data-verb=hold]")
    browser.wait_for_text("Held 2 jobs.", "#toast")
    for job in (one, two):
        story.becomes(job, "HELD")
    browser.wait_for_text("HELD", f"#job-{two}")
    browser.press("[data-bulk][data-verb=release]")
    for job in (one, two):
        story.becomes(job, "PENDING")
    array = story.jobs["array"]
    browser.press(f"button[data-verb=hold][data-job='{array}']")
    browser.wait_for_text("Held 20 jobs.", "#toast")
    story.becomes(array, "HELD")
    browser.press("#toast button")
    story.becomes(array, "PENDING")


def lets_a_job_go_next(story: Story) -> None:
    """With the mouse, by dragging, and with the keys; each asks with the starts that change, and is undone."""
    browser, job = story.browser, story.jobs["waiting-3"]

    def priority() -> int:
        return int(story.site.job(job)["priority"])

    def agreed_and_undone() -> None:
        browser.wait_for_text(f"Give job {job} priority 1?", "dialog")
        browser.wait_for_text("xpected start", "dialog")
        assert priority() == 0
        browser.press("dialog button[value=yes]")
        browser.wait(lambda: priority() == 1)
        browser.press("#toast button")
        browser.wait(lambda: priority() == 0)

    story.open("/queue", "llama-3")
    browser.press(f"#job-{job} .next")
    agreed_and_undone()
    story.open("/queue", "llama-3")
    first, handle = browser.find("tr[data-priority] .move"), browser.find(f"#job-{job} .move")
    browser.actions().click_and_hold(handle).move_to_element(first).release().perform()
    agreed_and_undone()
    story.open("/queue", "llama-3")
    browser.driver.execute_script(f"document.querySelector('#job-{job} .move').focus()")
    place = next(n for n, row in enumerate(browser.all("tr[id]")) if row.get_attribute("id") == f"job-{job}")
    for key in (*[Keys.ARROW_UP] * place, Keys.ENTER):
        browser.driver.switch_to.active_element.send_keys(key)
    agreed_and_undone()


def says_why_it_waits_and_what_if(story: Story) -> None:
    """The rule that decided, who holds the devices, and what another request would change."""
    browser, job = story.browser, story.jobs["waiting-2"]
    story.open("/", "Next in the queue")
    browser.press(f"#queue a[href='/jobs/{job}']")
    browser.find(".rules [aria-current=step]")
    browser.wait_for_text("#", "#why table")
    story.open(f"/jobs/{job}", "What if")
    for name, value in (("share", "never"), ("max_slowdown", "50.0"), ("type", "NVIDIA H100 80GB HBM3")):
        script = "document.querySelector(`#what-if [name=${arguments[0]}]`).value = arguments[1]"
        browser.driver.execute_script(script, name, value)
    browser.press("#what-if button")
    browser.wait_for_text("With this", "#what-if")
    browser.wait_for_text("--gpu-type", "#what-if pre")


def runs_and_ends(story: Story) -> None:
    """Of a job that runs: charts with forecast, limit and partner. Of one that ended: energy, partners, the command again."""
    browser, jobs = story.browser, story.jobs
    story.open(f"/jobs/{jobs['resnet-2']}", "What it used")
    (partner,) = story.site.job(jobs["resnet-2"])["partners"]
    browser.wait_for_text(f"memory of #{partner}", "#charts")
    for words in ("limit: the memory it was promised", "forecast:", "shared with a partner", "alone:"):
        assert words in browser.text("#charts"), words
    story.open(f"/jobs/{jobs['ended']}", "Forecast and actual")
    for words in ("Peak memory", "Energy"):
        assert words in browser.text("#compared"), words
    assert "gpuq submit" in browser.text("#reproduce")
    browser.press("#reproduce a")
    browser.wait_for_text("It rests on", "#forecast")


def searches_a_log_of_100_mb(story: Story) -> None:
    """The end is shown, it goes on, a search reads all of it, and escape codes and markup in it do nothing."""
    browser, site = story.browser, story.site
    job = story.jobs["talkative"]
    log = site.home / "attempts" / f"{job}-1" / "output.log"
    wait_for(lambda: log.exists() and log.stat().st_size > LOG_BYTES * 0.99, 120)
    story.open(f"/jobs/{job}", "Log")
    browser.wait_for_text("needle in the haystack", "#log pre")
    assert not browser.all("main img")
    assert "broken into" not in browser.driver.title
    browser.find("#log [name=words]").send_keys("step 00000077 ", Keys.ENTER)
    browser.wait(lambda: f"1 of {LOG_BYTES // LINE_BYTES + 2:,} lines" in browser.text("#log [role=status]"))
    browser.wait_for_text("step 00000077 loss", "#log .hits")
    with log.open("a") as file:
        file.write("said after the search\n")
    browser.wait_for_text("said after the search", "#log pre")
    browser.press("[data-verb=cancel]")
    browser.press("dialog button[value='']")
    assert story.state(job) == "RUNNING"
    browser.press("[data-verb=cancel]")
    browser.press("dialog button[value=yes]")
    story.becomes(job, "CANCELLED")


def moves_the_timeline(story: Story) -> None:
    """From a minute to a month; dragged, zoomed with the keys, searched."""
    browser = story.browser
    for word in ("minute", "hour", "6 hours", "day", "week", "month"):
        story.open("/timeline", "gpu0")
        link = next(one for one in browser.all("nav[aria-label=Zoom] a") if one.text == word)
        link.click()
        browser.wait_for_text("gpu0", "main")
    story.open("/timeline?hours=1", "gpu0")
    end = float(str(browser.find(".pan").get_attribute("data-end")))
    window = browser.find(".window")
    browser.actions().move_to_element_with_offset(window, 0, 0).click_and_hold().move_by_offset(
        90, 0
    ).release().perform()
    browser.wait(lambda: float(str(browser.find(".pan").get_attribute("data-end"))) < end - 60)
    browser.find(".window").send_keys("+")
    browser.wait(lambda: browser.find(".pan").get_attribute("data-hours") == "0.5")
    browser.find("[name=device]").send_keys("gpu3", Keys.ENTER)
    browser.wait(lambda: len(browser.all(".names .device-name")) == 1)


def shows_what_sharing_cost(story: Story) -> None:
    """A run that shared is ended: it is counted in the week, and the pair leads to it, in both directions."""
    browser, jobs = story.browser, story.jobs
    story.site.request("POST", f"/api/v1/jobs/{jobs['resnet-2']}/cancel")
    story.becomes(jobs["resnet-2"], "CANCELLED")
    story.open("/timeline?hours=1", "gpu0")
    title = f"return document.querySelector(\".pan a[href$='/{jobs['resnet-2']}'] title\")?.textContent ?? ''"
    browser.wait(lambda: "(95%)" in browser.driver.execute_script(title))
    story.open("/pairs", "resnet50")
    browser.press("td a[href*='slowed=']")
    browser.wait(lambda: browser.all("tbody a[href^='/jobs/']"))
    browser.press("#runs a")
    browser.wait(lambda: "slowed=" in browser.driver.current_url)
    story.open("/week", "By user")
    for days in (1, 28):
        browser.press(f"a[href='/week?days={days}']")
        browser.wait_for_text(f"The last {days} days", "main")


def submits(story: Story) -> None:
    """The form is filled in, its forecast comes while it is, and it takes the token."""
    browser, site = story.browser, story.site
    story.open("/submit", "Fill in a command")
    browser.find("[name=cwd]").send_keys("/tmp")
    browser.find("[name=name]").send_keys("from-the-page")
    browser.find("[name=command]").send_keys("/bin/sleep 30")
    browser.find("[name=hold]").click()
    browser.wait(lambda: "hold=on" in str(browser.find("[data-made-of]").get_attribute("data-made-of")))
    browser.find("#forecast input[type=password]").send_keys((site.home / "token").read_text().strip(), Keys.ENTER)
    browser.wait_for_text("from-the-page", ".title")
    browser.wait_for_text("HELD", ".title")


def administers(story: Story) -> None:
    """A host is drained and resumed, a quota set and removed, a token revoked, the model before served again."""
    browser, site = story.browser, story.site
    shelf = Shelf(site.home / "models")
    versions = [publish(shelf), publish(shelf)]
    status, token = site.request("POST", "/api/v1/tokens", {"note": "for a story"})
    assert status == 201, token
    (host,) = (one["name"] for one in site.get("/api/v1/hosts")[1])
    story.open("/administration", host)
    browser.find(f"#host-{host} [name=why]").send_keys("a new disk", Keys.ENTER)
    browser.wait_for_text("drained", f"#host-{host}")
    browser.press(f"#host-{host} form[data-post$=resume] button")
    browser.wait(lambda: "drained" not in browser.text(f"#host-{host}"))
    browser.press("details:has(form[data-post='/api/v1/quotas']) summary")
    browser.find("form[data-post='/api/v1/quotas'] [name=name]").send_keys("ada")
    browser.find("form[data-post='/api/v1/quotas'] [name=running_devices]").send_keys("4", Keys.ENTER)
    browser.wait_for_text("The quota is set.", "#toast")
    browser.press("form[data-post='/api/v1/quotas/remove'] button")
    browser.driver.switch_to.alert.accept()
    browser.wait(lambda: not browser.all("form[data-post='/api/v1/quotas/remove']"))
    browser.press(f"form[data-post='/api/v1/tokens/{token['id']}/revoke'] button")
    browser.driver.switch_to.alert.accept()
    browser.wait(lambda: not browser.all("form[data-post$=revoke]"))
    story.open("/model", versions[-1])
    browser.press("form[data-post='/api/v1/models/rollback'] button")
    browser.driver.switch_to.alert.accept()
    browser.wait(lambda: shelf.status()["current"] == versions[0])
    browser.wait_for_text(f"{versions[0]} makes the forecasts.", "main")


def marks_a_broken_gpu(story: Story) -> None:
    """An XID is a mark on the timeline where it came, with its number, and the device says that it is unwell."""
    browser, machine = story.browser, story.machine
    gpu = machine.where(story.jobs["rest"])[0]
    machine.gpus.fail(gpu, XID_79)
    story.open("/", "unwell")
    machine.gpus.crash(gpu)
    story.becomes(story.jobs["rest"], "NODE_FAIL", "PENDING")
    story.open("/timeline?hours=0.1", "gpu0")
    browser.find(".lane g[aria-label^='X: XID 79']")
    story.open(f"/jobs/{story.jobs['rest']}", "XID 79")


def works_in_a_shell(story: Story) -> None:
    """An idle shell is stopped within three clicks of the first page; another one is worked in, through a restart of the API."""
    browser, shell = story.browser, story.jobs["shell"]
    story.open("/", "notebook")
    browser.press(f"#devices a[href='/jobs/{shell}']")
    browser.press("[data-verb=cancel]")
    browser.press("dialog button[value=yes]")
    story.becomes(shell, "CANCELLED")
    for number in range(5):  # so that a GPU is idle
        story.site.request("POST", f"/api/v1/jobs/{story.jobs[f'waiting-{number}']}/cancel")
    work_in_a_job(browser, story.site)
    browser.complaints()  # of the restart


STEPS = (
    predicts_ends,
    views,
    sharing_is_shown_in_words,
    filters_and_sorts,
    holds_releases_and_undoes,
    lets_a_job_go_next,
    says_why_it_waits_and_what_if,
    runs_and_ends,
    searches_a_log_of_100_mb,
    moves_the_timeline,
    shows_what_sharing_cost,
    submits,
    administers,
    marks_a_broken_gpu,
    works_in_a_shell,
)
