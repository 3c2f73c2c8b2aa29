"""Bad requests of every sort get a problem document: never a traceback, never a 5xx."""

from __future__ import annotations

import asyncio
import getpass
import io
import json
import threading
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpuq.api import connections, context
from gpuq.api.contract import bodies, limits
from gpuq.errors import Unreachable
from gpuq.messages.submission import Submission
from tests.api.conftest import Endpoint
from tests.api.support import describe, submission

KEYS = {"type", "title", "status", "detail", "hint", "exit_code"}


async def problem(endpoint: Endpoint, method: str, path: str, **options: object) -> tuple[int, dict[str, object]]:
    async with endpoint.socket.request(method, path, **options) as answer:  # type: ignore[arg-type]
        text = await answer.text()
        assert answer.status < 500, text
        assert "Traceback" not in text
        assert "aiohttp" not in text
        assert answer.content_type == "application/problem+json", (path, text)
        body = json.loads(text)
        assert set(body) == KEYS
        assert body["status"] == answer.status
        assert body["detail"]
        assert body["hint"]
        return answer.status, body


async def test_requests_about_many_jobs_wait_for_the_users_earlier_ones(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dispatcher handles those of all users in their order, so others would wait behind any number of them."""
    monkeypatch.setattr(context, "MOST_REQUESTS", 2)
    monkeypatch.setattr(context, "ANSWER_WITHIN_S", 1.0)
    for _ in range(3):
        await endpoint.post("/api/v1/jobs", submission())
    store, many = endpoint.store, {"where": {"owner": "me"}}
    store.request_rows.clear()
    assert (await endpoint.post("/api/v1/jobs/cancel?wait=0", many))[0] == 202
    edit = {**many, "edit": {"priority": 5}}
    status, said = await problem(endpoint, "POST", "/api/v1/jobs/edit?wait=0", json=edit)
    assert (status, "3 requests of yours about jobs wait" in str(said["detail"])) == (429, True)
    assert (await endpoint.post("/api/v1/jobs/1/cancel?wait=0"))[0] == 202
    asyncio.get_running_loop().call_later(0.2, store.request_rows.clear)
    assert (await endpoint.post("/api/v1/jobs/cancel?wait=0", many))[0] == 202
    assert store.count_requests(getpass.getuser()) == 3


IDS = [
    "..",
    "%2e%2e",
    "%2e%2e%2fetc",
    "%00",
    "1%00",
    "-1",
    "1.0",
    "1e3",
    "0x1",
    "NaN",
    "9" * 19,
    "9" * 4000,
    "%C3%A9",
    "%ff",
    "１",
    "1%0a",
    " 1",
    "1-1",
    "%2F",
    "4711",
    "{id}",
    "null",
]


@pytest.mark.parametrize("job", IDS)
@pytest.mark.parametrize("rest", ["", "/logs", "/explanation"])
async def test_ids_that_name_no_job(endpoint: Endpoint, job: str, rest: str) -> None:
    from yarl import URL

    url = URL(f"http://gpuq/api/v1/jobs/{job}{rest}", encoded=True)
    status, _ = await problem(endpoint, "GET", str(url)) if "%" not in job else await problem(endpoint, "GET", url)  # type: ignore[arg-type]
    assert status in (400, 404)


async def test_an_unknown_job_has_exit_code_3(endpoint: Endpoint) -> None:
    for verb in ("cancel", "hold", "release"):
        status, body = await problem(endpoint, "POST", f"/api/v1/jobs/99/{verb}")
        assert (status, body["exit_code"]) == (404, 3)
        assert "99" in str(body["detail"])


DEVICES = {
    "{'a': None}": "must be at most 100 values, each the id of a device, as in `GPU-6f0c…` or `node2/cpu0`.",
    "0": "`ids` is '0'; it must be",
    "null": "`ids` is 'null'; it must be",
    "/".join(["a"] * 200): "it must be at most 100 values",
    ",".join(f"GPU-{number}" for number in range(101)): "`ids` has 101 values; it must be at most 100 values",
}


@pytest.mark.parametrize("ids", DEVICES, ids=lambda ids: ids[:20])
async def test_ids_of_devices_that_none_can_have_are_refused(endpoint: Endpoint, ids: str) -> None:
    status, body = await problem(endpoint, "GET", "/api/v1/gpus", params={"ids": ids})
    assert (status, DEVICES[ids] in str(body["detail"])) == (422, True), body["detail"]


async def test_as_many_and_as_long_ids_of_devices_as_are_allowed_are_read(endpoint: Endpoint) -> None:
    ids = ",".join(f"{'h' * 61}{number:03}/{'/' * 64}" for number in range(100))
    for wanted in (ids, "GPU-7,MIG-GPU-6f0c/1/0,node2/cpu0"):
        async with endpoint.socket.get("/api/v1/gpus", params={"ids": wanted}) as answer:
            assert (answer.status, await answer.json()) == (200, [])


BODIES: list[bytes] = [
    b"",
    b"{",
    b"null",
    b"1",
    b'"x"',
    b"\xff\xfe",
    b'{"command": ["\xff"], "cwd": "/"}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"command": [], "cwd": "/"}',
    b'{"command": "python", "cwd": "/"}',
    b'{"command": ["x"], "cwd": "relative"}',
    b'{"command": ["x"], "cwd": "/", "unknown": 1}',
    b'{"command": ["x"], "cwd": "/", "gpus": "1"}',
    b'{"command": ["x"], "cwd": "/", "gpus": 1e400}',
    b'{"command": ["x"], "cwd": "/", "gpu_memory": -1}',
    b'{"command": ["x"], "cwd": "/", "max_slowdown": 15}',
    b'{"command": ["x"], "cwd": "/", "max_slowdown": NaN}',
    b'{"command": ["x\\u0000"], "cwd": "/"}',
    b'{"command": ["x"], "cwd": "/", "project": "a\\u0000b"}',
    b'{"command": ["x"], "cwd": "/", "env": {"A": 1}}',
    b'{"command": ["x"], "cwd": "/", "env": {"A\\u0000": "1"}}',
    b'[{"command": ["x"], "cwd": "/", "project": "a\\u0000b"}]',
    b'{"command": ["\\udc00"], "cwd": "/"}',
    b'[{"command": ["x"], "cwd": "/"}, 3]',
    b'{"command": ["x"], "cwd": "/"} trailing',
    b"2C{}",
    b"2.0 \xff",
    b'{"command": 1' + b"[" * 5000,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:40]))
@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/predict"])
async def test_bad_bodies(endpoint: Endpoint, body: bytes, path: str) -> None:
    status, reply = await problem(endpoint, "POST", path, data=body)
    assert status in (400, 422)
    assert reply["exit_code"] == 2
    assert endpoint.store.job_rows == {}


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/predict", "/api/v1/jobs/cancel"])
async def test_a_body_that_is_too_large(endpoint: Endpoint, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST_SUBMISSIONS", "MOST_SUBMISSION"):
        monkeypatch.setattr(bodies, name, limits.MOST)
    most = limits.MOST

    async def unannounced() -> AsyncIterator[bytes]:
        yield b" " * (most + 1)

    for data in (io.BytesIO(b" " * (most + 1)), unannounced()):
        status, reply = await problem(endpoint, "POST", path, data=data)
        assert (status, reply["exit_code"]) == (413, 2)
        assert f"larger than {most // 2**20} MiB" in reply["detail"]


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/predict"])
async def test_a_job_with_an_endless_environment_is_refused_before_lists_have_to_read_it(
    endpoint: Endpoint, path: str
) -> None:
    """An array's tasks are read with a copy each."""
    long = {f"V{number}": "x" * 131_000 for number in range(40)}
    fewer = {f"V{number}": "x" * 131_000 for number in range(9)}
    sizes = "The submission takes {} MiB, and 1.25 MiB is the limit. Of it, {} {} MiB."
    for job, said in (
        (submission(env=long), sizes.format("5", "40 variables take", "5")),
        (submission(env=long, array={"tasks": "0-3"}), sizes.format("5", "40 variables take", "5")),
        (submission(command=["x" * 131_000] * 11), sizes.format("1.37", "the command takes", "1.37")),
        (submission(env=fewer, stdin="y" * 2**18), sizes.format("1.37", "9 variables take", "1.12")),
    ):
        wanted = "/api/v1/jobs" if "array" in job else path
        status, reply = await problem(endpoint, "POST", wanted, data=io.BytesIO(json.dumps(job).encode()))
        assert (status, reply["detail"]) == (413, said)
        assert "`--pass-env`" in str(reply["hint"])
    assert not endpoint.store.job_rows


async def test_a_script_of_a_mebibyte_on_standard_input_is_taken(endpoint: Endpoint) -> None:
    script = "print('a line as others are')\n" * 40_000
    job = submission(stdin=script[: 2**20], array={"tasks": "0-1", "params": {"A": ["x" * 100_000, "y" * 100_000]}})
    async with endpoint.socket.post("/api/v1/jobs", data=io.BytesIO(json.dumps(job).encode())) as answer:
        assert answer.status == 201


async def test_bodies_of_one_user_take_no_more_memory_than_theirs(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_OF_USER", 100_000)
    user, go_on = getpass.getuser(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield json.dumps(submission()).encode() + b" " * 80_000
        await go_on.wait()

    first = asyncio.create_task(endpoint.socket.post("/api/v1/jobs", data=slowly()))
    while endpoint.context.body_bytes[user] < 80_000:
        await asyncio.sleep(0)
    second = json.dumps(submission()).encode() + b" " * 30_000
    status, reply = await problem(endpoint, "POST", "/api/v1/jobs", data=second)
    assert (status, "Your open requests have more than" in reply["detail"]) == (429, True)
    assert reply["exit_code"] == 4
    go_on.set()
    assert (await first).status == 201
    async with endpoint.socket.post("/api/v1/jobs", data=second) as answer:
        assert answer.status == 201
    assert endpoint.context.body_bytes[user] == 0


async def test_other_requests_do_not_wait_while_a_long_submission_is_looked_at(endpoint: Endpoint) -> None:
    begun, answered = threading.Event(), threading.Event()

    def slowly(asked: Submission, owner: str) -> tuple[str, str, dict[str, Any]]:
        begun.set()
        assert answered.wait(5), "no other request was answered meanwhile"
        return describe(asked, owner)

    endpoint.context.describe = slowly
    body = submission(command=["python", "train.py", "x" * 100_000])
    sending = [asyncio.create_task(endpoint.post(path, body)) for path in ["/api/v1/jobs", "/api/v1/predict"] * 4]
    while not begun.is_set():
        await asyncio.sleep(0)
    for path in ("/livez", *["/api/v1/jobs"] * 8):
        async with endpoint.socket.get(path) as answer:
            assert answer.status == 200
    answered.set()
    assert [status for status, _ in await asyncio.gather(*sending)] == [201, 200] * 4


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "n\n"},
        {"script_sha256": "0" * 63 + "\n"},
        {"snapshot": {"key": "0" * 16 + "\n", "folder": "/a", "taken_from": "/b"}},
        {"sync": {"tree": "0" * 64 + "\n", "folder": "/a"}},
        {"hints": {"framework": "torch\n"}},
        {"array": {"tasks": "1\n"}},
        {"array": {"tasks": "1", "params": {"a\n": ["1"]}}},
        {"notify": ["end:a\n"]},
        {"retry": ["any:9999\n"]},
        {"after": ["ok:12\n"]},
        {"after": ["corr:12\n"]},
        {"constraints": {"hosts": ["a\n"]}},
        {"constraints": {"features": [["a\n"]]}},
    ],
)
async def test_a_text_of_one_line_has_no_newline_at_its_end_either(endpoint: Endpoint, fields: dict[str, Any]) -> None:
    status, reply = await problem(endpoint, "POST", "/api/v1/jobs", json=submission(**fields))
    assert (status, "The submission is not sound" in str(reply["detail"])) == (422, True)
    assert not endpoint.store.job_rows


