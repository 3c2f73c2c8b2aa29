"""The listener for other hosts: who may do what, over real TLS. Every call × every kind of caller."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest
from rq.job import Job

from gpuq.adapters.certificates import Authority, new_request
from gpuq.adapters.main_host import PREFIX
from gpuq.adapters.redis.queue import RqOrderSender
from gpuq.adapters.synced import SyncedTrees
from gpuq.api.hosts import calls, joining, listener, package, tls_site
from gpuq.api.hosts.calls import CALLS
from gpuq.core.state.attempt import AttemptId
from gpuq.errors import GpuqError
from gpuq.messages import wire
from gpuq.messages.submission import SyncedTree
from tests.adapters.store.samples import launched
from tests.api.hosts.conftest import Main
from tests.support.patience import Stopwatch
from tests.support.redis import ThrowawayRedis

ALPHA, BETA = "alpha", "beta"
ID = "0" * 32
BODIES: dict[str, Any] = {
    "/lease": {"instance": "home"},
    "/claim": {"job": 1, "attempt": 1, "instance": "home", "boot_id": "boot", "at": 1.0},
    "/certificate": {"request": new_request(ALPHA)[1]},
    "/messages": [wire.encode(wire.HostReport(ALPHA, 0, {})).decode()],
    "/acknowledgement": None,
    "/order": None,
    "/log-request": None,
    "/log-answer": {"request": ID, "answer": "{}"},
}


def of_alpha(main: Main, redis_server: ThrowawayRedis) -> None:
    """What waits for alpha: an attempt to claim, an order, an acknowledgement and a request for a log."""
    launched(main.store, host=ALPHA)
    sender = RqOrderSender(redis_server.url)
    sender.send(wire.Order(ALPHA, 1, 1, 1, wire.Verb.LAUNCH), "key")
    sender.close()
    with redis_server.client() as client:
        client.set(wire.acknowledged_key(ALPHA), "for alpha")
        client.rpush(wire.log_requests_key(ALPHA), "for alpha")


# --- every call × every caller -----------------------------------------------------------------------------------------


CALLERS = ["own", "other host", "none", "expired", "foreign authority", "forgotten", "replaced"]


@pytest.fixture
def callers(main: Main, tmp_path: Any) -> dict[str, str | None]:
    """The certificates, each with its key, by the name of the caller. All but `other host` say that they are alpha."""
    before = Authority(main.home.tls, lambda: time.time() - 400 * 86_400)
    foreign = Authority(tmp_path / "foreign", time.time)
    replaced = main.joined(ALPHA)
    main.forget(ALPHA)
    return {
        "own": main.joined(ALPHA),
        "other host": main.joined(BETA),
        "none": None,
        "expired": main.certificate(ALPHA, before),
        "foreign authority": main.certificate(ALPHA, foreign),
        "forgotten": main.certificate("gone"),
        "replaced": replaced,
    }


async def test_every_call_by_every_caller(
    main: Main, redis_server: ThrowawayRedis, callers: dict[str, str | None]
) -> None:
    """The table of docs/security.md: what alpha may, no other caller may in its name."""
    of_alpha(main, redis_server)
    assert set(BODIES) == set(CALLS), "a new call belongs into this table"
    served = {route.resource.canonical for route in main.app.router.routes() if route.resource}
    assert served == {PREFIX + path for path in CALLS} | {
        *("/join.py", "/invitation", "/package", "/join", f"{PREFIX}/channel/{{id}}", f"{PREFIX}/tree")
    }
    got: dict[str, dict[str, tuple[int, Any]]] = {caller: {} for caller in CALLERS}
    for caller in reversed(CALLERS):  # the host itself comes last, and finds all that is its own
        for path in CALLS:
            if path != "/certificate" or caller not in {"own", "other host"}:
                got[caller][path] = await main.call(path, BODIES[path], callers[caller])

    for caller in ("none", "forgotten", "replaced"):
        assert {status for status, _ in got[caller].values()} == {401}, caller
    for caller in ("expired", "foreign authority"):
        assert {status for status, _ in got[caller].values()} == {0}, "TLS refuses it"
    other = got["other host"]
    assert other["/messages"][0] == 403
    assert {path: answer[1] for path, answer in other.items() if path not in {"/lease", "/messages"}} == dict.fromkeys(
        ("/claim", "/acknowledgement", "/order", "/log-request", "/log-answer")
    )
    own = got["own"]
    assert {status for status, _ in own.values()} == {200}
    assert (own["/acknowledgement"][1], own["/log-request"][1]) == ("for alpha", "for alpha")
    assert own["/claim"][1]["record"]["owner"] == "ada"
    assert own["/order"][1]["order"]["host"] == ALPHA
    assert set(main.store.lease_rows) == {ALPHA, BETA}, "each has the lease of its own name"


async def test_the_files_that_were_sent_for_an_attempt_are_for_its_host_while_it_runs(
    main: Main, callers: dict[str, str | None]
) -> None:
    tree, missing = SyncedTrees(main.home, "ada", 10_000).keep([])
    assert not missing
    job, number = launched(main.store, host=ALPHA, sync=SyncedTree(tree=tree, folder="/home/ada"))
    asked = {"job": job, "attempt": number}
    assert (await main.call("/tree", asked, callers["own"]))[0] == 403, "it has not claimed it"
    assert main.store.claim(AttemptId(job, number), ALPHA, "home", "boot", 1.0) is not None
    got = {caller: (await main.call("/tree", asked, pem))[0] for caller, pem in callers.items()}
    assert got == {
        "own": 200,
        "other host": 403,
        "none": 401,
        "expired": 0,
        "foreign authority": 0,
        "forgotten": 401,
        "replaced": 401,
    }
    for other in (
        {"job": job, "attempt": 2},
        {"job": job + 1, "attempt": 1},
        {"job": launched(main.store, host=ALPHA).job, "attempt": 1},
    ):
        assert (await main.call("/tree", other, callers["own"]))[0] == 403


@pytest.mark.parametrize(
    "key", [f"rq:queue:{wire.queue_name(ALPHA)}", "rq:job:launch-1-1-1", wire.log_requests_key(ALPHA)]
)
async def test_a_host_gets_its_mail_after_a_key_had_another_type(
    main: Main, redis_server: ThrowawayRedis, key: str
) -> None:
    pem = main.joined(ALPHA)
    with redis_server.client() as client:
        client.rpush(f"rq:queue:{wire.queue_name(ALPHA)}", "launch-1-1-1")
        client.delete(key)
        client.set(key, "of another program")
    for path in ("/order", "/log-request"):
        assert await main.call(path, None, pem) == (200, None)
    of_alpha(main, redis_server)
    assert (await main.call("/order", None, pem))[1]["order"]["host"] == ALPHA
    assert (await main.call("/log-request", None, pem)) == (200, "for alpha")


async def test_a_captured_host_makes_a_thousand_attempts_to_act_for_another(
    main: Main, redis_server: ThrowawayRedis
) -> None:
    """Everything that beta can send, naming alpha wherever a name, a number or an id can stand."""
    of_alpha(main, redis_server)
    main.joined(ALPHA)
    main.joined(BETA)
    main.store.lease_host(ALPHA, "home of alpha")
    beta = main.store.joined_host(BETA)
    assert beta is not None
    seeded = random.Random(14)
    stolen = 0

    async def attempt() -> Any:
        path = seeded.choice([path for path in CALLS if path not in {"/certificate", "/order", "/log-request"}])
        call, _ = CALLS[path]
        given = BODIES[path]
        if path == "/claim":
            given = calls.ClaimBody(
                seeded.randint(1, 3), seeded.randint(1, 3), seeded.choice(["home of alpha", "x"]), "b", 1.0
            )
        elif path == "/lease":
            given = calls.LeaseBody(seeded.choice(["home of alpha", ALPHA]))
        elif path == "/messages":
            key = seeded.choice(["", "key of beta"])
            report = wire.HostReport(ALPHA, seeded.randint(0, 9), {"host": ALPHA})
            event = wire.Spooled(ALPHA, seeded.randint(1, 9), "Exited", {"attempt": [1, 1]})
            given = [wire.encode(wire.seal(seeded.choice([report, event]), key)).decode()]
        elif path == "/log-answer":
            given = calls.LogAnswerBody(ID, wire.encode(wire.LogAnswer(ALPHA, ID, b"forged")).decode())
        return await call(calls.HostCall(main.context, beta, "1", given))

    for _ in range(1000):
        try:
            stolen += await attempt() not in (None, {"lease": _lease(main), "renew": False})
        except GpuqError:
            continue
    assert stolen == 0
    assert main.store.attempts(1)[0].claimed_at is None  # type: ignore[arg-type]
    assert main.store.lease_rows[ALPHA].instance == "home of alpha"
    with redis_server.client() as client:
        assert client.xlen(wire.INBOX) == 0
        assert client.get(wire.acknowledged_key(ALPHA)) == b"for alpha"
        assert client.llen(wire.log_requests_key(ALPHA)) == 1
        assert client.exists(Job.key_for("launch-1-1-1")) == 1


def _lease(main: Main) -> dict[str, Any]:
    lease = main.store.lease_rows[BETA]
    return {"instance": lease.instance, "renewed_at": lease.renewed_at}


async def test_a_body_of_another_shape_is_refused(main: Main) -> None:
    pem = main.joined(ALPHA)
    for path in CALLS:
        for body in ({"job": "1; DROP TABLE"}, [7], {"request": "../x", "answer": ""}, "text"):
            status, problem = await main.call(path, body, pem)
            assert status in {400, 422}, (path, body, problem)


# --- certificates ------------------------------------------------------------------------------------------------------


async def test_the_first_use_of_a_new_certificate_ends_the_former_one(main: Main) -> None:
    former = main.joined(ALPHA)
    main.rotate(ALPHA)
    assert (await main.call("/lease", BODIES["/lease"], former))[1]["renew"] is True
    key, request = new_request(ALPHA)
    _, answer = await main.call("/certificate", {"request": request}, former)
    assert (await main.call("/lease", BODIES["/lease"], former))[0] == 200, "the host may not have stored the new one"

    new = key + answer["certificate"]
    assert (await main.call("/lease", BODIES["/lease"], new))[1]["renew"] is False
    assert (await main.call("/lease", BODIES["/lease"], former))[0] == 401


async def test_a_host_that_lost_its_new_certificate_gets_another(main: Main) -> None:
    former = main.joined(ALPHA)
    for _ in range(2):
        key, request = new_request(ALPHA)
        status, answer = await main.call("/certificate", {"request": request}, former)
        assert status == 200
    assert (await main.call("/order", None, key + answer["certificate"]))[0] == 200
    assert (await main.call("/order", None, former))[0] == 401


async def test_a_certificate_of_the_listener_is_none_of_a_host(main: Main) -> None:
    certificate, key = main.authority.main_files(["127.0.0.1"])
    assert (await main.call("/order", None, key.read_text() + certificate.read_text()))[0] in {0, 401}


# --- joining -----------------------------------------------------------------------------------------------------------


async def test_an_invitation_works_once(main: Main) -> None:
    _, secret = joining.invite(main.store, ALPHA, time.time())
    body = {"request": new_request(ALPHA)[1]}
    status, answer = await main.invited("POST", "/join", ALPHA, secret, body)
    assert status == 200
    assert answer["host_key"]
    watch = Stopwatch()
    status, problem = await main.invited("POST", "/join", ALPHA, secret, body)
    assert (status, "was used" in problem["detail"]) == (401, True)
    assert f"gpuq host add {ALPHA}" in problem["hint"]
    assert watch.seconds < 2


async def test_of_two_uses_at_once_one_succeeds(main: Main) -> None:
    _, secret = joining.invite(main.store, ALPHA, time.time())
    body = {"request": new_request(ALPHA)[1]}
    answers = await asyncio.gather(*(main.invited("POST", "/join", ALPHA, secret, body) for _ in range(4)))
    assert sorted(status for status, _ in answers)[0] == 200
    assert [status for status, _ in answers].count(200) == 1


async def test_what_is_no_valid_invitation_is_refused(main: Main) -> None:
    _, expired = joining.invite(main.store, ALPHA, time.time() - joining.INVITED_S)
    _, replaced = joining.invite(main.store, BETA, time.time())
    joining.invite(main.store, BETA, time.time())
    for host, secret, why in [
        (ALPHA, expired, "has expired"),
        (BETA, replaced, "not the newest command"),
        ("gamma", replaced, "not the newest command"),
        (ALPHA, "", "not the newest command"),
    ]:
        for method, path in (("POST", "/join"), ("GET", "/package"), ("GET", "/invitation")):
            status, problem = await main.invited(method, path, host, secret, {"request": ""})
            assert status == 401
            assert why in problem["detail"], problem


@pytest.mark.parametrize("secret", ["guessed", "\xff\xfe"])
async def test_who_has_no_invitation_does_not_learn_which_hosts_there_are(main: Main, secret: str) -> None:
    """Every name is answered in the same words: invited, joined, unknown, and none that a host could have."""
    main.joined(ALPHA)
    joining.invite(main.store, BETA, time.time())
    answers = set()
    for host in (ALPHA, BETA, "gamma", "", "\0", "\ud800", "g" * 3000):
        for method, path in (("POST", "/join"), ("GET", "/package"), ("GET", "/invitation")):
            status, problem = await main.invited(method, path, host, secret, {"request": ""})
            answers.add((status, problem["detail"].partition(" for a host")[0]))
    assert answers == {(401, "This is not the newest command")}


async def test_the_package_is_for_the_same_python_and_machine(main: Main) -> None:
    _, secret = joining.invite(main.store, ALPHA, time.time())
    (main.home.run / "package.tar").write_bytes(b"packed")
    got = await main.invited("GET", "/package", ALPHA, secret, platform=package.platform_name())
    assert got == (200, b"packed")
    status, problem = await main.invited("GET", "/package", ALPHA, secret, platform="cpython-2.7 sparc")
    assert (status, "cannot run" in problem["detail"]) == (409, True)
    assert (await asyncio.to_thread(main.ask, "GET", "/join.py", None, None, {}))[0] == 200


async def test_a_certificate_that_cannot_be_renewed_now_is_renewed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_REFRESH_S", 0.0)
    files, loaded = (Path("main.pem"), Path("main.key")), asyncio.Event()

    class FullAtFirst:
        tries = 0

        def main_files(self, _: object) -> tuple[Path, Path]:
            self.tries += 1
            if self.tries == 1:
                raise OSError(28, "No space left on device")
            return files

    class Tls:
        def load_cert_chain(self, *given: str) -> None:
            assert given == tuple(map(str, files))
            loaded.set()

    tls, authority = Tls(), FullAtFirst()
    refreshing = asyncio.create_task(listener._refresh(tls, authority, ("main:8782",)))  # type: ignore[arg-type]
    async with asyncio.timeout(30):
        await loaded.wait()
    refreshing.cancel()


async def test_a_compressed_body_is_refused_from_whoever_reaches_the_port(main: Main) -> None:
    for path in ("/join", f"{PREFIX}/claim"):
        headers = {"Content-Encoding": "gzip"}
        status, problem = await asyncio.to_thread(main.ask, "POST", path, {}, None, headers)
        assert (status, problem["title"]) == (415, "Bad encoding"), path


async def test_handshakes_that_are_not_completed_keep_no_host_out(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_site, "MOST_HANDSHAKES", 3)
    alpha, (address, _, port) = main.joined(ALPHA), main.at.partition(":")
    silent = [await asyncio.open_connection(address, int(port)) for _ in range(5)]
    async with asyncio.timeout(30):
        for reader, _ in silent[:2]:
            assert await reader.read() == b"", "the oldest are closed"
        assert (await main.call("/acknowledgement", pem=alpha))[0] == 200
    for _, writer in silent:
        writer.close()


async def test_a_handshake_has_its_time(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_site, "HANDSHAKE_WITHIN_S", 0.05)
    address, _, port = main.at.partition(":")
    for begun in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"):
        reader, writer = await asyncio.open_connection(address, int(port))
        writer.write(begun)
        async with asyncio.timeout(30):
            assert b"HTTP" not in await reader.read()
        writer.close()
    assert (await main.call("/acknowledgement", pem=main.joined(ALPHA)))[0] == 200


async def test_a_call_with_a_body_beyond_the_limit_is_refused(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_BODY", 100)
    status, problem = await main.call("/messages", ["x" * 101], main.joined(ALPHA))
    assert (status, problem["detail"]) == (
        413,
        "The body is larger than 100 bytes, which is the limit at this address.",
    )
