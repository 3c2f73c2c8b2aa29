"""The web application in a real browser, over a record in memory."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import msgspec
import pytest
from msgspec import structs
from selenium.webdriver.common.keys import Keys

from gpuq.core.state.job import JobId, JobState
from tests.api.conftest import TOKEN, Endpoint
from tests.api.page.opening import address, opened
from tests.api.support import record, row
from tests.support.browser import Browser

HOSTILE = "\u202egnp.exe <img src=x onerror=\"document.title='broken into'\">"
ESCAPES = f"{HOSTILE} \x1b]0;broken into\x07"
VIEWS = ("/", "/queue", "/queue?show=running", "/queue?show=ended", "/timeline", "/jobs/42", "/jobs/51", "/jobs/37",
         "/week", "/pairs?slowed=ada:train.py&beside=ada:gan.py", "/model",
         "/submit?like=51", "/administration")  # fmt: skip


async def test_the_token_leaves_the_address_and_the_page_may_act(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser, "/queue")

    def hold_and_undo() -> None:
        browser.press("button[data-verb=hold][data-job='51']")
        browser.wait_for_text("Held job 51.", "#toast")
        browser.wait_for_text("HELD", "#job-51")
        browser.press("#toast button")
        browser.wait_for_text("Undone: Released job 51.", "#toast")
        browser.find("button[data-verb=hold][data-job='51']")

    await asyncio.to_thread(hold_and_undo)
    assert endpoint.store.job_rows[JobId(51)].state is JobState.PENDING
    assert await asyncio.to_thread(browser.complaints) == []


LONG = "resnet50_imagenet_lr0.1_bs256_seed42_augment_mixup_cosine"
OUTSIDE = """
const seen = document.querySelectorAll(".buttons button, td.name, h1");
const wide = document.documentElement.scrollWidth > innerWidth ? ["page"] : [];
return [...wide, ...[...seen].filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.innerText)];
"""


@pytest.mark.parametrize("width", [390, 768, 900, 1024, 1217, 1400])
async def test_a_long_name_pushes_nothing_out_of_sight(endpoint: Endpoint, browser: Browser, width: int) -> None:
    await opened(endpoint, browser)
    for job in (51, 42, 37):
        kept = endpoint.store.job_rows[JobId(job)]
        asked = structs.replace(kept.record.submission, name=LONG)
        named = structs.replace(kept.record, submission=asked)
        endpoint.store.job_rows[JobId(job)] = structs.replace(kept, record=named)

    def look() -> None:
        browser.size(width, 900)
        for path in ("/queue", "/queue?show=running", "/queue?show=ended", "/jobs/51", "/"):
            browser.open(address(endpoint, path))
            browser.wait_for_text(LONG[:20])
            assert browser.driver.execute_script(OUTSIDE) == [], (path, width)

    await asyncio.to_thread(look)


# What the tab key must come to: of the choices with one name, one; nothing that is folded away. Controls are known by what stays
# when a page is made again, so times in addresses do not count.
NAMED = """
const named = (one) => [one.tagName, one.name, one.value, one.ariaLabel, one.matches("button, summary") && one.textContent,
  one.getAttribute("href")].join(" ").replace(/[0-9.]{6,}/g, "");