async def test_the_document_has_no_expression_that_only_python_knows(endpoint: Endpoint) -> None:
    _, document = await endpoint.get("/api/v1/openapi.json")
    assert "\\Z" not in json.dumps(document)
    assert document["components"]["schemas"]["SnapshotPlace"]["properties"]["key"]["pattern"] == "^[0-9a-f]{16}$"


async def test_unknown_addresses_and_wrong_methods(endpoint: Endpoint) -> None:
    assert (await problem(endpoint, "GET", "/api/v2/jobs"))[0] == 404
    assert (await problem(endpoint, "GET", "/static/../app.py"))[0] == 404
    assert (await problem(endpoint, "GET", "/static/handlers.py"))[0] == 404
    status, reply = await problem(endpoint, "DELETE", "/api/v1/jobs")
    assert status == 405
    assert "GET" in str(reply["detail"])
    async with endpoint.socket.put("/api/v1/jobs") as answer:
        assert "POST" in answer.headers["Allow"]


FILTERS = [
    "limit=0",
    "limit=x",
    "limit=1001",
    "limit=-1",
    "limit=١",
    "after=1.5",
    "after=%00",
    "state=SLEEPING",
    "ids=1,x",
    "ids=" + ",".join(["1"] * 1001),
    "order=up",
]


