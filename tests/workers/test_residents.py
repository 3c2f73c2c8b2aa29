"""Attempt folders become events: each once, over restarts, killed shims and reboots."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpuq_workers import attempts as attempts_module
from gpuq_workers import residents as residents_module
from gpuq_workers.attempts import AttemptFolder, Marker, ask_for_end, make_folder
from gpuq_workers.measuring.sample import Sample
from gpuq_workers.residents import Residents
from gpuq_workers.spool import Spool

from gpuq.adapters import process
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import DeviceId, Reading
from gpuq.core.state.events import Exited, ResidentReport, Started
from gpuq.home import read_regular, write_private
from gpuq.messages import codec
from tests.workers.conftest import SHIM, Attempt, gone, python, wait_for
from tests.workers.twins import GIB, StillSampler, attempt_id


class Host:
    """The part of a worker service that watches folders, restarted at will."""

    def __init__(self, root: Path) -> None:
        self.attempts, self.spool_folder = root / "attempts", root / "spool"
        self.attempts.mkdir()
        self.now = 0.0
        self.started: list[Attempt] = []
        self.restart()

    def restart(self) -> None:
        self.spool = Spool(self.spool_folder, "alpha")
        self.residents = Residents(self.attempts, self.spool, self.measure, grace_s=0.2, instance="home")

    async def measure(self, _folder: AttemptFolder) -> Measurement:
        return Measurement(steps=5)

    def attempt(self, job: int = 1) -> Attempt:
        folder = self.attempts / f"{job}-1"
        folder.mkdir()
        return Attempt(folder)

    def run(self, *command: str, job: int = 1, **marks: str) -> Attempt:
        """An attempt as the RQ task starts it: with its marks in the environment."""
        made = self.attempt(job)
        env = {
            "PATH": os.environ["PATH"],
            "GPUQ_JOB_ID": str(job),
            "GPUQ_ATTEMPT": "1",
            "GPUQ_PROGRESS": str(made.folder / "progress"),
            **marks,
        }
        made.order(*command, env=env, job=job)
        made.shim = subprocess.Popen([sys.executable, "-I", "-S", str(SHIM)], stdin=subprocess.PIPE)
        identity = process.identify(made.shim.pid)
        assert identity is not None
        assert made.shim.stdin is not None
        made.order(*command, env=env, job=job, shim=list(identity))
        made.shim.stdin.write(f"{made.folder}\n".encode())
        made.shim.stdin.close()
        self.started.append(made)
        return made

    def look(self) -> None:
        asyncio.run(self.residents.look())

    def events(self) -> list[Any]:
        return [codec.from_plain(m.name, m.body) for m in self.spool.unacknowledged()]

    def look_until(self, condition: Callable[[], Any], what: str) -> None:
        wait_for(lambda: (self.look(), condition())[1], what=what)

    def settle(self, count: int) -> list[Any]:
        self.look_until(lambda: len(self.events()) >= count, f"{count} events")
        for _ in range(3):
            self.look()
        assert len(self.events()) == count
        return self.events()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    for attempt in made.started:
        assert attempt.shim is not None
        identity = process.identify(attempt.shim.pid)
        if identity is not None:
            process.kill_tree(identity)
        attempt.shim.wait()


def test_a_start_and_an_end_are_reported_once_each(host: Host) -> None:
    host.run("sh", "-c", "exit 3")
    started, exited = host.settle(2)
    assert isinstance(started, Started)
    assert started.log_path == str(host.attempts / "1-1" / "output.log")
    assert isinstance(exited, Exited)
    assert (exited.ending, exited.exit_code, exited.measurement.steps) == ("exited", 3, 5)
    assert host.residents.present() == {}


def test_how_long_a_job_ran_is_right_although_the_wall_clock_was_set_back_meanwhile(host: Host) -> None:
    made = host.attempt().order("train")
    start = {"pid": 1, "shim_pid": 1, "start_ticks": 1, "shim_start_ticks": 1, "boot_id": "b", "at": 10_000.0}
    end = {"ending": "exited", "exit_code": 0, "reason": "", "at": 10_005.0 - 3600, "lasted_s": 5.0}
    (made.folder / "started.json").write_text(json.dumps(start))
    (made.folder / "exit.json").write_text(json.dumps(end))
    host.look()
    started, exited = host.events()
    assert exited.at - started.at == 5.0


def test_a_running_attempt_is_present_and_watched(host: Host) -> None:
    running = host.run("sleep", "60")
    host.settle(1)
    assert running.shim is not None
    (watched,) = host.residents.watched()
    assert (watched.attempt, watched.root_pid, watched.devices) == (attempt_id(), running.shim.pid, ("cpu-0",))
    assert host.residents.present() == {attempt_id(): running.started()["at"]}


def test_an_end_that_was_lost_is_sent_again_when_it_is_asked_for(host: Host) -> None:
    host.run("sh", "-c", "exit 3")
    host.settle(2)
    ask_for_end(host.attempts, attempt_id())
    host.look()
    assert len(host.events()) == 2, "it is still to be sent"

    host.spool.forget(upto=2)
    host.restart()
    ask_for_end(host.attempts, attempt_id())
    started, exited = host.settle(2)
    assert isinstance(started, Started)
    assert isinstance(exited, Exited)
    assert (exited.attempt, exited.exit_code) == (attempt_id(), 3)
    assert [message.seq for message in host.spool.unacknowledged()] == [3, 4]


def test_an_attempt_whose_end_is_asked_for_and_was_deleted_ends_as_lost(host: Host) -> None:
    ended = host.run("true")
    host.settle(2)
    host.spool.forget(upto=2)
    (ended.folder / "exit.json").unlink()
    host.look()
    assert host.events() == []

    ask_for_end(host.attempts, attempt_id())
    _, exited = host.settle(2)
    assert exited.ending == "lost"


def test_the_end_of_a_running_attempt_is_not_made_up(host: Host) -> None:
    host.run("sleep", "60")
    host.settle(1)
    ask_for_end(host.attempts, attempt_id())
    host.look()
    assert len(host.events()) == 1
    assert list(host.residents.present()) == [attempt_id()]


def test_a_request_for_an_end_that_is_none_does_no_harm(host: Host) -> None:
    (host.attempts / "1-1.end").mkdir()
    for name in ("x.end", "7-1.end", "1-x.end"):
        (host.attempts / name).touch()
    host.look()
    assert host.events() == []
    assert [path.name for path in host.attempts.iterdir()] == ["1-1.end"]


def test_a_job_survives_a_restart_and_its_end_is_reported(host: Host) -> None:
    running = host.run(
        "sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; exit 9".replace("go", str(host.attempts / "go"))
    )
    host.settle(1)
    host.restart()
    host.look()
    assert len(host.events()) == 1, "nothing is said twice"
    assert list(host.residents.present()) == [attempt_id()]
    (host.attempts / "go").touch()
    running.end()  # while no service runs
    host.restart()
    assert [type(event).__name__ for event in host.settle(2)] == ["Started", "Exited"]
    assert host.events()[1].exit_code == 9


@pytest.mark.parametrize("event", ["Started", "Exited"])
def test_a_crash_between_spool_and_marker_repeats_nothing(host: Host, event: str) -> None:
    host.run("true").end()
    host.settle(2)
    marker = Marker(None, None) if event == "Started" else Marker(1, None)
    AttemptFolder(host.attempts / "1-1", attempt_id()).mark(marker)
    if event == "Started":
        (host.spool_folder / "000000000002.json").unlink()
    host.restart()
    assert [message.seq for message in host.spool.unacknowledged()] == ([1] if event == "Started" else [1, 2])
    assert [type(event).__name__ for event in host.settle(2)] == ["Started", "Exited"]


def test_an_acknowledged_end_is_not_reported_again(host: Host) -> None:
    host.run("true").end()
    host.settle(2)
    host.spool.forget(2)
    host.restart()
    host.look()
    assert host.events() == []
    assert host.residents.present() == {}


ESCAPEE = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    time.sleep(300)
time.sleep(300)
"""