"""
CONTROLS = f"""{NAMED}
const names = new Set();
return [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((one) => one.getClientRects().length && one.checkVisibility({{ visibilityProperty: true }}) && !one.disabled)
  .filter((one) => one.type !== "radio" || (one.checked && !names.has(one.name) && names.add(one.name))).map(named);
"""
FOCUSED = f"""{NAMED}
const one = document.activeElement, style = getComputedStyle(one);
return [named(one), style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0];
"""


@pytest.mark.soak
@pytest.mark.parametrize("path", VIEWS)
async def test_the_tab_key_comes_to_every_control_and_shows_where_it_is(
    endpoint: Endpoint, browser: Browser, path: str
) -> None:
    await opened(endpoint, browser, path)

    def walk() -> tuple[set[str], list[str]]:
        controls = set(browser.driver.execute_script(CONTROLS))
        assert controls
        unseen, hidden = set(controls), []
        for _ in range(3 * len(controls) + 10):
            browser.driver.switch_to.active_element.send_keys(Keys.TAB)
            here, marked = browser.driver.execute_script(FOCUSED)
            unseen.discard(here)
            if here in controls and not marked:
                hidden.append(here)
            if not unseen:
                break
        return unseen, hidden

    assert await asyncio.to_thread(walk) == (set(), [])


@pytest.mark.parametrize(("shade", "width"), [("light", 1280), ("dark", 390)])
async def test_axe_finds_nothing_wrong_with_any_view(
    endpoint: Endpoint, browser: Browser, shade: str, width: int
) -> None:
    await opened(endpoint, browser)

    def look() -> dict[str, list[str]]:
        browser.shade(shade)
        found = {}
        browser.size(width, 900)
        for path in VIEWS:
            browser.open(address(endpoint, path))
            browser.find("html.scripts #frame")
            found[path] = browser.violations()
            wide = browser.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is wider than {width} pixels"
        return {view: wrong for view, wrong in found.items() if wrong}

    assert await asyncio.to_thread(look) == {}


async def test_text_of_twice_the_size_fits_every_view(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser)
    size = "return parseFloat(getComputedStyle(document.querySelector('main p, main td')).fontSize)"

    def look() -> dict[str, float]:
        browser.size(1280, 900)
        usual = browser.driver.execute_script(size)
        too_wide = {}
        try:
            browser.driver.execute_cdp_cmd("Page.setFontSizes", {"fontSizes": {"standard": 32, "fixed": 26}})
            for path in VIEWS:
                browser.open(address(endpoint, path))
                browser.find("html.scripts #frame")
                wide = browser.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
                if wide > 0:
                    too_wide[path] = wide
            browser.open(address(endpoint))
            assert browser.driver.execute_script(size) == pytest.approx(2 * usual, rel=0.05)
        finally:
            browser.driver.execute_cdp_cmd("Page.setFontSizes", {"fontSizes": {"standard": 16, "fixed": 13}})
        return too_wide

    assert await asyncio.to_thread(look) == {}


async def test_hostile_names_are_shown_and_do_nothing(endpoint: Endpoint, browser: Browser) -> None:
    of = record(time.time(), name=HOSTILE, command=[ESCAPES, ESCAPES], project=HOSTILE)
    verdict = {"admitted": False, "rule": HOSTILE, "device": HOSTILE, "numbers": [[HOSTILE, HOSTILE]]}
    endpoint.store.job_rows[JobId(1)] = row(1, of, JobState.PENDING, verdict=verdict)
    endpoint.store.job_rows[JobId(2)] = row(2, of, JobState.FAILED, reason=ESCAPES)
    await opened(endpoint, browser)

    def look() -> None:
        for path in ("/", "/queue", "/queue?show=ended", "/timeline", "/jobs/1", "/jobs/2"):
            browser.open(address(endpoint, path))
            browser.find("html.scripts #frame")
            assert "\u202e" not in browser.driver.page_source
            assert "\x1b" not in browser.driver.page_source
            assert not browser.all("img")
            assert "broken into" not in browser.driver.title
        assert browser.complaints() == []

    await asyncio.to_thread(look)


def write_log(endpoint: Endpoint, text: str) -> None:
    folder = endpoint.settings.home.attempts / "42-1"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output.log").open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


async def test_a_log_goes_on_while_it_is_written_and_can_be_searched(endpoint: Endpoint, browser: Browser) -> None:
    lines = [f"step {number} loss {1 / (number + 1):.4f}\n" for number in range(20_000)]
    await asyncio.to_thread(write_log, endpoint, "".join(lines))
    await opened(endpoint, browser, "/jobs/42")

    def look() -> None:
        browser.wait_for_text("step 19999 loss", "#log pre")
        assert "step 3 " not in browser.text("#log pre"), "only the end is shown"
        write_log(endpoint, f"{ESCAPES}\n10%\r20%\r30%\nthe last line\n")
        browser.wait_for_text("the last line", "#log pre")
        shown = browser.text("#log pre")
        assert "<img src=x onerror" in shown
        assert "30%" in shown
        for gone in ("\x1b", "\u202e", "20%", "]0;"):
            assert gone not in shown
        browser.find("#log input[name=words]").send_keys("STEP 77 ", Keys.ENTER)
        browser.wait_for_text("1 of 20,00", "#log [role=status]")
        browser.wait(lambda: browser.text("#log .hits") == "step 77 loss 0.0128")
        assert not browser.all("main img")
        assert browser.complaints() == []

    await asyncio.to_thread(look)


async def test_a_letter_of_a_log_may_come_in_two_parts(endpoint: Endpoint, browser: Browser) -> None:
    """A program writes its output in blocks of 8 KiB, wherever they end."""
    await asyncio.to_thread(write_log, endpoint, "epoch 1\n")
    await opened(endpoint, browser, "/jobs/42")

    def look() -> None:
        browser.wait_for_text("epoch 1", "#log pre")
        write_log(endpoint, "epoch 2 \udce2\udc96")
        browser.wait_for_text("epoch 2", "#log pre")
        write_log(endpoint, "\udc88 done\n")
        browser.wait_for_text("done", "#log pre")
        assert "epoch 2 █ done" in browser.text("#log pre")

    await asyncio.to_thread(look)


async def test_a_waiting_job_says_which_rule_decided_and_who_holds_the_devices(
    endpoint: Endpoint, browser: Browser
) -> None:
    await opened(endpoint, browser, "/queue")

    def look() -> None:
        browser.press("#job-51 a.jobname")
        browser.wait_for_text("sum 131%, limit 100%", ".rules [aria-current=step]")
        assert len(browser.all(".rules .yes")) > 5
        assert "#44 llama-8b-lora" in browser.text("#why table")

    await asyncio.to_thread(look)


async def test_ten_thousand_waiting_jobs_make_a_page_of_a_hundred(endpoint: Endpoint, browser: Browser) -> None:
    now = time.time()
    for job in range(1000, 11_000):
        endpoint.store.job_rows[JobId(job)] = row(job, record(now, name=f"sweep-{job}"), JobState.PENDING)
    await opened(endpoint, browser, "/queue?name=sweep")

    def look() -> None:
        assert "10,000 jobs" in browser.text("#found")
        assert len(browser.all("tbody tr")) == 100
        browser.press("a[rel=next]")
        browser.wait_for_text("101 to 200 of 10,000", ".pages")

    await asyncio.to_thread(look)


async def test_an_array_of_ten_thousand_tasks_is_one_line(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser)
    (first,) = endpoint.store.add_jobs([record(time.time(), name="sweep", array={"tasks": "0-9999"})])
    endpoint.stream.order += range(first, first + 10_000)

    def look() -> None:
        browser.open(address(endpoint, "/queue?name=sweep"))
        browser.wait_for_text("array of 10,000:", f"#job-{first}")
        assert len(browser.all("tbody tr")) == 1
        browser.press(f"button[data-verb=hold][data-job='{first}']")
        browser.wait_for_text("Held 10000 jobs.", "#toast")

    await asyncio.to_thread(look)
    assert endpoint.store.job_rows[JobId(first + 9_999)].state is JobState.HELD


async def test_what_is_old_says_so(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser)
    refuse: Any = RuntimeError("the database is gone")
    endpoint.store.refuse = refuse
    await asyncio.to_thread(browser.wait_for_text, "gpuq does not answer; what you see is from", ".health")
    assert "resnet50-imagenet" in await asyncio.to_thread(browser.text)
    endpoint.store.refuse = None
    await asyncio.to_thread(browser.wait, lambda: browser.text(".health") == "live")


async def test_a_reader_in_another_time_zone_reads_whose_the_times_are(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser)
    assert await asyncio.to_thread(browser.all, "#zone[hidden]"), "the same zone goes without saying"
    offset = time.strftime("%z")
    override = "Emulation.setTimezoneOverride"
    browser.driver.execute_cdp_cmd(override, {"timezoneId": "Pacific/Kiritimati"})
    try:
        await asyncio.to_thread(browser.open, address(endpoint, "/queue"))
        wanted = f"Times are of UTC{offset[:3]}:{offset[3:]}"
        await asyncio.to_thread(browser.wait_for_text, wanted, "#zone:not([hidden])")
    finally:
        browser.driver.execute_cdp_cmd(override, {"timezoneId": ""})


async def test_a_browser_with_a_wrong_clock_shows_the_same(endpoint: Endpoint, browser: Browser) -> None:
    """Times are calculated on the server; the browser's clock says only since when an old page is old."""
    of_views = ("/", "/queue", "/timeline?hours=2", "/jobs/42", "/jobs/51")
    wrong = "{ const now = Date.now; Date.now = () => now() - 40 * 86_400_000; }"
    await opened(endpoint, browser)

    def shown() -> dict[str, str]:
        found = {}
        for path in of_views:
            browser.open(address(endpoint, path))
            browser.find("html.scripts #frame")
            found[path] = re.sub(r"[0-9]+", "", browser.text("main"))
        return found

    def look() -> None:
        before = shown()
        script = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": wrong})
        try:
            assert shown() == before
            endpoint.store.set_state(51, JobState.HELD)
            browser.wait_for_text("HELD", ".title")
            assert browser.complaints() == []
        finally:
            browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)

    await asyncio.to_thread(look)


