"""The endpoint answers identified callers only, and no other web page."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import socket
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from gpuq.api import identity
from gpuq.api.identity import Role, check_address, cookie_name, cookie_value, host_is_ours, origin_matches
from gpuq.api.routes import ROUTES
from gpuq.errors import NotPermitted
from gpuq.settings import Api
from tests.api.conftest import TOKEN, Endpoint

SECURITY = Path(__file__).parents[2] / "docs" / "security.md"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PATHS = sorted({route.path for route in ROUTES} | {"/nothing/here", "/api/v1/jobs/1/nothing"})
PROBES = {(method, path) for method in ("GET", "HEAD") for path in ("/livez", "/readyz")}


def real(path: str) -> str:
    return path.replace("{id}", "1").replace("{name}", "page.js")


async def status(endpoint: Endpoint, method: str, path: str, headers: dict[str, str] | None = None) -> int:
    async with endpoint.tcp.request(method, real(path), headers=headers, allow_redirects=False) as answer:
        return answer.status


async def test_no_route_answers_without_token_over_tcp(endpoint: Endpoint) -> None:
    for path in PATHS:
        for method in METHODS:
            found = await status(endpoint, method, path)
            if (method, path) in PROBES:
                assert found in (200, 503), (method, path)
            elif path in ("/livez", "/readyz"):
                assert found == 405, (method, path)
            else:
                assert found in (401, 403), (method, path, found)


@pytest.mark.parametrize(
    "header",
    [
        "Bearer wrong",
        "Bearer ",
        "Bearer",
        "",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer ü",
    ],
)
async def test_a_wrong_token_is_no_token(endpoint: Endpoint, header: str) -> None:
    for path in ("/api/v1/jobs", "/metrics", "/"):
        assert await status(endpoint, "GET", path, {"Authorization": header}) == 401


async def test_the_token_opens_every_route(endpoint: Endpoint) -> None:
    for path in ("/api/v1/jobs", "/metrics", "/", "/version", "/api/v1/gpus"):
        assert await status(endpoint, "GET", path, endpoint.bearer) == 200


async def test_a_foreign_host_or_origin_is_refused_on_every_method_even_with_the_token(endpoint: Endpoint) -> None:
    wrong = [
        {"Host": "evil.example"},
        {"Host": f"evil.example:{endpoint.port}"},
        {"Host": "127.0.0.1:1"},
        {"Host": f"127.0.0.1.evil.example:{endpoint.port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{endpoint.port + 1}"},
        {"Origin": f"http://localhost:{endpoint.port}"},
    ]
    for headers in wrong:
        for method in METHODS:
            for path in ("/api/v1/jobs", "/api/v1/jobs/1", "/api/v1/events", "/api/v1/models/train", "/livez", "/"):
                found = await status(endpoint, method, path, {**endpoint.bearer, **headers})
                assert found == 403, (method, path, headers, found)
    assert endpoint.store.requests(100) == []


async def test_our_own_origin_is_accepted(endpoint: Endpoint) -> None:
    headers = {**endpoint.bearer, "Origin": f"http://127.0.0.1:{endpoint.port}"}
    assert await status(endpoint, "GET", "/api/v1/jobs", headers) == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Host", "127.0.0.1:80"), ("Host", "127.0.0.1:80")],
        [("Host", "127.0.0.1:80"), ("Host", "evil.example")],
        [("Host", "127.0.0.1:80"), ("Origin", "http://127.0.0.1:80"), ("Origin", "http://evil.example")],
        [("Host", "127.0.0.1:80"), ("Origin", "http://127.0.0.1:80"), ("Origin", "http://127.0.0.1:80")],
    ],
)
def test_two_host_or_origin_headers_are_refused(headers: list[tuple[str, str]]) -> None:
    """`check_address` is called here because aiohttp refuses two Host headers before it."""
    with pytest.raises(NotPermitted):
        check_address(make_mocked_request("GET", "/", CIMultiDict(headers)), 80, ())
    check_address(make_mocked_request("GET", "/", CIMultiDict({"Host": "127.0.0.1:80"})), 80, ())


async def test_the_page_exchanges_the_token_for_a_cookie_that_only_reads(endpoint: Endpoint) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{endpoint.port}", cookie_jar=jar) as browser:
        async with browser.get("/", params={"token": "wrong"}, allow_redirects=False) as answer:
            assert answer.status == 401
        async with browser.get("/", params={"token": TOKEN}, allow_redirects=False) as answer:
            # A page of ours that goes on to the page: after a redirect from elsewhere a strict cookie is not sent.
            assert answer.status == 200
            assert 'content="0; url=/"' in await answer.text()
            said = answer.headers["Set-Cookie"]
            assert "HttpOnly" in said
            assert "SameSite=Strict" in said
            assert TOKEN not in said
        async with browser.get("/") as answer:
            assert answer.status == 200
        for headers in ({}, {"Origin": f"http://127.0.0.1:{endpoint.port}"}):
            async with browser.post("/api/v1/jobs", json={}, headers=headers) as answer:
                assert answer.status == 403
            async with browser.delete("/api/v1/jobs", headers=headers) as answer:
                assert answer.status == 403


async def test_a_forged_cookie_is_refused(endpoint: Endpoint) -> None:
    for value in ("", "x", TOKEN, cookie_value("another token of this kind")):
        found = await status(endpoint, "GET", "/", {"Cookie": f"{cookie_name(TOKEN)}={value}"})
        assert found == 401


async def test_a_browser_without_the_cookie_gets_a_login_page_on_every_address(endpoint: Endpoint) -> None:
    for path in ("/", "/api/v1/jobs", "/?token=wrong"):
        async with endpoint.tcp.get(path, headers={"Accept": "text/html,application/xhtml+xml"}) as answer:
            text = await answer.text()
            assert (answer.status, answer.content_type) == (401, "text/html")
        assert '<form method="post" action="/login">' in text
        assert "gpuq url" in text
        assert answer.headers["Referrer-Policy"] == "same-origin", "or the form would come with `Origin: null`"
        assert "form-action 'self'" in answer.headers["Content-Security-Policy"]
    for path in ("/static/page.css", "/static/icon.svg", "/static/welcome.js"):
        assert await status(endpoint, "GET", path) == 200


async def test_the_login_form_gives_the_cookie_for_the_token_alone(endpoint: Endpoint) -> None:
    origin = {"Origin": f"http://127.0.0.1:{endpoint.port}", "Accept": "text/html"}
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{endpoint.port}", cookie_jar=aiohttp.CookieJar(unsafe=True)
    ) as browser:
        for form in (
            {},
            {"token": ""},
            {"token": "wrong"},
            {"token": f"{TOKEN}x"},
            {"token": "x" * 5000},
            {"tokem": TOKEN},
        ):
            async with browser.post("/login", data=form, headers=origin, allow_redirects=False) as answer:
                assert (answer.status, "Set-Cookie" in answer.headers) == (401, False), form
        async with browser.post("/login", data={"token": TOKEN}, headers={"Origin": "http://evil.example"}) as answer:
            assert answer.status == 403
        async with browser.post(
            "/login", data={"token": f" {TOKEN} "}, headers=origin, allow_redirects=False
        ) as answer:
            assert (answer.status, answer.content_type) == (200, "text/html")
            assert TOKEN not in await answer.text()
            said = answer.headers["Set-Cookie"]
            assert "HttpOnly" in said
            assert "SameSite=Strict" in said
            assert TOKEN not in said
        async with browser.get("/") as answer:
            assert answer.status == 200


async def test_a_login_that_is_no_form_is_refused(endpoint: Endpoint) -> None:
    for body in (b"\xff\xfe", b"token=%ff", b"{}", b"--x", b"token"):
        headers = {"Content-Type": "multipart/form-data; charset=nonsense"}
        async with endpoint.tcp.post("/login", data=body, headers=headers) as answer:
            assert answer.status == 401, body


async def test_the_socket_is_private_and_knows_its_caller(endpoint: Endpoint) -> None:
    path = endpoint.settings.home.api_socket
    assert path.stat().st_mode & 0o777 == 0o600
    found, body = await endpoint.post("/api/v1/jobs", {"command": ["x"], "cwd": "/"})
    assert found == 201
    assert endpoint.store.job_rows[body["id"]].record.owner == identity.user_name(os.geteuid())


def test_another_user_on_the_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says who connected; we only change who we believe to be."""
    left, right = socket.socketpair()
    with left, right:
        assert identity.caller_at(left, Api()).uid == os.getuid()
        if os.getuid() == 0:
            monkeypatch.setattr(identity, "_PEER", _Peer(4242))
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 4242)
        with pytest.raises(NotPermitted):
            identity.caller_at(left, Api())