def test_a_driver_error_reclassifies_the_end(host: Host) -> None:
    """The driver says so before the failing call returns, and the sampler asks it once more before it measures the end."""
    running = host.run("sh", "-c", "echo 'CUDA error: unknown error'; exit 1")
    (running.folder / "xid").write_text(f"79 {running.end()['at']}\n")
    exited = host.settle(2)[1]
    assert (exited.ending, exited.exit_code) == ("device failed", 1)
    assert exited.reason.startswith(
        "the driver reported XID 79 (it has fallen off the bus); ended with exit code 1: CUDA error"
    )
    assert host.residents.held() == {}, "the backend, which knows the driver's errors, says when the device is well"


def gpu_sample(*readings: tuple[DeviceId, Reading]) -> Sample:
    gpu = replace(StillSampler().devices()[0], backend="nvml")
    return Sample((gpu,), readings, ())


def test_a_device_failure_that_only_the_output_speaks_of_holds_no_device(host: Host) -> None:
    """Any job can print the line. It explains the end of this job, and takes the device from no other."""
    host.residents.sample = lambda: gpu_sample((DeviceId("cpu-0"), Reading(1.0, GIB, 0.0, 0)))
    host.run("sh", "-c", "echo 'CUDA error: uncorrectable ECC error encountered'; exit 1").end()
    exited = host.settle(2)[1]
    assert (exited.ending, exited.reason) == (
        "device failed",
        "device failed: CUDA error: uncorrectable ECC error encountered",
    )
    assert host.residents.held() == {}


