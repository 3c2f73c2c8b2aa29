"""A token of a user stands for that user over TCP until it expires or is revoked."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import msgspec
import pytest

from gpuq.api import connections, identity, tokens
from gpuq.api.identity import Role
from gpuq.errors import Unreachable
from gpuq.settings import Api, Settings
from tests.api.conftest import TOKEN, Endpoint, started
from tests.api.support import FaultyStore, MemoryStream, submission
from tests.support.patience import until

# A user of every Linux machine who is neither root nor, we hope, the one who runs the tests.
OTHER = "daemon"
NOW = 1_800_000_000.0


@pytest.fixture
def as_uid(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make the kernel name another user on the Unix socket, which is shared here."""
    api = replace(endpoint.settings.api, shared_socket="/run/nothing.sock")
    endpoint.context.settings = replace(endpoint.settings, api=api)

    class Peer:
        size, uid = 12, os.geteuid()

        def unpack(self, _: bytes) -> tuple[int, int, int]:
            return (1, self.uid, 1)

    peer = Peer()
    monkeypatch.setattr(identity, "_PEER", peer)
    return lambda uid: setattr(peer, "uid", uid)


async def make(endpoint: Endpoint, **body: Any) -> dict[str, Any]:
    status, made = await endpoint.post("/api/v1/tokens", body)
    assert status == 201, made
    return dict(made)


async def status(
    endpoint: Endpoint, token: str, method: str = "GET", path: str = "/api/v1/queue", **options: Any
) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    async with endpoint.tcp.request(method, path, headers=headers, **options) as answer:
        return answer.status


def test_a_text_is_its_own_tokens_only() -> None:
    (one, text), (other, other_text) = (tokens.new_token("ann", 7, "user", None, NOW, None) for _ in range(2))
    assert tokens.id_in(text) == one.id == tokens.id_in(tokens.cookie_of(one))
    assert tokens.is_text_of(text, one)
    assert not tokens.is_text_of(text, other)
    assert not tokens.is_text_of(other_text.replace(other.id, one.id), one)
    secret = text.removeprefix(f"gpuq_{one.id}_")  # which may have underscores of its own
    for kept in (one.digest, tokens.cookie_of(one)):
        assert secret not in kept
    for wrong in ("", "gpuq_", text[:-1], text + "x", f" {text}", text.upper(), f"{one.id}.{one.digest[:-1]}"):
        assert tokens.id_in(wrong) is None or not tokens.is_text_of(wrong, one), wrong


async def test_a_token_acts_as_its_user_with_its_role(endpoint: Endpoint) -> None:
    made = await make(endpoint, user=OTHER, note="laptop", lasts_s=60)
    assert await status(endpoint, made["token"]) == 200
    assert await status(endpoint, made["token"], path="/metrics") == 403
    assert await status(endpoint, made["token"], "POST", "/api/v1/jobs", json=submission()) == 201
    [job] = endpoint.store.job_rows.values()
    assert (job.record.owner, job.record.uid) == (OTHER, pwd.getpwnam(OTHER).pw_uid)


async def test_a_token_of_an_admin_may_have_less(endpoint: Endpoint) -> None:
    """The caller here is the user who runs gpuq."""
    for role, metrics, rollback in (("user", 403, 403), ("operator", 200, 403)):
        token = (await make(endpoint, role=role))["token"]
        assert await status(endpoint, token, path="/metrics") == metrics
        assert await status(endpoint, token, "POST", "/api/v1/models/rollback") == rollback


async def test_a_user_who_is_no_operator_any_more_has_no_such_token(endpoint: Endpoint) -> None:
    settings = endpoint.context.settings
    endpoint.context.settings = replace(settings, api=replace(settings.api, operators=(OTHER,)))
    token = (await make(endpoint, user=OTHER, role="operator"))["token"]
    assert await status(endpoint, token, path="/metrics") == 200
    endpoint.context.settings = settings
    assert await status(endpoint, token, path="/metrics") == 403


