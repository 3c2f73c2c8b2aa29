"""`gpuq up` and `gpuq down` as processes: in the background, in a terminal that closes, with settings that are refused."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuq.adapters.supervise import Crash
from gpuq.errors import Conflict, Failure
from gpuq.programs import up
from gpuq.settings import load
from tests.support import forked
from tests.support.site import Site, wait_for


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A home in which the tests start and end gpuq themselves."""
    site = Site(api_port=0, worker_grace_s=1, admission_memory_headroom=0.95)
    yield site
    site.close()


def gpuq(site: Site, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return forked.gpuq(*words, env={**site.env, **more}, text=True)


def checks(site: Site) -> dict[str, dict[str, str]]:
    return {check["part"]: check for check in json.loads(gpuq(site, "doctor", "--json").stdout)["checks"]}


def test_in_the_background_it_returns_once_it_is_ready_and_down_ends_it_and_its_jobs(site: Site) -> None:
    none = gpuq(site, "down")
    assert (none.returncode, f"No `gpuq up` runs in {site.home}" in none.stderr) == (4, True)

    began = gpuq(site, "up", "--detach")

    assert began.returncode == 0, began.stderr
    assert re.search(r"gpuq is up: .* http://127\.0\.0\.1:\d+/", began.stderr)
    assert "`gpuq down` ends gpuq and leaves jobs running" in began.stderr
    assert site.get("/readyz")[0] == 200
    token = (site.home / "token").read_text().strip()
    assert token not in began.stderr, "it went to a pipe"
    assert gpuq(site, "url").stdout.endswith(f"/?token={token}\n")
    again = gpuq(site, "up", "-d")
    assert (again.returncode, "`gpuq down` ends that one" in again.stderr) == (6, True)
    found = checks(site)
    assert (found["services"]["status"], found["services"]["found"]) == ("ok", "api, dispatcher, orders, redis, worker")
    assert found["settings"]["status"] == "ok"

    job = site.submit("/bin/sleep", "300")
    site.wait(job, "RUNNING")
    ended = gpuq(site, "down", "--stop-jobs")

    assert (ended.returncode, ended.stdout) == (0, "gpuq has ended.\n")
    assert list(site.processes()) == []
    logs = {path.name: path.read_text() for path in (site.home / "logs").iterdir()}
    assert "up.log" in logs
    assert [name for name, text in logs.items() if token in text] == []


def test_a_terminal_that_closes_does_not_end_it_and_down_says_what_still_runs(site: Site) -> None:
    terminal, inside = os.openpty()
    take_it = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
    )
    argv = [sys.executable, "-c", take_it, sys.executable, "-P", "-m", "gpuq.programs.up"]
    child = subprocess.Popen(argv, env=site.env, stdin=inside, stdout=inside, stderr=inside, start_new_session=True)
    os.close(inside)
    said = b""
    while b"the terminal" not in said:
        said += os.read(terminal, 1000)
    token = (site.home / "token").read_text().strip()
    assert f"/?token={token}" in said.decode(), "a terminal is shown the address with the token"
    assert "it goes on after closing the terminal" in said.decode()
    job = site.submit("/bin/sleep", "300")
    site.wait(job, "RUNNING")

    os.close(terminal)

    log = site.home / "logs" / "up.log"
    wait_for(lambda: log.exists() and "the terminal was closed" in log.read_text())
    waiting = site.submit("/bin/true", hold=True)
    assert site.wait(waiting, "HELD")["state"] == "HELD", "the dispatcher still works"
    child.send_signal(signal.SIGSTOP)
    ended = gpuq(site, "down", "--json")
    assert child.wait(60) == 0
    assert (ended.returncode, json.loads(ended.stdout)["running"]) == (0, [job])
    assert [pid for pid in site.processes() if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/bin/sleep")]


def test_what_a_service_would_refuse_up_refuses(site: Site) -> None:
    """The first by every service; the second by the worker alone, which counts the cores, and the sentence is its."""
    for setting, value, code, sentence in (
        ("GPUQ_WORKER_HOST", "has space", 2, "GPUQ_WORKER_HOST sets `host` under [worker] to 'has space'"),
        ("GPUQ_DEVICES_CPU_COUNT", "9999", 2, "9999 CPU devices"),
    ):
        done = gpuq(site, "up", "-d", **{setting: value})
        assert done.returncode == code, done.stderr
        assert sentence in done.stderr
        assert "gpuq is up" not in done.stderr
        assert len(done.stderr.splitlines()) == 2, "a sentence and what to do next"
        assert site.pids("up") == []


def test_on_a_full_disk_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("GPUQ_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["gpuq up", "--port", "0"])
    monkeypatch.setattr(up, "_Up", full)
    monkeypatch.setattr(up, "start_log", lambda: None)
    assert up.main() == 1
    assert capsys.readouterr().err.splitlines() == [
        "gpuq: it cannot run: No space left on device.",
        f"  Free some space in {tmp_path}, then `gpuq up` again.",
    ]


def test_where_the_port_is_taken_a_first_start_leaves_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUQ_HOME", str(tmp_path / "a" / "home"))
    monkeypatch.setattr(up, "start_log", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(sys, "argv", ["gpuq up", "--port", str(taken.getsockname()[1])])
        assert up.main() == 1
    assert "is taken by another program" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_others_may_look_into_is_named_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise Failure("It goes no further.", fix="This is a test.")

    tmp_path.chmod(0o755)
    (tmp_path / "mine").touch()
    monkeypatch.setenv("GPUQ_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["gpuq up", "--port", "0"])
    monkeypatch.setattr(up, "_Up", refused)
    monkeypatch.setattr(up, "start_log", lambda: None)
    up.main()
    assert capsys.readouterr().err.startswith(
        f"gpuq: other users may look into {tmp_path}. To close it: chmod 700 {tmp_path}\n"
    )


async def test_what_holds_a_lock_of_a_service_is_named_once_it_was_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The services of a `gpuq up` that was killed have some seconds to end. One that was stopped never does."""
    monkeypatch.setattr(up, "_READY_WITHIN_S", 0.0)
    monkeypatch.setattr(up, "WatchDog", object)
    starting = up._Up(load({"GPUQ_HOME": str(tmp_path)}), lambda: True, stop_jobs=False, ready_fd=None)
    said = f"A dispatcher already runs in {tmp_path}."
    for in_a_row in range(1, 9):
        starting._crashed(
            Crash("dispatcher", Conflict.exit_code, "exit code 6", in_a_row, said, "Stop that one.", "log")
        )

    async def has_api() -> bool:
        return False

    with pytest.raises(Conflict, match="A dispatcher already runs"):
        await starting._until(has_api)


def test_damaged_data_of_redis_is_set_aside(site: Site) -> None:
    """Without that, neither a restart of Redis nor the next start of gpuq would ever succeed."""
    data, aside = site.home / "redis" / "appendonly.aof", site.home / "redis.damaged"
    aside.mkdir()
    (aside / "of before").touch()
    site.up()
    job = site.submit("/bin/true")
    site.wait(job)
    with data.open("r+b") as file:
        file.write(bytes(64))
    os.kill(site.pids("redis")[0], signal.SIGKILL)
    wait_for((aside / "appendonly.aof").exists)
    assert not (aside / "of before").exists(), "the newest is kept"
    assert site.wait(site.submit("/bin/true"))["state"] == "COMPLETED"
    assert site.output.read_text().count("Redis could not read its data") == 1
    site.down()


def test_folders_that_are_removed_while_it_runs(site: Site) -> None:
    """That of Redis is made again. Without that of the sockets and locks no command reaches it, and another one could start."""
    site.up()
    (redis,) = site.pids("redis")
    shutil.rmtree(site.home / "redis")
    os.kill(redis, signal.SIGKILL)
    assert site.wait(site.submit("/bin/true"))["state"] == "COMPLETED"
    assert (site.home / "redis" / "appendonly.aof").exists()

    shutil.rmtree(site.home / "run")

    assert site.process is not None
    assert site.process.wait(60) == 1
    assert f"{site.home}/run was removed while gpuq ran, so it has ended" in site.output.read_text()