@pytest.mark.parametrize("printed", ["uncorrectable ECC error encountered", "unknown error"])
def test_a_device_that_its_driver_lost_is_held_for_10_minutes(host: Host, printed: str) -> None:
    now = [100.0]
    host.residents.monotonic = lambda: now[0]
    host.residents.sample = gpu_sample
    host.run("sh", "-c", f"echo 'CUDA error: {printed}'; exit 1").end()
    assert host.settle(2)[1].ending == "device failed"
    assert host.residents.held() == {"cpu-0": "it failed under job 1"}
    now[0] += 601
    assert host.residents.held() == {}


def test_the_memory_cause_comes_from_the_last_sample(host: Host) -> None:
    rows = tuple(ResidentReport(attempt=attempt_id(job), memory_bytes=3 * GIB, started_at=None) for job in (1, 2))
    host.residents.sample = lambda: Sample(StillSampler().devices(), (), rows)
    host.run("sleep", "60", job=2, GPUQ_GPU_MEM_BUDGET=str(2 * GIB))
    host.run("sh", "-c", "echo 'error: cudaErrorMemoryAllocation'; exit 1", GPUQ_GPU_MEM_BUDGET=str(4 * GIB))
    (exited,) = (event for event in host.settle(3) if isinstance(event, Exited))
    assert (exited.ending, exited.memory_cause) == ("out of memory", "a partner's growth")
    assert exited.reason == "out of memory: error: cudaErrorMemoryAllocation; a partner's growth"


def test_an_attempt_with_a_killed_shim_is_lost_once_its_processes_are_ended(host: Host) -> None:
    running = host.run(*python(ESCAPEE))
    host.settle(1)
    wait_for(lambda: (running.folder / "output.log").exists() and running.log().strip())
    escaped = int(running.log())
    assert running.shim is not None
    running.shim.kill()
    running.shim.wait()
    host.look()
    assert not gone(escaped)
    assert len(host.events()) == 1, "not reported while something of it is alive"
    exited = host.settle(2)[1]
    assert gone(escaped)
    assert gone(running.started()["pid"])
    assert (exited.ending, exited.exit_code) == ("lost", None)
    assert "gpuq's shim process, was killed" in exited.reason


def test_a_job_that_stops_its_shim_still_ends_at_its_order(host: Host) -> None:
    stopping = host.run("sh", "-c", "kill -STOP $PPID; exec sleep 60")
    assert stopping.shim is not None
    shim = process.identify(stopping.shim.pid)
    assert shim is not None
    wait_for(lambda: process.is_stopped(shim), what="its shim to stand still")
    host.settle(1)
    assert not process.is_stopped(shim)
    AttemptFolder(stopping.folder, attempt_id()).write_stop("cancelled", 1.0)
    process.send_signal(shim, signal.SIGTERM)
    assert host.settle(2)[1].ending == "stopped"