@pytest.mark.parametrize("query", FILTERS, ids=lambda query: query[:20])
async def test_bad_filters(endpoint: Endpoint, query: str) -> None:
    status, _ = await problem(endpoint, "GET", f"/api/v1/jobs?{query}")
    assert status in (404, 422)


async def test_bad_ways_to_resume(endpoint: Endpoint) -> None:
    for after in ("-1", "x", "9" * 19, "²", "5-", "5-x", "-5", "5-6-7"):
        status, reply = await problem(endpoint, "GET", f"/api/v1/events?after={after}")
        assert status == 422
        assert "it must be the `id` or the number of the event" in str(reply["detail"])


async def test_events_of_a_job_that_does_not_exist(endpoint: Endpoint) -> None:
    status, reply = await problem(endpoint, "GET", "/api/v1/events?job=999999")
    assert (status, reply["detail"]) == (404, "There is no job 999999.")


async def test_requests_that_are_no_http_are_answered_without_a_traceback(endpoint: Endpoint) -> None:
    for raw in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nA" + b"a" * 9000 + b"\r\n\r\n",
    ):
        reader, writer = await asyncio.open_unix_connection(str(endpoint.settings.home.api_socket))
        writer.write(raw)
        async with asyncio.timeout(60):
            answer = await reader.read(4096)
        writer.close()
        assert b"Traceback" not in answer
        assert b" 500 " not in answer
    assert (await endpoint.get("/version"))[0] == 200


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.dictionaries(
        st.sampled_from(
            ["command", "cwd", "env", "name", "kind", "gpus", "gpu_memory", "share", "priority", "time_limit_s"]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    )
)
async def test_any_json_is_taken_or_refused_but_never_breaks(endpoint: Endpoint, changes: dict[str, object]) -> None:
    body = json.dumps({**submission(), **changes}).encode()
    async with endpoint.socket.post("/api/v1/jobs", data=body) as answer:
        assert answer.status in (201, 400, 422), await answer.text()


