"""Joining a main host, and the calls of a host that joined, against a real listener."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from pathlib import Path

import msgspec
import pytest
from gpuq_workers.join import Invitation, clock_ahead_s, join

from gpuq.adapters.main_host import Joined, Link, RemoteClaims, is_old, joined
from gpuq.api.hosts import joining
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.errors import Conflict, NotPermitted, Unreachable
from gpuq.home import Home
from gpuq.settings import load
from tests.adapters.store.samples import launched
from tests.api.hosts.conftest import Main, main, redis_server

__all__ = ["main", "redis_server"]

DAY = 86_400


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "node2")


def invitation(main: Main, host: str = "node2") -> Invitation:
    _, secret = joining.invite(main.store, host, time.time())
    return Invitation(main.at, main.authority.fingerprint(["127.0.0.1"]), host, secret)


async def joined_at(main: Main, home: Home) -> Joined:
    """Let the home join, and return where; the first address of its main host answers nothing."""
    await asyncio.to_thread(join, home, invitation(main))
    home.joined_file.write_bytes(msgspec.json.encode(Joined("node2", ("127.0.0.1:1", main.at))))
    where = joined(home)
    assert where is not None
    return where


async def test_a_home_that_joined_claims_its_attempts_through_the_next_address_that_answers(
    main: Main, home: Home
) -> None:
    claims = RemoteClaims(home, await joined_at(main, home))
    attempt = launched(main.store, host="node2")
    lease = await asyncio.to_thread(claims.lease_host, "node2", "home")
    assert lease == main.store.lease_rows["node2"]
    claimed = await asyncio.to_thread(claims.claim, attempt, "node2", "home", "boot", 5.0)
    assert claimed is not None
    assert (claimed[0].submission.env, claimed[1].id) == ({"LANG": "é"}, attempt)
    assert await asyncio.to_thread(claims.claim, AttemptId(JobId(9), 1), "node2", "home", "boot", 5.0) is None
    claims.close()


@pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 86_400.0])
async def test_a_host_learns_how_far_its_clock_is_from_the_main_hosts(main: Main, ahead_s: float) -> None:
    """Before it joins, however old its invitation is."""
    found = await asyncio.to_thread(clock_ahead_s, invitation(main), lambda: time.time() + ahead_s)
    assert found == pytest.approx(ahead_s, abs=10)


async def test_a_server_with_another_certificate_gets_no_secret(main: Main, home: Home) -> None:
    """Another server answers at the address of the main host."""
    given = invitation(main)
    other = msgspec.structs.replace(given, fingerprint=hashlib.sha256(b"another").hexdigest())
    with pytest.raises(NotPermitted, match="is not the main host"):
        await asyncio.to_thread(join, home, other)
    assert joined(home) is None
    await asyncio.to_thread(join, home, given)  # the secret was not used


async def test_jobs_run_there_as_whom_they_run_at_the_main_host(main: Main, home: Home) -> None:
    status, answer = await main.invited(
        "GET", "/invitation", "node2", joining.invite(main.store, "node2", time.time())[1]
    )
    assert (status, answer["run_as"]) == (200, "submitter")
    await asyncio.to_thread(join, home, msgspec.structs.replace(invitation(main), run_as="submitter"))
    assert load({"GPUQ_HOME": str(home.root)}).worker.run_as == "submitter"


async def test_a_home_whose_settings_run_jobs_as_another_user_does_not_use_its_invitation(
    main: Main, home: Home
) -> None:
    home.create()
    home.settings_file.write_text('[worker]\nhost = "node2"\n')
    given = msgspec.structs.replace(invitation(main), run_as="submitter")
    with pytest.raises(Conflict, match="run_as"):
        await asyncio.to_thread(join, home, given)
    home.settings_file.write_text('[worker]\nhost = "node2"\nrun_as = "submitter"\n')
    await asyncio.to_thread(join, home, given)
    assert joined(home) is not None


@pytest.mark.parametrize("file", ["order.key", "joined.json"])
async def test_a_home_that_has_a_part_already_does_not_join(main: Main, home: Home, file: str) -> None:
    home.create()
    (home.root / file).write_bytes(msgspec.json.encode(Joined("node1", ("elsewhere:1",))))
    with pytest.raises(Conflict):
        await asyncio.to_thread(join, home, invitation(main))
    assert not home.host_certificate_file.exists()


async def test_a_main_host_that_does_not_answer_is_named(home: Home, main: Main) -> None:
    given = msgspec.structs.replace(invitation(main), main="127.0.0.1:1")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 does not answer"):
        await asyncio.to_thread(join, home, given)


async def test_a_host_notices_another_main_host_under_the_same_address(main: Main, home: Home, tmp_path: Path) -> None:
    """Another authority has issued what the listener shows: no call is made."""
    where = await joined_at(main, home)
    from gpuq.adapters.certificates import Authority

    home.authority_file.write_bytes(Authority(tmp_path / "other", time.time).file.read_bytes())
    with pytest.raises(Unreachable, match="certificate verify failed"):
        await asyncio.to_thread(Link(home, Joined("node2", where.main[1:])).call, "/order")


async def test_a_certificate_is_renewed_in_its_last_third(
    main: Main, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = await joined_at(main, home)
    assert [is_old(home, time.time() + days * DAY) for days in (0, 240, 250)] == [False, False, True]
    before, serial = home.host_certificate_file.read_bytes(), main.store.joined_rows["node2"].serial
    monkeypatch.setattr(
        "gpuq.adapters.main_host.is_old", lambda home, now: home.host_certificate_file.read_bytes() == before
    )
    claims = RemoteClaims(home, where)
    for _ in range(2):
        await asyncio.to_thread(claims.lease_host, "node2", "home")
    claims.close()
    row = main.store.joined_rows["node2"]
    assert row.serial != serial
    assert row.former_serial is None
    context = ssl.create_default_context()
    context.load_cert_chain(home.host_certificate_file)  # the key and the certificate belong together
