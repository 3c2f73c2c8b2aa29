"""Processes named by boot, pid and start: never the wrong one, and never one left over."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuq.adapters import process
from gpuq.adapters.process import Identity

TREE = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        os.fork()
        break
print('x', flush=True)
time.sleep(300)
"""


@pytest.fixture
def sleeper() -> Iterator[Identity]:
    with subprocess.Popen(["sleep", "60"]) as child:
        identity = process.identify(child.pid)
        assert identity is not None
        yield identity
        child.kill()


def test_a_zombie_is_not_alive(sleeper: Identity) -> None:
    assert process.is_alive(sleeper)
    os.kill(sleeper.pid, signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert process.start_ticks(sleeper.pid) is not None
    assert not process.is_alive(sleeper)


def test_a_process_lives_although_no_descriptor_is_left_to_look_at_it(sleeper: Identity) -> None:
    """The worker service ends an attempt whose shim is gone: a lack of descriptors must not look like that."""
    process.boot_id()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        alive = process.is_alive(sleeper)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert alive
    assert not process.is_alive(sleeper._replace(pid=2**22 + 1))


def test_another_boot_or_start_is_another_identity(sleeper: Identity) -> None:
    assert not process.is_alive(sleeper._replace(boot_id="other"))
    assert not process.is_alive(sleeper._replace(start_ticks=sleeper.start_ticks + 1))


def test_a_signal_needs_a_matching_identity(sleeper: Identity) -> None:
    assert not process.send_signal(sleeper._replace(start_ticks=1), signal.SIGKILL)
    assert not process.send_signal(sleeper._replace(boot_id="other"), signal.SIGKILL)
    assert process.is_alive(sleeper)
    assert process.send_signal(sleeper, signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive(sleeper)


def test_a_free_pid_has_no_identity() -> None:
    assert process.identify(2**22 + 1) is None


@pytest.mark.parametrize("by_kernel", [True, False])
def test_descendants_are_found_with_and_without_the_kernels_list(
    monkeypatch: pytest.MonkeyPatch, by_kernel: bool
) -> None:
    monkeypatch.setattr(process, "kernel_lists_children", lambda: by_kernel)
    with subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in range(5):
            child.stdout.readline()
        found = process.descendants(child.pid)
        root = process.identify(child.pid)
        assert root is not None
        assert process.kill_tree(root)
        assert len(found) == 4
        assert all(
            process.identify(pid) is None or not process.is_alive(one)
            for pid in found
            for one in process.identities([pid])
        )


def test_more_children_than_a_page_of_the_kernels_list_holds_are_all_found() -> None:
    fork = "import os, signal\nfor _ in range(700):\n    os.fork() or signal.pause()\nprint(flush=True)\nsignal.pause()"
    with subprocess.Popen([sys.executable, "-S", "-c", fork], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            assert len(process.descendants(child.pid)) == 700
        finally:
            root = process.identify(child.pid)
            assert root is not None
            assert process.kill_tree(root)


def test_processes_are_found_by_the_environment_they_were_started_with() -> None:
    mark = {"GPUQ_TEST_MARK": f"{os.getpid()}-{time.monotonic_ns()}"}
    with subprocess.Popen(["sleep", "60"], env={**os.environ, **mark}) as child:
        try:
            deadline = time.monotonic() + 60
            while not (found := process.with_environment(mark)) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert [one.pid for one in found] == [child.pid]
            assert process.with_environment({**mark, "MORE": "1"}) == []
        finally:
            child.kill()


def test_a_process_in_the_middle_of_its_exec_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starting = proc_entry(tmp_path, program=True)
    monkeypatch.setattr(process, "_PROC", tmp_path)
    monkeypatch.setattr(process.time, "sleep", lambda _s: (starting / "environ").write_bytes(b"MARK=1\0"))
    assert process.started_with(int(starting.name)) == (b"MARK=1\0", b"")


def test_processes_without_program_or_words_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(10))
    monkeypatch.setattr(process, "_PROC", tmp_path)
    monkeypatch.setattr(process.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(process.time, "sleep", lambda _s: None)
    zombie = proc_entry(tmp_path, program=False)
    assert process.started_with(int(zombie.name)) == (b"", b"")
    assert next(seconds) == 1
    mute = proc_entry(tmp_path, program=True)
    assert process.started_with(int(mute.name)) == (b"", b"")


def proc_entry(proc: Path, *, program: bool) -> Path:
    """A folder like those in /proc, of a process that shows neither its environment nor its command line."""
    folder = proc / ("11" if program else "12")
    folder.mkdir()
    (folder / "environ").touch()
    (folder / "cmdline").touch()
    if program:
        (folder / "exe").symlink_to(sys.executable)
    return folder


def test_a_proc_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "children").write_bytes(b"1234567 " * 20_000)
    assert len(process.read_proc(str(tmp_path / "children"))) == 160_000
    assert process.read_proc(str(tmp_path / "gone")) == b""


def test_a_file_that_is_kept_open_shows_what_is_there_now(sleeper: Identity) -> None:
    files, status = process.ProcFiles(), f"/proc/{sleeper.pid}/status"
    assert b"stopped" not in files.read(status)
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED)
    assert b"stopped" in files.read(status)
    os.kill(sleeper.pid, signal.SIGKILL)
    os.waitpid(sleeper.pid, 0)
    assert files.read(status) == b""
    assert files.read(f"/proc/{os.getpid()}/stat").startswith(b"%d " % os.getpid())
    files.close()


def test_a_file_that_no_look_reads_any_more_is_closed_and_never_too_many_are_open() -> None:
    files, before = process.ProcFiles(most=2), _descriptors()
    for name in ("stat", "status", "statm"):
        assert files.read(f"/proc/self/{name}")
    assert _descriptors() == before + 2
    files.end_look()
    files.read("/proc/self/stat")
    files.end_look()
    assert _descriptors() == before + 1
    files.close()
    assert _descriptors() == before


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_process_is_found_by_a_file_that_it_opened_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to("real")
    record = tmp_path / "home" / "record"
    record.touch()
    command = [
        sys.executable,
        "-c",
        "import sys; f = open(sys.argv[2]); print(flush=True); input()",
        "shim.py",
        str(record),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as opener:
        assert opener.stdout is not None
        opener.stdout.readline()
        found = [process.with_open_file(record, program) for program in ("shim.py", "other.py")]
        opener.kill()
    assert [[one.pid for one in some] for some in found] == [[opener.pid], []]
