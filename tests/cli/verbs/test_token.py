"""`gpuq token`: create, list, revoke."""

from __future__ import annotations

from tests.cli.conftest import Command, FakeApi

TOKEN = {
    "id": "0123456789ab",
    "user": "ann",
    "role": "user",
    "note": "laptop",
    "made_at": "2026-11-22T10:00:00Z",
    "expires_at": "2027-02-20T10:00:00Z",
    "revoked_at": None,
}


def test_create_prints_the_token_alone_on_stdout(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/tokens", {**TOKEN, "token": "gpuq_0123456789ab_secret"})
    done = gpuq("token", "create", "--expires", "12h", "--note", "laptop")
    assert (done.code, done.out) == (0, "gpuq_0123456789ab_secret\n")
    assert "expires at 2027-02-20 10:00:00" in done.err
    assert api.asked("POST", "/api/v1/tokens")[0].body == {"role": "user", "note": "laptop", "lasts_s": 43200.0}


def test_a_token_expires_unless_it_is_made_to_last(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/tokens", {**TOKEN, "token": "t", "expires_at": None})
    gpuq("token", "create")
    assert "does not expire" in gpuq("token", "create", "--expires", "never").err
    first, second = (request.body for request in api.asked("POST", "/api/v1/tokens"))
    assert (first["lasts_s"], second["lasts_s"]) == (90 * 86_400.0, None)


def test_list_shows_what_has_ended(gpuq: Command, api: FakeApi) -> None:
    old = {**TOKEN, "id": "ba9876543210", "revoked_at": "2026-11-22T11:00:00Z"}
    api.on("GET", "/api/v1/tokens", {"tokens": [TOKEN, old]})
    header, one, other = gpuq("token", "list").out.splitlines()
    assert header.split() == ["ID", "USER", "ROLE", "EXPIRES", "NOTE"]
    assert one.split() == ["0123456789ab", "ann", "user", "2027-02-20", "10:00:00", "laptop"]
    assert other.split()[3] == "revoked"


def test_revoke_needs_ids(gpuq: Command, api: FakeApi) -> None:
    api.on("POST", "/api/v1/tokens/0123456789ab/revoke", {**TOKEN, "revoked_at": "2026-11-22T11:00:00Z"})
    assert gpuq("token", "revoke", "0123456789ab").out == "0123456789ab of ann is revoked.\n"
    for words in (("revoke",), ("list", "0123456789ab")):
        done = gpuq("token", *words)
        assert (done.code, "only `revoke` takes them" in done.err) == (2, True)