def test_an_operator_may_not_use_the_private_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_PEER", _Peer(4242))
    settings = Api(operators=("4242",))
    left, right = socket.socketpair()
    with left, right:
        with pytest.raises(NotPermitted):
            identity.caller_at(left, settings)
        assert identity.caller_at(left, replace(settings, shared_socket="/run/s.sock")).role is Role.OPERATOR


class _Peer:
    size = 12

    def __init__(self, uid: int) -> None:
        self.uid = uid

    def unpack(self, raw: bytes) -> tuple[int, int, int]:
        return (1, self.uid, 1)


@pytest.mark.parametrize(
    "host", ["localhost:80", "127.0.0.1:80", "[::1]:80", "127.8.9.1:80", "LOCALHOST:80", "localhost", "gpu.lab"]
)
def test_hosts_that_are_ours(host: str) -> None:
    assert host_is_ours(host, 80, ("gpu.lab",))


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":",
        ":80",
        "localhost:81",
        "localhost.evil:80",
        "evil:80",
        "0.0.0.0:80",
        "10.0.0.1:80",
        "127.0.0.1@evil:80",
        "::1:80",
        "[::1",
        "localhost:080",
        "gpu.lab.evil",
        "2130706433:80",
    ],
)
def test_hosts_that_are_not_ours(host: str) -> None:
    assert not host_is_ours(host, 80, ("gpu.lab",))


