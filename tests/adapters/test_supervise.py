"""A child that falls over is started again, and the reason is logged."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpuq.adapters.process import identify
from gpuq.adapters.supervise import ChildSpec, Crash, start, supervise
from gpuq.logs import shorten

WITHIN_S = 60


async def test_a_crashed_child_is_reported_and_restarted(tmp_path: Path) -> None:
    """It refuses, is killed, then stays: the status file shows both, and goes when the supervision ends in order."""
    script = (
        f"cd {tmp_path}; echo x >> lives; "
        'case "$(wc -l < lives)" in 1) echo "gpuq: no driver."; echo "  Install it."; exit 4;; 2) kill -9 $$;; esac; '
        "exec sleep 600"
    )
    spec = ChildSpec("worker", ["sh", "-c", script], tmp_path / "worker.log", status=tmp_path / "status.json")
    stop = asyncio.Event()
    crashes: list[Crash] = []
    supervision = asyncio.create_task(supervise(spec, stop, crashes.append))
    async with asyncio.timeout(WITHIN_S):
        while not _runs_after_two(tmp_path / "status.json"):
            await asyncio.sleep(0.01)
    status = json.loads((tmp_path / "status.json").read_text())
    stop.set()
    await asyncio.wait_for(supervision, WITHIN_S)

    assert [(crash.how, crash.in_a_row, crash.said, crash.fix) for crash in crashes] == [
        ("exit code 4", 1, "no driver.", "Install it."),
        ("SIGKILL", 2, "It wrote nothing.", None),
    ]
    assert "worker ended (SIGKILL) and is started again" in str(crashes[1])
    assert status["last_crash"]["how"] == "SIGKILL"
    assert not (tmp_path / "status.json").exists()


async def test_the_log_of_a_child_is_for_its_user_only_whatever_the_umask(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    before = os.umask(0)
    try:
        child = await start(ChildSpec("worker", ["echo", "up"], log))
    finally:
        os.umask(before)
    assert await child.wait() == 0
    assert (log.read_text(), log.stat().st_mode & 0o777) == ("up\n", 0o600)


async def test_a_child_that_was_stopped_ends_in_order(tmp_path: Path) -> None:
    """Else it would be killed, and what it supervises itself would be left behind."""
    script = f"trap 'touch {tmp_path}/ended; exit' TERM; echo $$ > {tmp_path}/pid; kill -STOP $$; while :; do sleep 0.05; done"
    stop = asyncio.Event()
    supervision = asyncio.create_task(supervise(ChildSpec("orders", ["sh", "-c", script], tmp_path / "log"), stop))
    async with asyncio.timeout(WITHIN_S):
        while not ((tmp_path / "pid").exists() and _is_stopped((tmp_path / "pid").read_text().strip())):
            await asyncio.sleep(0.01)
    stop.set()
    await asyncio.wait_for(supervision, WITHIN_S)
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize("heeds", [True, False])
async def test_a_child_that_a_killed_supervisor_left_is_ended_before_the_next_is_started(
    tmp_path: Path, heeds: bool
) -> None:
    """It was stopped, so that it did not take the kernel's SIGTERM either, and holds the lock of its service."""
    status, lives = tmp_path / "status.json", tmp_path / "lives"
    trap = "" if heeds else "trap '' TERM; "
    command = ["sh", "-c", f"{trap}echo $$ >> {lives}; while :; do sleep 0.05; done"]
    left = await asyncio.create_subprocess_exec(*command)
    async with asyncio.timeout(WITHIN_S):
        while not lives.exists() or not lives.read_text():
            await asyncio.sleep(0.01)
    left.send_signal(signal.SIGSTOP)
    status.write_text(json.dumps({"name": "dispatcher", "supervisor": 1, "child": identify(left.pid)}))
    stop = asyncio.Event()
    spec = ChildSpec("dispatcher", command, tmp_path / "log", status=status, stop_within_s=0.3)
    supervision = asyncio.create_task(supervise(spec, stop))
    assert await asyncio.wait_for(left.wait(), WITHIN_S) == (-signal.SIGTERM if heeds else -signal.SIGKILL)
    async with asyncio.timeout(WITHIN_S):
        while len(lives.read_text().split()) < 2:
            await asyncio.sleep(0.01)
    stop.set()
    await asyncio.wait_for(supervision, WITHIN_S)