TASKS = {
    "why does my job wait": (["a[href='/jobs/51']"], "sum 131%, limit 100%", "#why"),
    "who slows me": (["a[href='/jobs/42']"], "#43", "#partners"),
    "stop my idle notebook": (
        ["a[href='/jobs/44']", "[data-verb=cancel]", "dialog button[value=yes]"],
        "CANCELLED",
        ".title",
    ),
    "let another user's job go next": (
        ["nav a[href='/queue']", "#job-53 .next", "dialog button[value=yes]"],
        "Job 53 has priority 1.",
        "#toast",
    ),
    "let it go before mine, as a user": (
        ["nav a[href='/queue']", "[data-verb=hold][data-job='51']"],
        "Held job 51.",
        "#toast",
    ),
    "how much did sharing save last week": (["nav a[href='/week']"], "Saved by sharing\n0.", "main"),
}


async def test_what_people_come_for_is_three_clicks_from_the_first_page(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser)
    waiting = endpoint.store.job_rows[JobId(53)]
    of_another = msgspec.structs.replace(waiting, record=msgspec.structs.replace(waiting.record, owner="chi"))
    endpoint.store.job_rows[JobId(53)] = of_another

    def walk() -> None:
        for clicks, words, place in TASKS.values():
            assert len(clicks) <= 3
            browser.open(address(endpoint))
            browser.find("html.scripts #frame")
            for selector in clicks:
                browser.press(selector)
            browser.wait_for_text(words, place)

    await asyncio.to_thread(walk)
    assert endpoint.store.job_rows[JobId(53)].record.submission.priority == 1