async def test_a_token_of_a_removed_account_is_none_of_a_later_one_of_its_name(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = pwd.getpwnam(OTHER)
    made = await make(endpoint, user=OTHER)
    assert await status(endpoint, made["token"]) == 200
    monkeypatch.setattr(pwd, "getpwnam", lambda _: pwd.struct_passwd((*account[:2], account.pw_uid + 1, *account[3:])))
    assert await status(endpoint, made["token"]) == 401
    [token] = endpoint.store.token_rows.values()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{endpoint.port}") as browser:
        cookie = {identity.cookie_name(TOKEN): tokens.cookie_of(token)}
        async with browser.get("/api/v1/queue", cookies=cookie) as answer:
            assert answer.status == 401
    # Of a token of an earlier release the account is not known.
    endpoint.store.token_rows[token.id] = msgspec.structs.replace(token, uid=None)
    assert await status(endpoint, made["token"]) == 200


async def test_an_expired_or_revoked_token_is_refused(endpoint: Endpoint) -> None:
    brief, lasting = await make(endpoint, lasts_s=60), await make(endpoint, lasts_s=None)
    assert await status(endpoint, brief["token"]) == 200
    at = endpoint.context.clock()
    endpoint.context.clock = lambda: at + 61
    assert await status(endpoint, brief["token"]) == 401
    assert await status(endpoint, lasting["token"]) == 200
    assert (await endpoint.post(f"/api/v1/tokens/{lasting['id']}/revoke"))[1]["revoked_at"] is not None
    assert await status(endpoint, lasting["token"]) == 401


async def test_a_token_with_a_wrong_secret_is_refused(endpoint: Endpoint) -> None:
    """Ids are shown by `gpuq token list`."""
    made = await make(endpoint)
    right, wrong = made["token"], made["token"][:-43] + "A" * 43
    assert tokens.id_in(right) == tokens.id_in(wrong) == made["id"]
    assert (await status(endpoint, right), await status(endpoint, wrong)) == (200, 401)
    async with endpoint.tcp.post("/login", data={"token": wrong}, allow_redirects=False) as answer:
        assert (answer.status, "Set-Cookie" in answer.headers) == (401, False)


async def test_a_cookie_with_the_id_of_a_token_and_a_wrong_proof_is_refused(endpoint: Endpoint) -> None:
    made = await make(endpoint)
    token = endpoint.store.token(made["id"])
    assert token is not None
    for value, expected in ((tokens.cookie_of(token), 200), (f"{token.id}.{'0' * 64}", 401)):
        headers = {"Cookie": f"{identity.cookie_name(TOKEN)}={value}"}
        async with endpoint.tcp.get("/api/v1/queue", headers=headers) as answer:
            assert answer.status == expected


async def test_a_token_expires_after_ninety_days_unless_it_is_to_last(endpoint: Endpoint) -> None:
    usual, lasting = await make(endpoint), await make(endpoint, lasts_s=None)
    made, expires = (datetime.fromisoformat(usual[name]) for name in ("made_at", "expires_at"))
    assert expires - made == timedelta(days=90)
    assert lasting["expires_at"] is None


async def test_a_browser_with_a_users_token_only_reads_and_ends_with_the_token(endpoint: Endpoint) -> None:
    made = await make(endpoint, user=OTHER)
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{endpoint.port}", cookie_jar=jar) as browser:
        async with browser.post("/login", data={"token": made["token"]}, allow_redirects=False) as answer:
            assert answer.status == 200
            assert made["token"] not in answer.headers["Set-Cookie"]
        async with browser.get("/") as answer:
            assert answer.status == 200
        async with browser.get("/metrics") as answer:
            assert answer.status == 403
        async with browser.post("/api/v1/jobs", json=submission()) as answer:
            assert answer.status == 403
        await endpoint.post(f"/api/v1/tokens/{made['id']}/revoke")
        async with browser.get("/") as answer:
            assert answer.status == 401


async def test_users_make_and_see_and_revoke_their_own_tokens_only(
    endpoint: Endpoint, as_uid: Callable[[int], None]
) -> None:
    admins = await make(endpoint)
    as_uid(pwd.getpwnam(OTHER).pw_uid)
    own = await make(endpoint)
    assert own["user"] == OTHER
    assert (await endpoint.post("/api/v1/tokens", {"user": admins["user"]}))[0] == 403
    assert (await endpoint.post("/api/v1/tokens", {"role": "operator"}))[0] == 403
    assert [one["id"] for one in (await endpoint.get("/api/v1/tokens"))[1]["tokens"]] == [own["id"]]
    assert (await endpoint.post(f"/api/v1/tokens/{admins['id']}/revoke"))[0] == 404
    as_uid(os.geteuid())
    assert {one["id"] for one in (await endpoint.get("/api/v1/tokens"))[1]["tokens"]} == {own["id"], admins["id"]}
    assert (await endpoint.post(f"/api/v1/tokens/{own['id']}/revoke"))[0] == 200


async def test_a_token_cannot_make_another(endpoint: Endpoint) -> None:
    """Otherwise one that was stolen would never expire."""
    made = await make(endpoint, role="admin")
    assert await status(endpoint, made["token"], "POST", "/api/v1/tokens", json={}) == 403
    assert await status(endpoint, made["token"], path="/api/v1/tokens") == 200


async def test_a_token_for_an_unknown_user_is_refused(endpoint: Endpoint) -> None:
    assert (await endpoint.post("/api/v1/tokens", {"user": "no-such-user"}))[0] == 404


def test_roles_come_from_the_settings() -> None:
    api = Api(operators=("ola",), admins=("ada",))
    users = {name: identity.role_of(name, 54_321, api) for name in ("ann", "ola", "ada")}
    assert users == {"ann": Role.USER, "ola": Role.OPERATOR, "ada": Role.ADMIN}
    assert identity.role_of("root", 0, api) is identity.role_of("me", os.geteuid(), api) is Role.ADMIN


async def test_what_was_begun_with_a_token_ends_with_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream, which asks for nothing more, would go on. Those of other tokens do, and so they do while the record is away."""
    monkeypatch.setattr(connections, "TOKENS_EVERY_S", 0.01)
    async with started(settings, FaultyStore(), MemoryStream()) as endpoint, asyncio.timeout(30):
        begun = []
        for _ in range(2):
            made = await make(endpoint, role="operator")
            stream = await endpoint.tcp.get(
                "/api/v1/events", params={"all": "1"}, headers={"Authorization": f"Bearer {made['token']}"}
            )
            await stream.content.readline()
            begun.append((made["id"], stream))
        (first, stream), (_, other) = begun
        refused: list[str] = []

        def refuse(token_id: str) -> None:
            refused.append(token_id)
            raise Unreachable("The database is away.")

        with monkeypatch.context() as away:
            away.setattr(endpoint.store, "token", refuse)
            await until(lambda: len(refused) > 4, story=lambda: "a look at the tokens")
        assert not stream.content.at_eof()
        assert (await endpoint.post(f"/api/v1/tokens/{first}/revoke", {}))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await stream.read()
        assert not other.content.at_eof()
        other.close()