async def test_what_is_empty_between_commas_is_passed_over_and_counts(endpoint: Endpoint) -> None:
    """A form whose field is empty sends `state=`, and the document says so."""
    for words in ("state=", "state=&state=", "ids=,,", "state=,RUNNING,"):
        assert (await endpoint.get(f"/api/v1/jobs?{words}"))[0] == 200, words
    status, problem = await endpoint.get(f"/api/v1/jobs?ids={1000 * ','}")
    assert (status, problem["detail"].startswith("`ids` has 1,001 values; it must be at most 1000")) == (422, True)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip"])
async def test_a_compressed_body_is_refused_unread_also_from_a_caller_without_a_token(
    endpoint: Endpoint, encoding: str
) -> None:
    """Two megabytes of it would become two gigabytes."""
    bomb = b"".join(zlib.compress(b" " * 2**20) for _ in range(3))
    for path in ("/login", "/livez", "/api/v1/jobs", "/api/v1/predict", "/api/v1/trees/files"):
        for session in (endpoint.tcp, endpoint.socket):
            async with session.post(path, data=bomb, headers={"Content-Encoding": encoding}) as answer:
                refused = await answer.json(content_type=None)
            assert (answer.status, refused["hint"]) == (415, "Send it uncompressed, without `Content-Encoding`."), path
    headers = {"Content-Encoding": "Identity"}
    assert (await endpoint.post("/api/v1/jobs", submission(), headers=headers))[0] == 201


