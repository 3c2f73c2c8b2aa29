"""Jobs of the queue are moved, held and cancelled in a real browser: by mouse, by keys, many at once."""

from __future__ import annotations

import asyncio
import time

from selenium.webdriver.common.keys import Keys

from gpuq.core.state.job import JobId, JobState
from tests.api.conftest import Endpoint
from tests.api.page.opening import address, opened
from tests.api.support import record
from tests.support.browser import Browser


async def test_a_job_is_dragged_to_the_head_of_the_queue_and_back(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser, "/queue")
    store = endpoint.store

    def drag() -> None:
        first, last = browser.find("#job-51 .move"), browser.find("#job-53 .move")
        browser.actions().click_and_hold(last).move_to_element(first).release().perform()
        browser.wait_for_text("Give job 53 priority 1?", "dialog")
        browser.wait_for_text("#53 new-idea:", "dialog")
        browser.wait_for_text("earlier", "dialog")
        browser.wait_for_text("later", "dialog")
        assert not browser.violations()
        assert store.job_rows[JobId(53)].record.submission.priority == 0, "nothing has changed yet"
        browser.press("dialog button[value=yes]")
        browser.wait_for_text("Job 53 has priority 1.", "#toast")

    await asyncio.to_thread(drag)
    assert store.job_rows[JobId(53)].record.submission.priority == 1
    await asyncio.to_thread(browser.press, "#toast button")
    await asyncio.to_thread(browser.wait_for_text, "Undone: job 53.", "#toast")
    assert store.job_rows[JobId(53)].record.submission.priority == 0
    assert await asyncio.to_thread(browser.complaints) == []


async def test_chosen_jobs_go_next_together_after_a_preview(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser, "/queue")
    rows = endpoint.store.job_rows

    def choose_and_let_go() -> None:
        browser.press("[data-bulk].next")
        browser.wait_for_text("No chosen job waits for its turn.", "#toast")
        for job in (52, 50, 53):  # 52 is held, and has no turn
            browser.press(f".choose[value='{job}']")
        browser.press("[data-bulk].next")
        browser.wait_for_text("Give 2 jobs priority 1?", "dialog")
        browser.wait_for_text("They have 0.", "dialog")
        browser.press("dialog button[value=yes]")
        browser.wait_for_text("2 jobs have priority 1.", "#toast")

    await asyncio.to_thread(choose_and_let_go)
    assert [rows[JobId(job)].record.submission.priority for job in (50, 51, 52, 53)] == [1, 0, 0, 1]
    await asyncio.to_thread(browser.press, "#toast button")
    await asyncio.to_thread(browser.wait_for_text, "Undone: 2 jobs.", "#toast")
    assert [rows[JobId(job)].record.submission.priority for job in (50, 53)] == [0, 0]


async def test_an_array_is_held_and_moved_as_one(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser)
    array = record(time.time(), name="sweep", array={"tasks": "0-39"})
    (first,) = endpoint.store.add_jobs([array])
    endpoint.store.set_state(first, JobState.RUNNING, attempt=1)
    endpoint.stream.order += range(first + 1, first + 40)
    tasks = [JobId(first + number) for number in range(1, 40)]

    def hold_and_undo() -> None:
        browser.open(address(endpoint, "/queue"))
        browser.wait_for_text("array of 40:", f"#job-{first}")
        assert not browser.violations()
        browser.press(f"button[data-verb=hold][data-job='{first}']")
        browser.wait_for_text("Held 39 jobs.", "#toast")
        browser.press("#toast button")
        browser.wait_for_text("Undone: Released 39 jobs.", "#toast")
        browser.wait(lambda: browser.driver.find_elements("css selector", f"#job-{first} .move"))
        browser.driver.execute_script(f"document.querySelector('#job-{first} .move').focus()")
        browser.driver.switch_to.active_element.send_keys(Keys.ARROW_UP, Keys.ENTER)
        browser.wait_for_text("priority 1?", "dialog")
        browser.press("dialog button[value=yes]")
        browser.wait_for_text("has priority 1.", "#toast")
        browser.press(f"button[data-verb=cancel][data-job='{first}']")
        browser.wait_for_text(f"Cancel array {first} of 40 tasks?", "dialog")
        browser.press("dialog button[value='']")
        for job in (first, 51):
            browser.press(f".choose[value='{job}']")
        browser.press("[data-bulk][data-verb=cancel]")
        browser.wait_for_text("Cancel 2 jobs and arrays, 41 jobs in all?", "dialog")
        browser.press("dialog button[value='']")

    await asyncio.to_thread(hold_and_undo)
    rows = endpoint.store.job_rows
    assert {rows[job].record.submission.priority for job in tasks} == {1}
    assert rows[first].record.submission.priority == 0, "the task that runs stays as it is"