def test_origins() -> None:
    assert origin_matches("http://localhost:80", "localhost:80")
    assert not origin_matches("http://localhost:80.evil", "localhost:80")
    assert not origin_matches("file://", "localhost:80")


async def test_the_token_is_in_no_answer(endpoint: Endpoint) -> None:
    for path in (
        "/",
        "/metrics",
        "/api/v1/jobs",
        "/api/v1/openapi.json",
        f"/?token={TOKEN}",
        f"/nothing?token={TOKEN}",
    ):
        async with endpoint.tcp.get(path, headers=endpoint.bearer, allow_redirects=False) as answer:
            text = await answer.text() + str(answer.headers)
        assert TOKEN not in text, path


async def test_the_pages_key_manages_and_neither_runs_nor_lets_in(endpoint: Endpoint) -> None:
    cookie = {identity.cookie_name(TOKEN): identity.cookie_value(TOKEN)}
    key = identity.page_key(TOKEN)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{endpoint.port}", cookies=cookie) as browser:

        async def status_of(path: str, **headers: str) -> int:
            async with browser.post(path, json={"where": {"ids": [1]}}, headers=headers) as answer:
                return answer.status

        for verb in ("cancel", "hold", "release"):
            many = f"/api/v1/jobs/{verb}"
            assert await status_of(many) == 403
            for wrong in ("", key[:-1], identity.page_key("another"), identity.cookie_value(TOKEN)):
                assert await status_of(many, **{identity.PAGE_KEY: wrong}) == 403
            assert await status_of(many, **{identity.PAGE_KEY: key, "Origin": "http://evil.example"}) == 403
            assert await status_of(many, **{identity.PAGE_KEY: key}) == 200
            assert await status_of(f"/api/v1/jobs/1/{verb}", **{identity.PAGE_KEY: key}) == 404
        for path in (
            "/api/v1/jobs",
            "/api/v1/predict",
            "/api/v1/tokens",
            "/api/v1/hosts/x/add",
            "/api/v1/hosts/x/lost",
            "/api/v1/models/train",
        ):
            assert await status_of(path, **{identity.PAGE_KEY: key}) == 403, path
        for path in ("hosts/x/drain", "hosts/x/resume", "quotas", "quotas/remove", "tokens/x/revoke"):
            assert await status_of(f"/api/v1/{path}", **{identity.PAGE_KEY: key}) in (404, 422, 503), path
    async with endpoint.tcp.post("/api/v1/jobs/hold", json={}, headers={identity.PAGE_KEY: key}) as answer:
        assert answer.status == 401, "the key without the cookie is nothing"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_the_pages_key_is_for_post_alone(endpoint: Endpoint, method: str) -> None:
    assert await page_action(endpoint, method, "/api/v1/jobs/hold") == 403