async def test_a_child_that_was_left_has_its_time_to_end_also_where_the_supervision_is_to_stop(tmp_path: Path) -> None:
    status, saved = tmp_path / "status.json", tmp_path / "saved"
    command = f"trap 'sleep 0.1; echo x > {saved}; exit 0' TERM; echo; while :; do sleep 0.02; done"
    left = await asyncio.create_subprocess_exec("sh", "-c", command, stdout=asyncio.subprocess.PIPE)
    assert left.stdout is not None
    await left.stdout.readline()
    status.write_text(json.dumps({"child": identify(left.pid)}))
    stop = asyncio.Event()
    stop.set()
    await asyncio.wait_for(supervise(ChildSpec("redis", ["true"], tmp_path / "log", status=status), stop), WITHIN_S)
    assert (await left.wait(), saved.exists()) == (0, True)


async def test_another_process_with_the_number_of_a_child_is_left_alone(tmp_path: Path) -> None:
    status, stop = tmp_path / "status.json", asyncio.Event()
    other = await asyncio.create_subprocess_exec("sleep", "600")
    known = identify(other.pid)
    assert known is not None
    status.write_text(json.dumps({"child": known._replace(start_ticks=known.start_ticks - 1)}))
    started = tmp_path / "started"
    spec = ChildSpec("worker", ["sh", "-c", f"touch {started}; exec sleep 600"], tmp_path / "log", status=status)
    supervision = asyncio.create_task(supervise(spec, stop))
    async with asyncio.timeout(WITHIN_S):
        while not started.exists():
            await asyncio.sleep(0.01)
    stop.set()
    await asyncio.wait_for(supervision, WITHIN_S)
    assert other.returncode is None
    other.kill()
    await other.wait()


async def test_a_removed_environment_is_named_as_what_keeps_a_child_from_starting(tmp_path: Path) -> None:
    stop, crashes = asyncio.Event(), list[Crash]()

    def crashed(crash: Crash) -> None:
        crashes.append(crash)
        stop.set()

    await supervise(
        ChildSpec("api", [f"{tmp_path}/gone/bin/python", "-m", "gpuq.api"], tmp_path / "log"), stop, crashed
    )
    (crash,) = crashes
    assert "The environment that it runs from is gone." in (crash.fix or "")


def _is_stopped(pid: str) -> bool:
    return bool(pid) and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def test_the_log_of_a_child_is_kept_small_while_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuq.adapters.supervise._LOOK_AT_LOG_EVERY_S", 0.01)
    monkeypatch.setattr("gpuq.adapters.supervise.shorten", partial(shorten, most_bytes=10_000))
    log, written = tmp_path / "redis.log", tmp_path / "written"
    script = f"for n in 1 2 3 4 5 6 7 8 9; do head -c 5000 /dev/zero; sleep 0.1; done; touch {written}; exec sleep 600"
    stop = asyncio.Event()
    supervision = asyncio.create_task(supervise(ChildSpec("redis", ["sh", "-c", script], log), stop))
    async with asyncio.timeout(WITHIN_S):
        while not (written.exists() and log.stat().st_size <= 10_000):
            await asyncio.sleep(0.01)
    stop.set()
    await asyncio.wait_for(supervision, WITHIN_S)

    assert log.with_name("redis.log.1").stat().st_size == 10_000


def _runs_after_two(status: Path) -> bool:
    if not status.exists():
        return False
    found = json.loads(status.read_text())
    return len(found["crashes"]) == 2 and found["started_at"] is not None


async def test_a_child_that_cannot_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the user has as many processes as he may have."""
    real, failures = asyncio.create_subprocess_exec, iter([BlockingIOError(errno.EAGAIN, "no process is left")])

    async def create(*words: str, **options: Any) -> asyncio.subprocess.Process:
        for failure in failures:
            raise failure
        return await real(*words, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create)
    started, stop, crashes = tmp_path / "started", asyncio.Event(), list[Crash]()
    spec = ChildSpec("worker", ["sh", "-c", f"touch {started}; exec sleep 600"], tmp_path / "worker.log")
    supervision = asyncio.create_task(supervise(spec, stop, crashes.append))
    async with asyncio.timeout(WITHIN_S):
        while not started.exists():
            await asyncio.sleep(0.01)
    stop.set()
    await asyncio.wait_for(supervision, WITHIN_S)
    assert [(crash.how, "no process is left" in crash.said) for crash in crashes] == [("it could not be started", True)]