async def test_a_job_is_submitted_with_the_token_after_its_forecast(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser, "/submit")

    def fill_in_and_send() -> None:
        browser.find("[name=cwd]").send_keys("/tmp")
        browser.find("[name=command]").send_keys("python 'my train.py'")
        browser.find("[data-env]").send_keys("LR=0.1=x")
        browser.wait_for_text("It rests on 12 runs", "#forecast")
        browser.wait(lambda: "my+train" in str(browser.find("[data-made-of]").get_attribute("data-made-of")))
        browser.find("#forecast input[type=password]").send_keys("wrong", Keys.ENTER)
        browser.wait_for_text("The token is not this gpuq's", "#toast")
        browser.find("#forecast input[type=password]").clear()
        browser.find("#forecast input[type=password]").send_keys(TOKEN, Keys.ENTER)
        browser.wait(lambda: browser.driver.current_url.startswith(address(endpoint, "/jobs/")))
        assert TOKEN not in browser.driver.page_source

    await asyncio.to_thread(fill_in_and_send)
    asked = endpoint.store.job_rows[max(endpoint.store.job_rows)].record.submission
    assert (asked.command, asked.env) == (("python", "my train.py"), {"LR": "0.1=x"})


async def test_a_quota_is_set_from_the_page(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser, "/administration")

    def fill_in_and_send() -> None:
        browser.press("summary")
        browser.find("[data-post='/api/v1/quotas'] [name=name]").send_keys("ada")
        browser.find("[name=device_hours]").send_keys("40")
        browser.find("[name=window_s]").send_keys("7", Keys.ENTER)
        browser.wait_for_text("The quota is set.", "#toast")

    await asyncio.to_thread(fill_in_and_send)
    [asked] = endpoint.store.requests(10)
    quota = asked.body["quota"]
    assert (asked.verb, quota["device_hours"], quota["window_s"]) == ("quota", 40.0, 604_800.0)


async def test_the_timeline_is_dragged_and_zoomed_and_opens_no_job_by_that(
    endpoint: Endpoint, browser: Browser
) -> None:
    await opened(endpoint, browser, "/timeline?hours=2")

    def drag_and_zoom() -> None:
        window = browser.find(".window")
        before = float(str(browser.find(".pan").get_attribute("data-end")))
        bar = browser.find("a[href='/jobs/44']")
        browser.actions().click_and_hold(bar).move_by_offset(60, 0).move_by_offset(60, 0).release().perform()
        browser.wait(lambda: "until=" in browser.driver.current_url)
        moved = 7200 * 120 / window.size["width"]
        browser.wait(lambda: abs(float(str(browser.find(".pan").get_attribute("data-end"))) - before + moved) < 60)
        browser.wait(lambda: not browser.driver.execute_script("return document.querySelector('.pan').style.transform"))
        window.send_keys("+")
        browser.wait(lambda: browser.find(".pan").get_attribute("data-hours") == "1.0")
        assert "/timeline" in browser.driver.current_url

    await asyncio.to_thread(drag_and_zoom)
