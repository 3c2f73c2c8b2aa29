"""The pages: what they show, and that nothing in them needs an exception from the content security policy."""

from __future__ import annotations

import html
import re
import time
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.booking import Booking, BookingId
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId, JobState
from gpuq.messages.outcome import AttemptOutcome
from tests.api.conftest import Endpoint
from tests.api.support import afternoon, attempt, forecast, record, row
from tests.api.test_tokens import OTHER

VOID = ("meta", "link", "rect", "input", "line", "path")


class Checker(HTMLParser):
    """Collects tags and looks for what the content security policy would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        assert "style" not in names
        assert not any(name.startswith("on") for name in names)
        for name, value in attrs:
            if name in ("src", "href"):
                assert value is not None
                assert value.startswith(("/", "#"))
                assert not value.startswith("//")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


async def page(endpoint: Endpoint, path: str = "/") -> str:
    async with endpoint.socket.get(path) as answer:
        assert answer.status == 200, await answer.text()
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        text = await answer.text()
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    return " ".join("".join(checker.text).split())


async def raw(endpoint: Endpoint, path: str) -> str:
    async with endpoint.socket.get(path) as answer:
        return await answer.text()


def say_hosts(endpoint: Endpoint, *hosts: list[Any]) -> None:
    assert endpoint.stream.picture is not None
    live = msgspec.json.decode(endpoint.stream.picture)
    live["hosts"] = [{"name": name, "reported_at": at, "drained": why} for name, at, why in hosts]
    endpoint.stream.picture = msgspec.json.encode(live)


async def test_the_page_shows_devices_queue_and_what_ended(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    text = await page(endpoint)
    for words in (
        "5 running",
        "2 share",
        "#42 resnet50-imagenet",
        "with #43",
        "foreign process",
        "lstm-weather <b>",
        "Together, the predicted peak utilisations exceed the limit",
        "OUT_OF_MEMORY",
        "27.1 GiB",
    ):
        assert words in text, words
    assert text.index("vit-large") < text.index("whisper-medium") < text.index("new-idea")


async def test_the_page_of_an_empty_gpuq_without_redis(endpoint: Endpoint) -> None:
    endpoint.stream.down = True
    text = await page(endpoint)
    for words in ("Redis does not answer", "No device has reported yet", "No job waits", "Nothing has ended yet"):
        assert words in text
    assert "Nothing ended in that time" in await page(endpoint, "/week")
    assert "No slowdown was measured of such a kind" in await page(endpoint, "/pairs?kind=any")


def first_device_says(endpoint: Endpoint, **said: Any) -> None:
    afternoon(endpoint.store, endpoint.stream)
    assert endpoint.stream.picture is not None
    live = msgspec.json.decode(endpoint.stream.picture)
    live["devices"][0] |= said
    endpoint.stream.picture = msgspec.json.encode(live)


async def test_the_page_says_what_is_wrong_with_a_device(endpoint: Endpoint) -> None:
    vitals = {"throttling": ["power_cap", "thermal_hardware"], "xids": [[31, 1200], [79, 1]]}
    first_device_says(endpoint, unwell="XID 79: <b>off</b> the bus", vitals=vitals)
    text = await page(endpoint)
    for words in (
        "live, but 1 device gets no new jobs",
        "unwell",
        "Gets no new jobs: XID 79: <b>off</b> the bus",
        "Runs at lower clocks: power cap, thermal hardware",
        "Errors of the driver so far: XID 31: 1,200, XID 79: 1",
    ):
        assert words in text, words


async def test_the_page_has_no_remarks_on_healthy_devices(endpoint: Endpoint) -> None:
    first_device_says(endpoint, vitals={"throttling": [], "xids": []})
    text = await page(endpoint)
    for words in ("unwell", "no new jobs", "lower clocks", "Errors of the driver"):
        assert words not in text, words


async def test_text_of_users_is_escaped(endpoint: Endpoint) -> None:
    evil = '"><script>alert(1)</script>'
    endpoint.store.job_rows[1] = row(1, record(time.time(), name=evil, command=[evil]), JobState.PENDING, reason=evil)
    endpoint.store.job_rows[2] = row(2, record(time.time(), name=None, command=[evil]), JobState.FAILED)
    async with endpoint.socket.get("/") as answer:
        text = await answer.text()
    assert "<script>alert" not in text
    await page(endpoint)


async def test_the_pages_files(endpoint: Endpoint) -> None:
    for name, kind in (
        *((name, "text/javascript") for name in ("page.js", "actions.js", "welcome.js")),
        ("page.css", "text/css"),
        ("icon.svg", "image/svg+xml"),
    ):
        async with endpoint.tcp.get(f"/static/{name}", headers=endpoint.bearer) as answer:
            assert (answer.status, answer.content_type) == (200, kind)
            assert "http://" not in (await answer.text()).replace("http://www.w3.org/", "")


async def test_pages_and_their_files_take_little_of_a_slow_network(endpoint: Endpoint) -> None:
    """An open page is asked for every two seconds, and each page for the same files."""
    for path in ("/queue", "/static/page.css"):
        async with endpoint.socket.get(path, headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert int(answer.headers["Content-Length"]) < len(await answer.read()) / 2
        async with endpoint.socket.get(path, headers={"Accept-Encoding": "identity"}) as plain:
            assert "Content-Encoding" not in plain.headers
    known = {"If-None-Match": answer.headers["ETag"]}
    async with endpoint.socket.get("/static/page.css", headers=known) as again:
        assert (again.status, await again.read()) == (304, b"")
    async with endpoint.socket.get("/static/page.js", headers=known) as other:
        assert (other.status, other.headers["Cache-Control"]) == (200, "no-cache")


async def test_the_page_names_devices_by_their_index(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    text = await page(endpoint)
    assert [f"gpu{n}" in text for n in range(4)] == [True] * 4
    assert "FAILEDgpu3" in text, "what has ended names its device too"
    assert "GPU-8f2c41d0" not in text


async def test_the_queue_is_filtered_and_sorted(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)

    async def order(query: str) -> list[int]:
        async with endpoint.socket.get(f"/queue?{query}") as answer:
            return [int(job) for job in re.findall(r'<tr id="job-([0-9]+)"', await answer.text())]

    assert await order("") == [51, 49, 50, 53, 52], "held jobs come last"
    assert "None" not in await page(endpoint, "/queue"), "no verdict here names a device"
    assert await order("sort=oldest") == [49, 50, 51, 52, 53]
    assert await order("sort=name") == [52, 53, 50, 51, 49]
    assert await order("name=whisper") == [49]
    assert await order("name=*-lora&show=running") == [44]
    assert await order("owner=elsewhere") == []
    assert await order("show=ended") == [41, 40, 39, 38, 37]
    assert await order("show=failed") == [40, 39]
    assert await order("show=failed&sort=oldest&name=*") == [39, 40]


async def test_an_array_is_one_row_that_leads_to_its_tasks(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    array = {"tasks": "0-9999", "params": {"lr": list(map(str, range(10_000)))}}
    (first,) = endpoint.store.add_jobs([record(time.time(), name="sweep {lr}", array=array)])
    for job in range(first, first + 120):
        endpoint.store.set_state(job, JobState.RUNNING if job < first + 20 else JobState.HELD, attempt=1)

    async def shown(query: str) -> tuple[list[int], str]:
        async with endpoint.socket.get(f"/queue?{query}") as answer:
            text = await answer.text()
            assert answer.status == 200, text
            return [int(job) for job in re.findall(r'<tr id="job-([0-9]+)"', text)], re.sub(r"\s+", " ", text)

    rows, text = await shown("")
    assert rows == [51, 49, 50, 53, first, 52]
    for words in ("array of 10,000:", "9,880 pending", "100 held", "20 running"):
        assert words in text, words
    assert "9,985 jobs" in text
    assert f"Hold array {first}" in text
    assert (await shown("show=running"))[0].count(first) == 1
    assert (await shown("name=sweep+9876"))[0] == [first + 9876], "a button on its line is for this task only"
    assert (await shown("name=sweep"))[0] == [first], "all of its tasks have such a name"
    rows, text = await shown(f"array={first}&page=2&sort=oldest")
    assert rows[:2] == [first + 120, first + 121]
    assert f"array={first}" in text.split('rel="next"')[0].rsplit("href=", 1)[1], "its next page is of the array"
    assert (await shown("array=51"))[0] == (await shown("array=4711"))[0] == []


async def test_ended_tasks_of_an_array_are_one_row_that_leads_to_them(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    (first,) = endpoint.store.add_jobs([record(time.time(), name="sweep", array={"tasks": "0-299"})])
    for job in range(first, first + 250):
        endpoint.store.set_state(job, JobState.FAILED if job == first + 3 else JobState.COMPLETED, attempt=1)

    async def shown(query: str) -> tuple[list[int], str]:
        text = await raw(endpoint, f"/queue?show=ended&{query}")
        return [int(job) for job in re.findall(r'<tr id="job-([0-9]+)"', text)], re.sub(r"\s+", " ", text)

    rows, text = await shown("")
    assert rows == [first, 41, 40, 39, 38, 37]
    for words in ("array of 300:", "249 completed", "1 failed", "50 pending", f"show=ended&amp;array={first}"):
        assert words in text, words
    assert (await shown("sort=oldest"))[0] == [37, 38, 39, 40, 41, first]
    assert (await shown("sort=name"))[0] == [38, 39, 41, 37, 40, first]
    assert (await shown("name=sweep"))[0] == [first]
    failed = f"show=failed&array={first}"
    text = await raw(endpoint, "/queue?show=failed")
    assert re.findall(r'<tr id="job-([0-9]+)"', text)[0] == str(first)
    assert failed.replace("&", "&amp;") in text
    assert re.findall(r'<tr id="job-([0-9]+)"', await raw(endpoint, f"/queue?{failed}")) == [str(first + 3)]
    tasks, text = await shown(f"array={first}")
    assert tasks == [first + number for number in range(249, 149, -1)]
    assert "1 to 100 of 250" in text


async def test_a_task_says_which_it_is_of_which_array(endpoint: Endpoint) -> None:
    values = {"lr": ("0.1", "<0.01>")}
    (first,) = endpoint.store.add_jobs([record(1.0, name="sweep", array={"tasks": "4,7", "params": values})])
    text = await page(endpoint, f"/jobs/{first + 1}")
    assert f"Task{first}_7 of array {first}" in text
    assert "lr<0.01>" in text
    assert f'href="/queue?show=waiting&amp;array={first}"' in await raw(endpoint, f"/jobs/{first + 1}")


async def test_a_cancelled_job_that_has_ended_is_not_ending(endpoint: Endpoint) -> None:
    store = endpoint.store
    for job, state in ((7, JobState.RUNNING), (8, JobState.CANCELLED)):
        store.job_rows[JobId(job)] = row(job, record(1.0, name="a"), state, cancel_requested=True)
    assert ">ending<" in await raw(endpoint, "/queue?show=running")
    assert ">ending<" not in await raw(endpoint, "/queue?show=ended")


async def test_what_is_only_an_upper_bound_is_marked_so(endpoint: Endpoint) -> None:
    actual = AttemptOutcome(peak_utilization_pct=100.0, utilization_is_bound=True, peak_memory_bytes=2**30)
    store = endpoint.store
    store.job_rows[JobId(7)] = row(7, record(1.0, name="a"), JobState.COMPLETED, attempt=1)
    store.set_attempts(attempt(7, "GPU-0", 1.0, forecast(50, 1), ended_at=2.0, ending="exited", actual=actual))
    for path in ("/", "/jobs/7"):
        text = await page(endpoint, path)
        assert "≤ 100%" in text
        assert "≤ 1.0 GiB" not in text


async def test_many_ended_jobs_are_listed_page_by_page(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuq.api.page.queue.PAGE", 2)
    afternoon(endpoint.store, endpoint.stream)

    async def pages(query: str) -> list[list[int]]:
        found, path = [], f"/queue?show=ended&{query}"
        while path:
            text = await raw(endpoint, path)
            found.append([int(job) for job in re.findall(r'<tr id="job-([0-9]+)"', text)])
            more = re.search(r'href="([^"]+)" rel="next"', text)
            path = html.unescape(more[1]) if more else ""
        return found

    assert await pages("") == [[41, 40], [39, 38], [37]]
    assert await pages("sort=oldest") == [[37, 38], [39, 40], [41]]
    by_name = await pages("sort=name")
    assert sorted(job for page in by_name for job in page) == [37, 38, 39, 40, 41]
    assert [len(page) for page in by_name] == [2, 2, 1]
    monkeypatch.setattr("gpuq.api.page.queue.SORTED_UP_TO", 4)
    assert await pages("sort=name") == await pages("")


async def test_the_buttons_follow_the_role(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    async with endpoint.tcp.get("/queue", headers=endpoint.bearer) as answer:
        assert "Hold job 51" in await answer.text()
    status, made = await endpoint.post("/api/v1/tokens", {"user": OTHER, "role": "user"})
    assert status == 201, made
    for path in ("/queue", "/jobs/51", "/jobs/42"):
        async with endpoint.tcp.get(path, headers={"Authorization": f"Bearer {made['token']}"}) as answer:
            text = await answer.text()
            assert answer.status == 200, text
            assert "data-job" not in text.split('id="log"')[0], "no button of a job"
            assert "resnet50" not in text
            assert "vit-large" not in text


async def test_a_timeline_has_every_device_and_what_is_to_come(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    text = await page(endpoint, "/timeline")
    for words in ("gpu0", "gpu3", "#42 resnet50-imagenet", "#40 (out of memory)", "#38 +7%"):
        assert words in text, words
    for words in (
        "M ran out of memory",
        "#38 +7% bert-finetune, measured between +0% and +11% (95%)",
        "XID 13 3 times",
        "clocks lowered: power cap",
        "B: partner paused to measure job 43",
    ):
        assert words in text, words
    assert "#42" not in (await page(endpoint, "/timeline?device=gpu3")).split("The same")[0]
    assert "There is no such device" in await page(endpoint, "/timeline?device=elsewhere")
    assert "#42" not in await page(endpoint, f"/timeline?until={int(time.time()) - 90_000}")


async def test_the_week_says_what_sharing_brought_and_which_budgets_it_broke(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    ended = endpoint.store.job_rows[JobId(38)]
    strict = msgspec.structs.replace(ended.record.submission, max_slowdown=1.01)
    endpoint.store.job_rows[JobId(38)] = msgspec.structs.replace(
        ended, record=msgspec.structs.replace(ended.record, submission=strict)
    )
    text = await page(endpoint, "/week")
    for words in ("5 attempts", "of 3 runs with a measured slowdown", "#38 bert-finetune", "+7%", "+1%", "failed 0."):
        assert words in text, words
    assert "resnet50" not in text.split("Slowed beyond")[1].split("Held longest")[0]


async def test_the_week_has_the_reservations(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    assert "No device is reserved" in await page(endpoint, "/week")
    now, device = time.time(), next(iter(endpoint.store.device_rows))
    for number, (start, end) in enumerate([(now - 60, now + 3600), (now + 7200, now + 9000), (now - 99, now - 9)]):
        of = Booking(BookingId(number), f"user{number}", "ada", (device,), start, end)
        endpoint.store.booking_rows[of.id] = of
    text = (await page(endpoint, "/week")).split("Reservations")[1]
    for words in ("user0gpu0", "goes on", "user1gpu0", "to come"):
        assert words in text, words
    assert "user2" not in text, "it is over"


async def test_the_model_says_how_often_jobs_started_when_they_were_expected_to(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    assert endpoint.stream.picture is not None
    live = msgspec.json.decode(endpoint.stream.picture)
    live["start_accuracy"] = {"starts": 40, "before_half": 22, "before_most": 37}
    endpoint.stream.picture = msgspec.json.encode(live)
    text = await page(endpoint, "/model")
    for words in ("Started before the expected median55%", "40 starts", "expected 90th percentile92%"):
        assert words in text, words


async def test_pairs_have_their_slowdown_in_each_direction_and_the_runs_that_say_so(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    text = await page(endpoint, "/pairs?slowed=ada:train.py&beside=ada:gan.py")
    for words in ("slowed \\ by", "+3% 3", "#38 bert-finetune", "+0% to +11%", "the other direction"):
        assert words in text, words
    assert "Not measured in this direction" in await page(endpoint, "/pairs?slowed=ada:gan.py&beside=ada:train.py")


async def test_the_model_is_held_to_its_promises(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    text = await page(endpoint, "/model")
    assert "Started before" not in text, "no start was expected"
    for words in ("m-7 makes the forecasts", "100%of 5 runs", "Memory used, of what was promised"):
        assert words in text, words


async def test_of_runs_that_end_as_long_as_predicted_the_model_counts_those_in_time(endpoint: Endpoint) -> None:
    """A peak that is a bound only says nothing of the promise, and a run that failed nothing of how long it takes."""
    afternoon(endpoint.store, endpoint.stream)
    for job, lasted_s in (
        (37, 2880.0),
        (38, 3500.0),
        (41, 3501.0),
    ):  # the median and the 90th percentile are 2880 and 3500
        attempt = endpoint.store.attempt_rows[AttemptId(JobId(job), 1)]
        ended_at = attempt.ended_at or 0.0
        endpoint.store.set_attempts(msgspec.structs.replace(attempt, started_at=ended_at - lasted_s))
    attempt = endpoint.store.attempt_rows[AttemptId(JobId(40), 1)]
    assert attempt.actual is not None
    bound = msgspec.structs.replace(attempt.actual, peak_memory_is_bound=True, peak_memory_bytes=2**60)
    endpoint.store.set_attempts(msgspec.structs.replace(attempt, actual=bound))
    text = await page(endpoint, "/model")
    for words in ("their promise100%of 4 runs", "before the median33%of 3 runs", "90th percentile67%90% is the target"):
        assert words in text, words


async def test_a_waiting_job_is_asked_what_would_be_if_it_asked_for_something_else(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    text = await page(endpoint, "/jobs/51?share=auto&max_slowdown=100&gpus=1&type=NVIDIA%20H200")
    for words in (
        "With thisat once, on gpu",
        "Every device is taken",
        "+30%",
        "gpuq submit --name vit-large --max-slowdown 100% --gpu-type 'NVIDIA H200' --",
    ):
        assert words in text, words
    text = await page(endpoint, "/jobs/51?share=never&max_slowdown=100&gpus=1")
    assert "gpuq edit 51 --share never --max-slowdown 100%" in text
    assert "gpuq edit" not in await page(endpoint, "/jobs/51?share=auto&gpus=1"), "nothing would change"
    text = await page(endpoint, "/jobs/51?share=never&gpus=5")
    assert "the host with the most has 4, so 1 is missing" in text
    assert "There is no device of type" in await page(endpoint, "/jobs/51?share=auto&type=abacus")


async def test_a_submission_is_prepared_with_its_forecast_or_says_what_is_wrong(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    text = await page(endpoint, "/submit?command=python+%27my+train.py%27&cwd=/tmp&gpus=1&memory=4.5&hours=2")
    for words in ("9.8 GiB, at most 11.3 GiB", "It rests on 12 runs", "at once, on gpu"):
        assert words in text, words
    async with endpoint.socket.get("/submit?command=python+%27my+train.py%27&cwd=/tmp&memory=4.5&hours=2") as answer:
        found = re.search(r'data-body="([^"]+)"', await answer.text())
    assert found is not None
    body = msgspec.json.decode(html.unescape(found[1]))
    assert body == {
        "command": ["python", "my train.py"],
        "cwd": "/tmp",
        "gpu_memory": 4.5 * 2**30,
        "time_limit_s": 7200,
    }
    for query, words in (
        ("command=%27&cwd=/tmp", "Command: words as in a shell, each quote closed."),
        ("command=a&cwd=tmp", "Folder: a path that begins with /."),
        ("command=a&cwd=/tmp&gpus=9", "so 5 are missing"),
        ("command=a&cwd=/tmp&gpus=0", "Devices: a whole number from 1 to 64."),
        ("command=a&cwd=/tmp&memory=nan", "Memory of a device: a number of GiB above 0."),
        ("command=a&cwd=/tmp&max_slowdown=401", "Slowdown at most: from 0 to 400 percent."),
        ("command=a&cwd=/tmp&hours=inf", "Time limit: hours above 0, at most ten years."),
        ("command=a&cwd=/tmp&priority=1001", "Priority: a whole number from -1000 to 1000."),
        ("command=a&cwd=/tmp&priority=high", "Priority: a whole number from -1000 to 1000."),
    ):
        text = await page(endpoint, f"/submit?{query}")
        assert words in text, query
        assert "gpuq VERB" not in text
    assert "vit-large" in await raw(endpoint, "/submit?like=51")


async def test_how_an_attempt_ended_is_said_once_and_its_day_too(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    reason = "ended with exit code 0"
    at = time.mktime((2026, 11, 28, 10, 0, 0, 0, 0, -1))
    ended = msgspec.structs.replace(
        endpoint.store.attempt_rows[AttemptId(JobId(37), 1)], started_at=at, ended_at=at + 90, reason=reason
    )
    endpoint.store.set_attempts(ended)
    endpoint.store.set_state(37, JobState.COMPLETED, reason=reason)
    text = await raw(endpoint, "/jobs/37")
    assert reason not in text
    assert "exited with 0" in text
    assert ">2026-11-28 10:00:00<" in text
    assert ">10:01:30<" in text
    endpoint.store.set_attempts(msgspec.structs.replace(ended, ended_at=at + 86_400))
    assert ">2026-11-29 10:00:00<" in await raw(endpoint, "/jobs/37")


async def test_a_field_has_no_control_characters_of_another_job(endpoint: Endpoint) -> None:
    asked = record(1.0, cwd="/home/\x1b[2J", project="p\x1b", command=["python", "-c", "a\n\tb\x1b"])
    endpoint.store.job_rows[JobId(7)] = row(7, asked, JobState.COMPLETED)
    text = await raw(endpoint, "/submit?like=7")
    assert "\x1b" not in text
    assert 'value="/home/\\x1b[2J"' in text
    assert "a\n\tb\\x1b" in text, "a command may have several lines"


async def test_a_job_like_another_keeps_the_options_that_the_form_does_not_have(endpoint: Endpoint) -> None:
    asked = {"kind": "mine", "retry": ["oom:2"], "time_limit_s": 7200.0, "script": "train.py", "after": ["ok:1"]}
    endpoint.store.job_rows[JobId(7)] = row(7, record(1.0, name="a", **asked), JobState.COMPLETED)
    text = await raw(endpoint, "/submit?like=7")
    assert "<code>--kind mine --retry oom:2</code>" in text
    assert 'name="hours" value="2"' in text
    assert '<input type="hidden" name="like" value="7">' in text
    address = "/submit?like=7&command=python+train.py&cwd=/home/ada&hours=3"
    for command, script in (("python+train.py", "train.py"), ("python+other.py", None)):
        found = re.search(r'data-body="([^"]+)"', await raw(endpoint, address.replace("python+train.py", command)))
        assert found is not None
        body = msgspec.json.decode(html.unescape(found[1]))
        assert (body["kind"], body["retry"], body["time_limit_s"]) == ("mine", ["oom:2"], 10800)
        assert body.get("script") == script
        assert "after" not in body


async def test_the_administration_follows_the_role(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    say_hosts(endpoint, ["rack-3", None, None], ["rack-4", time.time(), "new <fans>"])
    text = await page(endpoint, "/administration")
    for words in ("with the role admin", "rack-3", "silent", "drainednew <fans>", "Resume", "Set a quota", "user ada"):
        assert words in text, words
    _, made = await endpoint.post("/api/v1/tokens", {"user": OTHER, "role": "user"})
    async with endpoint.tcp.get("/administration", headers={"Authorization": f"Bearer {made['token']}"}) as answer:
        text = await answer.text()
        assert made["id"] in text
        for words in ("Set a quota", "/resume", "user ada"):
            assert words not in text


async def test_more_devices_than_fit_are_shown_by_host(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    many = [
        Device(DeviceId(f"GPU-{host}-{gpu}"), HostId(f"node{host}"), "nvml", "NVIDIA H100", 80 * 2**30, index=str(gpu))
        for host in range(125)
        for gpu in range(8)
    ]
    endpoint.store.set_devices(*endpoint.store.device_rows.values(), *many)
    text = await page(endpoint, "/timeline")
    for words in ("1,004 devices of 126 hosts", "rack-3 (4)", "node124 (8)"):
        assert words in text, words
    assert "gpu1: XID 13 3 times" in text, "a host has the marks of its devices"
    text = await page(endpoint, "/timeline?device=rack-3")
    assert "#42 resnet50-imagenet" in text
    assert "node1" not in text


async def test_bars_that_are_too_narrow_for_links_are_drawn_all_the_same(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    text = await raw(endpoint, "/timeline?hours=720")
    assert '<path class="narrow bar-mild" d="M' in text
    assert '<path class="narrow ended-badly" d="M' in text