async def test_a_body_that_does_not_come_is_not_waited_for(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither without a token, at the login form, nor from a user who sends a byte now and then."""
    monkeypatch.setattr(connections, "BODY_BEGINS_WITHIN_S", 0.05)
    token = f"Authorization: {endpoint.bearer['Authorization']}\r\n"
    asked = [("/login", ""), ("/api/v1/jobs", token), ("/api/v1/trees/files", token)]
    for answer in await asyncio.gather(*(begun(endpoint, path, header) for path, header in asked)):
        assert b" 408 " in answer.split(b"\r\n")[0]
        assert b"over a faster connection" in answer


async def test_a_body_that_no_handler_reads_ends_its_connection(endpoint: Endpoint) -> None:
    assert b" 401 " in await begun(endpoint, "/api/v1/jobs", "")


async def begun(endpoint: Endpoint, path: str, header: str) -> bytes:
    """All that comes back for a body that is announced and never comes, until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost:{endpoint.port}\r\nContent-Length: 1000\r\n{header}\r\n"
    writer.write(f"{head}token=".encode())
    async with asyncio.timeout(8):
        answer = await reader.read()
    writer.close()
    return answer


async def test_an_expectation_that_is_not_met_is_a_problem_too(endpoint: Endpoint) -> None:
    answer = problem(endpoint, "POST", "/api/v1/jobs", json=submission(), headers={"Expect": "tea"})
    assert (await answer)[0] == 417
    async with endpoint.socket.post("/api/v1/jobs", json=submission(), expect100=True) as taken:
        assert taken.status == 201


async def test_head_is_answered_wherever_a_whole_answer_is_got(endpoint: Endpoint) -> None:
    for path in ("/livez", "/", "/queue", "/static/page.css", "/metrics", "/api/v1/jobs", "/api/v1/openapi.json"):
        async with endpoint.socket.head(path) as answer, endpoint.socket.get(path) as whole:
            assert (answer.status, answer.content_type) == (200, whole.content_type), path
            assert await answer.read() == b""
    assert (await problem(endpoint, "GET", "/api/v1/jobs/4711"))[0] == 404
    async with endpoint.socket.head("/api/v1/jobs/4711") as answer:
        assert answer.status == 404
    async with endpoint.socket.head("/api/v1/events") as answer:
        assert answer.status == 405, "a stream has no end"


async def test_a_browser_gets_a_problem_as_a_page(endpoint: Endpoint) -> None:
    browser = {"Accept": "text/html,*/*;q=0.8"}
    for path, status, sentence in (
        ("/jobs/999", 404, "There is no job 999."),
        ("/nowhere?<b>", 404, "Nothing is served at /nowhere"),
        ("/queue?page=x", 422, "it must be a whole number from 1 to 1000000."),
        ("/login", 405, "/login does not take GET; it takes POST."),
    ):
        async with endpoint.socket.get(path, headers=browser) as answer:
            text = await answer.text()
            assert (answer.status, answer.content_type) == (status, "text/html"), text
        assert sentence in text
        assert 'aria-label="Pages"' in text, "the frame leads on"
        assert "<b>" not in text.replace("<b>0</b>", "")
        assert "page.js" not in text, "it would be asked for again, and again be a problem"
    async with endpoint.socket.get("/api/v1/jobs/999", headers=browser) as answer:
        assert answer.content_type == "application/problem+json", "the API's other answers are JSON in a browser, too"


async def test_a_browser_gets_a_page_without_the_frame_while_the_record_is_away(endpoint: Endpoint) -> None:
    endpoint.store.refuse = Unreachable("The database does not answer.")
    async with endpoint.socket.get("/queue", headers={"Accept": "text/html"}) as answer:
        assert (answer.status, answer.content_type) == (503, "text/html")
        assert "The database does not answer." in await answer.text()
