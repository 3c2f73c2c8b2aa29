"""What goes wrong with Redis is one clear error that tells no secret."""

import pytest
import redis

from gpuq.adapters.redis.link import async_client, blocking_client, reaching, shown
from gpuq.errors import BadSettings, Unreachable

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [f"redis://me:{SECRET}@host:6379/0", f"redis://:{SECRET}@host/0", f"unix:///run/r.sock?password={SECRET}"],
)
def test_shown_hides_the_password(url):
    assert SECRET not in shown(url)
    with pytest.raises(Unreachable) as caught, reaching(url):
        raise redis.ConnectionError("refused")
    assert SECRET not in caught.value.message + caught.value.fix
    assert "refused" in caught.value.message


@pytest.mark.parametrize("make", [async_client, blocking_client])
def test_an_invalid_url_is_bad_settings(make):
    with pytest.raises(BadSettings) as caught:
        make(f"http://me:{SECRET}@host/")
    assert SECRET not in caught.value.message
    assert "unix:///PATH" in caught.value.fix


@pytest.mark.parametrize(
    ("error", "sign", "fix"),
    [
        (redis.AuthenticationError("WRONGPASS"), "refused", "password"),
        (redis.ConnectionError("max number of clients reached"), "full", "maxclients"),
        (redis.ReadOnlyError("READONLY"), "unwritable", "primary"),
        (redis.BusyLoadingError("LOADING"), "unreachable", "gpuq doctor"),
        (ConnectionResetError(), "unreachable", "gpuq doctor"),
        (TimeoutError(), "unreachable", "gpuq doctor"),
        (redis.OutOfMemoryError("command not allowed"), "unwritable", "maxmemory"),
        (redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"), "unwritable", "disk"),
        (redis.ResponseError("ERR unknown command"), "unreachable", "gpuq doctor"),
    ],
)
def test_each_fault_is_unreachable_with_its_word_and_fix(error, sign, fix):
    with pytest.raises(Unreachable) as caught, reaching("redis://host"):
        raise error
    assert fix in caught.value.fix
    assert (type(caught.value), caught.value.sign) == (Unreachable, sign), "its name is part of the API"


def test_programming_errors_are_not_translated():
    with pytest.raises(KeyError), reaching("redis://host"):
        raise KeyError("a bug")


def test_a_hung_server_is_unreachable_in_seconds(redis_server, monkeypatch):
    monkeypatch.setattr("gpuq.adapters.redis.link.ANSWER_WITHIN_S", 0.2)
    redis_server.freeze()
    with redis_server.client() as client, pytest.raises(Unreachable), reaching(redis_server.url):
        client.ping()