@pytest.mark.parametrize(
    "path", ["/api/v1/jobs/hold/x", "/api/v1/jobs/1/holdx", "/api/v1/quotas/remove/x", "/x/api/v1/quotas"]
)
async def test_the_pages_key_is_for_the_whole_path(endpoint: Endpoint, path: str) -> None:
    assert await page_action(endpoint, "POST", path) == 403


async def page_action(endpoint: Endpoint, method: str, path: str) -> int:
    """The answer to the page with its cookie and its key."""
    cookie = f"{cookie_name(TOKEN)}={cookie_value(TOKEN)}"
    return await status(endpoint, method, path, {"Cookie": cookie, identity.PAGE_KEY: identity.page_key(TOKEN)})


async def test_the_pages_key_allows_exactly_the_calls_that_the_document_names(endpoint: Endpoint) -> None:
    documented = set(re.findall(r"`POST (/api/v1/[^`]+)`", SECURITY.read_text().partition("## A socket")[0]))
    cookie = {identity.cookie_name(TOKEN): identity.cookie_value(TOKEN)}
    key = {identity.PAGE_KEY: identity.page_key(TOKEN)}
    paths = [route.path for route in ROUTES if route.method == "POST" and route.path != identity.LOGIN]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{endpoint.port}", cookies=cookie) as browser:

        async def is_allowed(path: str) -> bool:
            async with browser.post(real(path), data=b"no JSON", headers=key) as answer:
                return "may only read" not in await answer.text()

        allowed = await asyncio.gather(*map(is_allowed, paths))
    assert {path for path, may in zip(paths, allowed, strict=True) if may} == documented


def test_a_user_whose_name_could_not_be_found_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pwd.getpwuid(os.getuid())

    def missing(_: int) -> pwd.struct_passwd:
        raise KeyError

    monkeypatch.setattr(identity, "_names", {})
    monkeypatch.setattr(pwd, "getpwuid", missing)
    assert identity.user_name(54_321) == "54321"
    monkeypatch.setattr(pwd, "getpwuid", lambda _: found)
    assert identity.user_name(54_321) == found.pw_name


def test_a_new_account_with_the_number_of_a_removed_one_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had the other's jobs and role until the endpoint was restarted."""
    account, now, looked_up = pwd.getpwuid(os.getuid()), [1000.0], []

    def found(uid: int) -> pwd.struct_passwd:
        looked_up.append(uid)
        if not names:
            raise KeyError
        return pwd.struct_passwd((names[0], *account[1:]))

    names = ["ann"]
    monkeypatch.setattr(identity, "_names", {})
    monkeypatch.setattr(pwd, "getpwuid", found)
    monkeypatch.setattr(identity.time, "monotonic", lambda: now[0])
    assert [identity.user_name(1005) for _ in range(100)] == ["ann"] * 100
    assert looked_up == [1005]
    names = ["bob"]
    now[0] += 6
    assert identity.user_name(1005) == "bob"
    names = []  # the directory of users does not answer
    now[0] += 6
    assert [identity.user_name(1005) for _ in range(100)] == ["bob"] * 100
    assert len(looked_up) == 3, "each may wait for that directory, and all requests with it"