async def test_more_jobs_than_a_request_has_ids_are_held_and_the_hold_undone(
    endpoint: Endpoint, browser: Browser
) -> None:
    await opened(endpoint, browser)
    arrays = [record(time.time(), name=name, array={"tasks": "0-9999"}) for name in ("big-a", "big-b")]
    first, second = endpoint.store.add_jobs(arrays)

    def hold_and_undo() -> None:
        browser.open(address(endpoint, "/queue?name=big"))
        browser.wait_for_text("array of 10,000:", f"#job-{second}")
        browser.press("#choose-all")
        browser.press("[data-bulk][data-verb=hold]")
        browser.wait_for_text("Held 20000 jobs.", "#toast")
        browser.press("#toast button")
        browser.wait_for_text("Undone: Released 20000 jobs.", "#toast")

    await asyncio.to_thread(hold_and_undo)
    assert endpoint.store.job_rows[JobId(first + 1)].state is JobState.PENDING


async def test_the_arrow_keys_move_a_job_and_escape_leaves_it(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser, "/queue")

    def order() -> list[str]:
        return [row.get_attribute("id") for row in browser.driver.find_elements("css selector", "tr[id]")]

    def move() -> None:
        before = order()
        browser.driver.execute_script("document.querySelector('#job-51 .move').focus()")
        keys = browser.driver.switch_to.active_element
        keys.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        assert order().index("job-51") == 2
        browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        browser.wait(lambda: order() == before)
        browser.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
        browser.wait_for_text("Give job 51 priority -1?", "dialog")
        browser.press("dialog button[value='']")
        browser.wait(lambda: order() == before)

    await asyncio.to_thread(move)
    assert endpoint.store.job_rows[JobId(51)].record.submission.priority == 0


async def test_cancelling_many_asks_once_and_keeps_them_on_no(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser, "/queue")

    def choose_and_cancel(answer: str) -> None:
        browser.press("[data-bulk][data-verb=cancel]")
        browser.wait_for_text("Cancel 2 jobs?", "dialog")
        assert not browser.violations()
        browser.press(f"dialog button[value='{answer}']")

    def look() -> None:
        for job in (49, 50):
            browser.press(f".choose[value='{job}']")
        browser.wait_for_text("2 chosen", "#chosen")
        choose_and_cancel("")

    await asyncio.to_thread(look)
    assert endpoint.store.job_rows[JobId(49)].state is JobState.PENDING
    await asyncio.to_thread(choose_and_cancel, "yes")
    await asyncio.to_thread(browser.wait_for_text, "Cancelled 2 jobs.", "#toast")
    assert endpoint.store.job_rows[JobId(50)].state is JobState.CANCELLED


async def test_the_keyboard_alone_holds_a_job(endpoint: Endpoint, browser: Browser) -> None:
    await opened(endpoint, browser, "/queue")

    def tab_to_the_button() -> None:
        for _ in range(60):
            browser.driver.switch_to.active_element.send_keys(Keys.TAB)
            here = browser.driver.switch_to.active_element
            if here.get_attribute("aria-label") == "Hold job 51":
                here.send_keys(Keys.ENTER)
                return browser.wait_for_text("Held job 51.", "#toast")
        raise AssertionError("the tab key never came to the button")

    await asyncio.to_thread(tab_to_the_button)