# As where the file system of the job's folder or program does not answer: nothing but SIGKILL is heeded, and what the shim has
# forked for the job still has the shim's files open.
_HANGS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
record = open(sys.argv[2])
pid = os.fork() if sys.argv[3] == "forked" else 0
if pid or sys.argv[3] != "forked":
    print(pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(("how", "ending"), [("alone", "never started"), ("forked", "lost")])
def test_a_shim_that_hangs_before_its_job_is_ended_with_all_it_has_forked_once_it_does_not_stop(
    host: Host, how: str, ending: str
) -> None:
    host.residents.monotonic = lambda: host.now
    made = host.attempt()
    record = made.folder / "exit.json.new"
    record.touch()
    command = [sys.executable, "-c", _HANGS, str(SHIM), str(record), how]
    made.shim = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    host.started.append(made)
    assert made.shim.stdout is not None
    with made.shim.stdout as said:
        forked = int(said.readline())
    identity = process.identify(made.shim.pid)
    assert identity is not None
    made.order("train", grace_s=2, shim=list(identity))

    def at(now: float) -> list[Any]:
        host.now = now
        host.look()
        return host.events()

    assert at(0) == []
    made.stop()
    assert at(100) == at(106) == []
    assert made.shim.poll() is None, "it may still obey"
    at(108)
    assert made.shim.wait(10) == -signal.SIGKILL
    for second in range(109, 113):
        at(second)
    (exited,) = host.events()
    assert exited.ending == ending
    assert forked == 0 or gone(forked), "it would become the job once the file system answers again"


def test_another_gpuqs_attempt_of_the_same_name_is_left_alone(host: Host) -> None:
    env = {"GPUQ_JOB_ID": "1", "GPUQ_ATTEMPT": "1", "GPUQ_PROGRESS": "/elsewhere/1-1/progress"}
    with subprocess.Popen(["sleep", "60"], env={**os.environ, **env}) as other:
        running = host.run("sleep", "60")
        host.settle(1)
        assert running.shim is not None
        running.shim.kill()
        running.shim.wait()
        host.settle(2)
        assert other.poll() is None
        other.kill()


def test_an_attempt_from_before_a_reboot_is_lost(host: Host) -> None:
    made = host.attempt().order("sleep", "60")
    record = {"pid": 1, "shim_pid": 1, "start_ticks": 1, "shim_start_ticks": 1, "boot_id": "earlier", "at": 5.0}
    (made.folder / "started.json").write_text(json.dumps(record))
    (made.folder / "exit.json.new").write_text(" " * 100)
    started, exited = host.settle(2)
    assert (started.at, exited.ending) == (5.0, "lost")
    assert "restarted" in exited.reason


def test_a_shim_that_died_before_the_start_never_started(host: Host) -> None:
    host.attempt().order("true", shim=[process.boot_id(), 2**22 + 1, 1])
    (exited,) = host.settle(1)
    assert exited.ending == "never started"


def test_a_folder_without_an_order_is_closed_after_a_while(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents_module, "_UNORDERED_FOR_S", 0.5)
    made = host.attempt()
    host.look()
    assert host.events() == []
    assert list(host.residents.present()) == [attempt_id()]
    (exited,) = host.settle(1)
    assert exited.ending == "never started"
    made.order("true").start()
    made.end()
    assert not (made.folder / "started.json").exists(), "a late shim finds the fence closed"


def test_a_deleted_folder_of_a_running_job_ends_as_lost(host: Host) -> None:
    running = host.run("sleep", "60")
    host.settle(1)
    assert running.shim is not None
    pid = running.started()["pid"]
    running.shim.kill()
    running.shim.wait()
    for path in running.folder.iterdir():
        path.unlink()
    running.folder.rmdir()
    assert host.settle(2)[1].ending == "lost"
    assert gone(pid)
    assert running.folder.exists()


# --- files that cannot be read --------------------------------------------------------------------------------------

# As a gpuq of a later release may write it: the other fields may mean anything.
NEWER = '{"version": 2, "command": "train", "pid": "one", "ending": "done"}'


def unreadable(host: Host, monkeypatch: pytest.MonkeyPatch, fault: str, *names: str) -> None:
    """Let these files of the attempt be unreadable from now on."""
    if fault in ("EIO", "EMFILE", "EACCES"):
        number = getattr(errno, fault)

        def fails(path: Path, *limit: int) -> bytes:
            if path.name in names:
                raise OSError(number, os.strerror(number), str(path))
            return read_regular(path, *limit)

        monkeypatch.setattr(attempts_module, "read_regular", fails)
    else:
        for name in names:
            write_private(host.attempts / "1-1" / name, NEWER.encode() if fault == "newer" else b"{")


@pytest.mark.parametrize("fault", ["newer", "damaged", "EIO", "EMFILE", "EACCES"])
def test_an_attempt_whose_files_cannot_be_read_after_a_restart_runs_on(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    go = host.attempts / "go"
    running = host.run("sh", "-c", f"while [ ! -e {go} ]; do sleep 0.02; done; exit 9")
    host.settle(1)
    unreadable(host, monkeypatch, fault, "order.json", "started.json")
    host.restart()
    now = [0.0]
    host.residents.monotonic = lambda: now[0]
    for _ in range(10):
        host.look()
        now[0] += 45.0
    assert running.shim is not None
    assert running.shim.poll() is None
    assert host.residents.present() == {attempt_id(): None}, "its host still answers for it"
    assert sum("order.json" in record.message for record in caplog.records) == 1
    go.touch()
    running.shim.wait(60)
    assert host.settle(2)[1].exit_code == 9, "what can be read of it counts"


def test_an_unreadable_start_of_a_dead_shim_is_lost_and_not_never_started(host: Host) -> None:
    """As never started, the job would run a second time."""
    made = host.attempt().order("true", shim=[process.boot_id(), 2**22 + 1, 1])
    (made.folder / "started.json").write_text(NEWER)
    (exited,) = host.settle(1)
    assert exited.ending == "lost"
    assert "started.json was written by a newer gpuq" in exited.reason


def test_the_true_end_counts_although_the_job_had_put_another_file_there_for_long(host: Host) -> None:
    go = host.attempts / "go"
    running = host.run("sh", "-c", f"while [ ! -e {go} ]; do sleep 0.02; done; exit 9")
    host.settle(1)
    os.mkfifo(running.folder / "exit.json")
    now = [0.0]
    host.residents.monotonic = lambda: now[0]
    for _ in range(3):
        host.look()
        now[0] += 45.0
    host.look()
    go.touch()
    assert running.shim is not None
    running.shim.wait(60)
    assert host.settle(2)[1].exit_code == 9


def test_an_unreadable_end_is_waited_for_for_a_minute(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for job in (1, 2):
        host.run("sh", "-c", "exit 3", job=job).end()
    mended = (host.attempts / "2-1" / "exit.json").read_bytes()
    for job in (1, 2):
        write_private(host.attempts / f"{job}-1" / "exit.json", NEWER.encode())
    now = [0.0]
    host.residents.monotonic = lambda: now[0]
    for _ in range(2):
        host.look()
        now[0] += 50.0
    assert [type(event).__name__ for event in host.events()] == ["Started"] * 2
    write_private(host.attempts / "2-1" / "exit.json", mended)
    ends = {event.attempt.job: event for event in host.settle(4) if isinstance(event, Exited)}
    assert (ends[2].ending, ends[2].exit_code) == ("exited", 3)
    assert (ends[1].ending, ends[1].exit_code) == ("lost", None)
    assert "exit.json was written by a newer gpuq" in ends[1].reason


@pytest.mark.parametrize("shim_lives", [True, False])
def test_a_removed_attempt_that_a_restarted_service_does_not_know_is_ended_before_it_is_reported(
    host: Host, shim_lives: bool
) -> None:
    """An order finds no folder and closes a new one. Reported at once, the attempt would run beside the next one."""
    running = host.run(*python(ESCAPEE))
    host.settle(1)
    wait_for(lambda: (running.folder / "output.log").exists() and running.log().strip())
    pids = [int(running.log()), running.started()["pid"]]
    assert running.shim is not None
    if shim_lives:
        running.shim.send_signal(signal.SIGSTOP)
    else:
        running.shim.kill()
        running.shim.wait()
    running.folder.rename(host.attempts / "mine")
    made = make_folder(running.folder, attempt_id())
    assert made is not None
    made.close(Ending.LOST, "its folder was removed; how it ended is not known", 5.0)
    running.shim.send_signal(signal.SIGCONT)
    host.restart()
    exited = host.settle(2)[-1]
    assert all(map(gone, pids))
    assert exited.ending == "lost"
    assert "its folder was removed while it ran" in exited.reason


@pytest.mark.parametrize("renamed", [True, False])
def test_a_job_whose_folder_is_taken_away_runs_on_and_is_reported(host: Host, renamed: bool) -> None:
    """Its shim makes the folder again: without it, the attempt would be taken for one that never started."""
    go = host.attempts / "go"
    running = host.run("sh", "-c", f"while [ ! -e {go} ]; do sleep 0.02; done; exit 9")
    host.settle(1)
    if renamed:
        running.folder.rename(host.attempts / "mine")
    else:
        shutil.rmtree(running.folder)
    wait_for((running.folder / "started.json").exists, what="the folder")
    host.restart()
    host.look()
    assert [one.attempt for one in host.residents.running()] == [attempt_id()]
    go.touch()
    exited = host.settle(2)[1]
    assert (exited.ending, exited.exit_code) == ("exited", 9)


def test_the_end_of_a_job_is_kept_while_its_home_has_another_name(host: Host) -> None:
    go, home = host.attempts.parent / "go", host.attempts.parent
    running = host.run("sh", "-c", f"while [ ! -e {go} ]; do sleep 0.02; done; exit 9")
    host.settle(1)
    away = home.rename(home.with_name("away"))
    go.parent.mkdir()
    go.touch()
    assert running.shim is not None
    running.shim.wait(60)
    shutil.rmtree(home)
    away.rename(home)
    exited = host.settle(2)[1]
    assert (exited.ending, exited.exit_code) == ("exited", 9)


@pytest.mark.parametrize("renamed", [True, False])
def test_a_job_that_takes_its_folder_away_is_stopped_all_the_same(host: Host, renamed: bool) -> None:
    """The order to stop it finds no folder, and closes a new one as if the attempt had never started."""
    running = host.run("sleep", "60")
    host.settle(1)
    pid = running.started()["pid"]
    if renamed:
        running.folder.rename(host.attempts / "mine")
    else:
        shutil.rmtree(running.folder)
    made = make_folder(running.folder, attempt_id())
    assert made is not None
    made.close_unstarted("stopped before it was started", 5.0)
    exited = host.settle(2)[1]
    assert exited.ending == "lost"
    assert gone(pid)


def test_a_full_disk_delays_but_loses_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.run("true").end()
    real = host.spool.write
    monkeypatch.setattr(host.spool, "write", lambda _event: (_ for _ in ()).throw(OSError(28, "No space left")))
    host.look()
    assert host.events() == []
    monkeypatch.setattr(host.spool, "write", real)
    assert [type(event).__name__ for event in host.settle(2)] == ["Started", "Exited"]


# --- an end that the job made up ------------------------------------------------------------------------------------

FORGED = {"ending": "exited", "exit_code": 0, "reason": "", "at": 5.0}


@pytest.mark.parametrize("restarted", [False, True])
def test_an_end_that_the_job_wrote_itself_does_not_count_while_it_runs(host: Host, restarted: bool) -> None:
    """Otherwise its device would be given to the next job while it runs on."""
    go = host.attempts / "go"
    running = host.run("sh", "-c", f"while [ ! -e {go} ]; do sleep 0.02; done; exit 9")
    host.settle(1)
    (running.folder / "exit.json").write_text(json.dumps(FORGED))
    if restarted:
        host.restart()
    for _ in range(5):
        host.look()
    assert [type(event) for event in host.events()] == [Started]
    assert list(host.residents.present()) == [attempt_id()]
    go.touch()
    exited = host.settle(2)[1]
    assert (exited.ending, exited.exit_code) == ("exited", 9), "the true end counts"


def test_a_job_that_wrote_its_end_and_killed_its_shim_ends_with_all_its_processes(host: Host) -> None:
    running = host.run("sleep", "60")
    host.settle(1)
    pid = running.started()["pid"]
    (running.folder / "exit.json").write_text(json.dumps(FORGED))
    assert running.shim is not None
    running.shim.kill()
    running.shim.wait()
    host.look_until(lambda: gone(pid), "the end of the job")
    assert host.settle(2)[1].ending == "lost"


class InUnit:
    """An attempt that was given to a unit: what its shim and PID 1 do is done by hand."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host, self.active = host, True
        self.job = host.attempts.parent.with_name(f"{host.attempts.parent.name}-jobs") / "1-1"
        self.job.mkdir(parents=True)
        self.made = host.attempt().order(
            "train", shim=None, unit={"name": "gpuq-1-1.service", "at": 1000.0, "uptime": 0.0}
        )
        monkeypatch.setattr(residents_module.units, "is_active", lambda _: self.active)
        monkeypatch.setattr(residents_module.units, "is_in", lambda _, pid: pid == 11)

    def start(self, shim_pid: int = 11, at: float = 1001.0) -> None:
        values = {"pid": 12, "shim_pid": shim_pid, "start_ticks": 1, "shim_start_ticks": 1, "boot_id": "b", "at": at}
        (self.job / "started.json").write_text(json.dumps(values))

    def end(self) -> None:
        values = {"ending": "exited", "exit_code": 3, "reason": "", "at": 1009.0, "lasted_s": 8.0}
        (self.made.folder / "exit.json").write_text(json.dumps(values))


@pytest.fixture
def in_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InUnit:
    (tmp_path / "home").mkdir()
    return InUnit(Host(tmp_path / "home"), monkeypatch)


def test_a_shim_that_hangs_is_killed_once_although_it_takes_long_to_end(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.residents.monotonic = lambda: host.now
    sent: list[signal.Signals] = []
    monkeypatch.setattr(residents_module, "send_signal", lambda _, number: sent.append(number) is None)
    made = host.attempt()
    made.order("train", grace_s=2, shim=list(process.identify(os.getpid()) or ()))
    made.stop()
    for host.now in range(0, 20, 2):
        host.look()
    assert sent == [signal.SIGKILL]


def test_a_unit_that_ran_and_is_gone_without_an_end_is_lost_at_once(in_unit: InUnit) -> None:
    """As where its user was removed, so that PID 1 cannot run what writes the end. It was taken to be about to start."""
    in_unit.start()
    in_unit.host.settle(1)
    in_unit.active = False
    for _ in range(3):
        in_unit.host.look()
    lost = in_unit.host.events()[1]
    assert (lost.ending, lost.reason) == ("lost", "its unit ended, and PID 1 did not write down how")


def test_a_unit_that_a_restart_of_the_machine_ended_says_so(in_unit: InUnit) -> None:
    """Of what the job could write nothing counts, so that the boot is in the order."""
    in_unit.start()
    in_unit.host.settle(1)
    unit = {"name": "gpuq-1-1.service", "at": 1000.0, "uptime": 0.0, "boot_id": "an earlier boot"}
    in_unit.made.order("train", shim=None, unit=unit)
    in_unit.active = False
    in_unit.host.restart()
    lost = in_unit.host.settle(2)[1]
    assert (lost.ending, lost.reason) == ("lost", "the machine was restarted while it ran")


def test_a_unit_that_does_not_come_has_half_a_minute(in_unit: InUnit) -> None:
    host, now = in_unit.host, [0.0]
    host.residents.monotonic = lambda: now[0]
    in_unit.active = False
    host.look()
    now[0] = 29.0
    host.look()
    assert host.events() == [], "the broker or PID 1 may still be at it"
    now[0] = 31.0
    host.look()
    assert [event.ending for event in host.events()] == ["never started"]


def test_an_attempt_in_a_unit_is_reported_by_its_unit(in_unit: InUnit) -> None:
    host = in_unit.host
    in_unit.start()
    [started] = host.settle(1)
    assert (started.at, started.log_path) == (1001.0, str(in_unit.job / "output.log"))
    in_unit.end()
    assert len(host.settle(1)) == 1, "PID 1 still ends what is left of it"
    in_unit.active = False
    exited = host.settle(2)[1]
    assert (exited.ending, exited.exit_code) == ("exited", 3)


@pytest.mark.parametrize(("shim_pid", "at", "believed"), [(99, 1001.0, None), (11, 5.0, 1000.0), (11, 9e8, 1030.0)])
def test_a_job_cannot_claim_another_process_or_time_as_its_start(
    in_unit: InUnit, shim_pid: int, at: float, believed: float | None
) -> None:
    in_unit.start(shim_pid, at)
    in_unit.host.look()
    assert [event.at for event in in_unit.host.events()] == ([] if believed is None else [believed])
    assert in_unit.host.residents.present() == {attempt_id(): believed}


def test_a_job_that_writes_an_exit_status_of_its_own_does_not_end(in_unit: InUnit) -> None:
    in_unit.start()
    (in_unit.job / "exit.json").write_text(
        json.dumps({"ending": "never started", "exit_code": 0, "reason": "", "at": 1.0})
    )
    assert len(in_unit.host.settle(1)) == 1


def test_a_job_in_a_unit_cannot_have_another_process_ended_or_waited_for(in_unit: InUnit) -> None:
    with subprocess.Popen(["sleep", "60"]) as ours:
        known = process.identify(ours.pid)
        assert known is not None
        values = {"pid": known.pid, "shim_pid": known.pid, "start_ticks": known.start_ticks, "at": 1001.0}
        values |= {"shim_start_ticks": known.start_ticks, "boot_id": known.boot_id}
        (in_unit.job / "started.json").write_text(json.dumps(values))
        in_unit.end()
        in_unit.active = False
        assert in_unit.host.settle(2)[1].exit_code == 3
        assert ours.poll() is None
        ours.kill()


@pytest.mark.parametrize("ordered", [True, False])
def test_a_host_that_can_start_nothing_is_given_jobs_at_a_growing_distance(host: Host, ordered: bool) -> None:
    """No process is left. That is the host's fault and no device's: none of them is held, and none needs a reset."""
    now, waits = [100.0], []
    host.residents.monotonic = lambda: now[0]
    host.residents.clock = lambda: 1000.0 + now[0]
    host.residents.sample = lambda: Sample(StillSampler().devices(), (), ())
    for number in range(1, 5):
        for job in (2 * number, 2 * number + 1):  # the second before the dispatcher has heard that the host waits
            made = host.attempt(job)
            if ordered:
                made.order("true", job=job)
            AttemptFolder(made.folder, attempt_id(job)).close_unstarted("no process is left", 5.0)
            host.look()
        assert host.residents.held() == {}
        waiting = host.residents.no_starts()
        assert waiting is not None
        assert (waiting.why, waiting.since_at) == ("no process is left", 1100.0)
        began = now[0]
        while host.residents.no_starts():
            now[0] += 1
        assert waiting.again_at == 1000.0 + now[0]
        waits.append(now[0] - began)
    assert waits == [2, 4, 8, 16]
    host.run("sleep", "60", job=20)
    host.look_until(lambda: any(isinstance(event, Started) for event in host.events()), "a start")
    AttemptFolder(host.attempt(21).folder, attempt_id(21)).close_unstarted("no process is left", 5.0)
    host.look()
    after_a_start = host.residents.no_starts()
    assert after_a_start is not None
    assert (after_a_start.since_at, after_a_start.again_at) == (1000.0 + now[0], 1002.0 + now[0])


def test_a_job_that_was_stopped_before_its_start_keeps_no_other_from_starting(host: Host) -> None:
    folder = AttemptFolder(host.attempt().order("true").folder, attempt_id())
    folder.write_stop("stopped by order", 5.0)
    folder.close_unstarted("stopped before it was started", 5.0)
    host.look()
    assert host.residents.no_starts() is None


def test_units_that_do_not_start_are_asked_for_at_a_growing_distance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bus of PID 1 is away, so each order ends at once, and the dispatcher would send the next one."""
    monkeypatch.setattr(residents_module.units, "is_active", lambda _: False)
    monkeypatch.setattr(residents_module.units, "is_in", lambda *_: True)
    (tmp_path / "home").mkdir()
    host, now, waits = Host(tmp_path / "home"), [100.0], []
    host.residents.monotonic = lambda: now[0]

    def unstarted(number: int) -> None:
        made = host.attempt(number).order("train", shim=None, unit={"name": "u", "at": 1000.0, "uptime": 0.0})
        end = {"ending": "never started", "exit_code": None, "reason": "PID 1 did not do it", "at": 1001.0}
        (made.folder / "exit.json").write_text(json.dumps(end))
        host.look()

    for number in range(1, 8):
        unstarted(number)
        began = now[0]
        assert "PID 1 did not do it" in str(host.residents.no_starts())
        while host.residents.no_starts():
            now[0] += 1
        waits.append(now[0] - began)
    assert waits == [2, 4, 8, 16, 32, 60, 60]
