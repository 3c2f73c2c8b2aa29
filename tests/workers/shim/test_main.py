"""The shim with real processes: exit statuses, the tree's end, limits, stops, and what a job inherits."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpuq_workers.attempts import AttemptFolder

from gpuq.home import write_private
from tests.workers.conftest import SHIM, Attempt, gone, python, quick_shim, wait_for
from tests.workers.twins import attempt_id


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_is_kept(attempt: Attempt, code: int) -> None:
    end = attempt.run("sh", "-c", f"exit {code}")
    assert (end["ending"], end["exit_code"]) == ("exited", code)


@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGKILL, "killed"), (signal.SIGSEGV, "exited"), (signal.SIGTERM, "killed")]
)
def test_a_signal_gives_128_plus_its_number(attempt: Attempt, number: signal.Signals, ending: str) -> None:
    end = attempt.run("sh", "-c", f"kill -{int(number)} $$")
    assert (end["ending"], end["exit_code"]) == (ending, 128 + number)
    assert number.name in end["reason"]


def test_a_missing_command_is_127_and_says_so_in_the_log(attempt: Attempt) -> None:
    end = attempt.run("no-such-program-xyz")
    assert (end["ending"], end["exit_code"]) == ("exited", 127)
    assert "no-such-program-xyz was not found" in end["reason"]
    assert b"no-such-program-xyz was not found" in attempt.log()
    assert not (attempt.folder / "started.json").exists()


def test_a_program_with_an_empty_name_is_127_whatever_is_on_path(attempt: Attempt) -> None:
    end = attempt.run("", "x")
    assert (end["exit_code"], end["reason"]) == (127, "a program with an empty name was not found")


@pytest.mark.parametrize("fault", ["EAGAIN", "ENOMEM", "EMFILE", "ENFILE"])
def test_where_the_host_lacks_what_any_program_needs_the_job_never_starts(attempt: Attempt, fault: str) -> None:
    """As 126, every job that waits would fail on that host, one after the other."""
    attempt.order("true")
    changes = f"""
import errno
def fails(*_, **__): raise OSError(errno.{fault}, "lacking")
shim.child.posix.posix_spawn = fails
"""
    attempt.shim = subprocess.Popen(quick_shim(attempt.folder, changes), start_new_session=True)
    end = attempt.end()
    assert (end["ending"], end["exit_code"]) == ("never started", None)
    assert "cannot be executed" in end["reason"]


def test_a_file_without_execute_bit_is_126(attempt: Attempt) -> None:
    script = attempt.folder / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o600)
    end = attempt.run(str(script))
    assert (end["ending"], end["exit_code"]) == ("exited", 126)
    assert "cannot be executed" in end["reason"]


def test_a_file_without_a_first_line_is_126(attempt: Attempt) -> None:
    script = attempt.folder / "script"
    script.write_text("hello\n")
    script.chmod(0o700)
    assert "#!/usr/bin/env" in attempt.run(str(script))["reason"]


def test_a_missing_interpreter_is_named_as_such(attempt: Attempt) -> None:
    script = attempt.folder / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o700)
    end = attempt.run(str(script))
    assert end["exit_code"] == 127
    assert "interpreter" in end["reason"]


def test_a_missing_directory_differs_from_a_missing_command(attempt: Attempt) -> None:
    end = attempt.run("true", cwd="/no/such/place")
    assert end["exit_code"] == 126
    assert "/no/such/place" in end["reason"]


def test_cores_that_do_not_exist_are_refused(attempt: Attempt) -> None:
    end = attempt.run("true", cores=[100_000])
    assert end["exit_code"] == 126
    assert "cores" in end["reason"]


def test_the_job_gets_exactly_what_was_ordered(attempt: Attempt) -> None:
    code = (
        "import json, os, signal, sys\n"
        "print(json.dumps({'env': dict(os.environ), 'cwd': os.getcwd(), 'argv': sys.argv[1:],\n"
        " 'fds': sorted(int(f) for f in os.listdir('/proc/self/fd')), 'stdin': os.readlink('/proc/self/fd/0'),\n"
        " 'cores': sorted(os.sched_getaffinity(0)), 'session': os.getsid(0) == os.getpid(),\n"
        " 'ignored': open('/proc/self/status').read().split('SigIgn:')[1].split()[0]}))\n"
    )
    core = min(os.sched_getaffinity(0))
    args = ["a b", "*", "$HOME", "é", ""]
    attempt.run(sys.executable, "-I", "-c", code, *args, env={"ONLY": "this"}, cwd="/usr", cores=[core])
    seen = json.loads(attempt.log())
    seen["env"].pop("LC_CTYPE", None)  # Python sets it for itself
    assert seen["env"] == {"ONLY": "this"}
    assert (seen["cwd"], seen["argv"], seen["cores"]) == ("/usr", args, [core])
    assert seen["fds"][:3] == [0, 1, 2]
    assert len(seen["fds"]) == 4, "the fourth is the listing itself"
    assert seen["stdin"] == "/dev/null"
    assert seen["session"]
    # Python itself ignores SIGPIPE and SIGXFSZ at start; 32 and 33 are the C library's own. Nothing else may be ignored.
    expected = {signal.SIGPIPE, signal.SIGXFSZ, 32, 33}
    assert {number for number in range(1, 65) if int(seen["ignored"], 16) >> (number - 1) & 1} <= expected


@pytest.mark.parametrize(("ordered", "umask"), [({}, "0022"), ({"umask": 0o027}, "0027"), ({"umask": 0}, "0000")])
def test_the_job_gets_the_ordered_umask_and_the_shim_keeps_its_own(
    attempt: Attempt, ordered: dict[str, int], umask: str
) -> None:
    attempt.order("sh", "-c", "umask", **ordered)
    attempt.shim = subprocess.Popen(quick_shim(attempt.folder), umask=0o077)
    attempt.end()
    assert attempt.log().decode().strip() == umask
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in attempt.folder.iterdir() if path.name != "order.json"
    }
    assert modes == dict.fromkeys(("started.json", "output.log", "exit.json"), 0o600)


@pytest.mark.parametrize("content", ['{"version": 2, "why": "gone"}', ""])
def test_a_stop_order_of_another_version_and_an_empty_one_stop_the_job(attempt: Attempt, content: str) -> None:
    attempt.order("sleep", "60").start()
    attempt.started()
    write_private(attempt.folder / "stop.json", content.encode())
    assert attempt.end()["ending"] == "stopped"


def test_the_end_can_be_read_whatever_the_stop_order_says(attempt: Attempt) -> None:
    """A job may have written it: neither half a character nor a NUL reaches the record."""
    attempt.order("sleep", "60").start()
    attempt.started()
    write_private(attempt.folder / "stop.json", rb'{"reason": "a\u0000b\udc80' + b"x" * 5000 + b'"}')
    attempt.shim.wait(60)  # type: ignore[union-attr]
    end = AttemptFolder(attempt.folder, attempt_id()).ended()
    assert end is not None
    assert (end.ending, end.reason[:5], len(end.reason)) == ("stopped", "a?b?x", 600)


def test_sigpipe_has_its_default_action(attempt: Attempt) -> None:
    """SIGPIPE is at its default: `yes | head` ends instead of printing an error for ever."""
    attempt.run("sh", "-c", "yes | head -n 1; echo after")
    assert attempt.log() == b"y\nafter\n"


def test_started_names_the_process_and_the_shim(attempt: Attempt) -> None:
    attempt.order("sleep", "60").start()
    started = attempt.started()
    assert attempt.shim is not None
    assert started["shim_pid"] == attempt.shim.pid
    with Path(f"/proc/{started['pid']}/stat").open() as file:
        assert int(file.read().rpartition(")")[2].split()[19]) == started["start_ticks"]


def test_the_end_says_how_long_the_job_ran_whatever_the_wall_clock_says(attempt: Attempt) -> None:
    attempt.order("sleep", "0.2")
    set_back = "walls = [5000.0, 1400.0]; shim.time.time = lambda: walls.pop(0)"
    subprocess.run(quick_shim(attempt.folder, set_back), check=True)
    end = attempt.read("exit.json")
    assert (attempt.started()["at"], end["at"]) == (5000.0, 1400.0)
    assert 0.2 <= end["lasted_s"] < 20


def test_a_time_limit_enforced_by_sigkill_says_so(attempt: Attempt) -> None:
    end = attempt.run("sh", "-c", "trap '' TERM; sleep 61", time_limit_s=1.5)
    assert (end["ending"], end["exit_code"]) == ("timed out", 137)
    assert end["reason"] == (
        "it ran longer than its limit of 1.5 s; it did not end within 0.3 s of SIGTERM and was killed"
    )


@pytest.mark.parametrize(
    ("resumes", "ending", "reason"),
    [
        (True, "timed out", "it ended after the signal before its limit of 30 s"),
        (False, "exited", "ended with exit code 0"),
    ],
)
def test_a_job_is_signalled_before_its_time_limit_and_may_save_its_work(
    attempt: Attempt, resumes: bool, ending: str, reason: str
) -> None:
    script = "trap 'echo saved; exit 0' USR1; while :; do sleep 0.05; done"
    limits = {"time_limit_s": 30.0, "signal_before_s": 29.8, "checkpoint_signal": int(signal.SIGUSR1)}
    end = attempt.run("bash", "-c", script, resumes=resumes, **limits)
    assert (end["ending"], end["exit_code"], end["reason"]) == (ending, 0, reason)
    assert attempt.log() == b"saved\n"


def test_a_job_that_does_not_listen_for_that_signal_runs_on(attempt: Attempt) -> None:
    limits = {"time_limit_s": 60.0, "signal_before_s": 59.9, "checkpoint_signal": int(signal.SIGUSR1)}
    end = attempt.run("sh", "-c", "sleep 0.5; echo done", resumes=True, **limits)
    assert (attempt.log(), end["exit_code"]) == (b"done\n", 0)


@pytest.mark.parametrize(("script", "is_left"), [("touch $GPUQ_CHECKPOINT_DIR/epoch3", True), ("true", False)])
def test_a_checkpoint_folder_is_there_and_stays_if_something_is_in_it(
    attempt: Attempt, tmp_path: Path, script: str, is_left: bool
) -> None:
    folder = tmp_path / "checkpoints" / "1-1000"
    env = {"PATH": os.environ["PATH"], "GPUQ_CHECKPOINT_DIR": str(folder)}
    end = attempt.run("sh", "-c", f"[ -d $GPUQ_CHECKPOINT_DIR ] && {script}", env=env)
    assert (end["exit_code"], folder.exists()) == (0, is_left)
    assert not is_left or stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_where_the_checkpoint_folder_cannot_be_made_the_job_has_none(attempt: Attempt, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {"PATH": os.environ["PATH"], "GPUQ_CHECKPOINT_DIR": str(tmp_path / "file" / "1-1000")}
    end = attempt.run("sh", "-c", "echo ${GPUQ_CHECKPOINT_DIR-none}", env=env)
    assert (end["exit_code"], attempt.log()) == (0, b"none\n")


def test_the_time_limit_ends_the_whole_tree(attempt: Attempt) -> None:
    began = time.monotonic()
    end = attempt.run("sh", "-c", "sleep 61 & sleep 62; true", time_limit_s=0.5, grace_s=60)
    assert (end["ending"], end["exit_code"]) == ("timed out", 143)
    assert "was killed" not in end["reason"]
    assert time.monotonic() - began >= 0.5


STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for detach in (False, True, True):
    if os.fork() == 0:
        if detach:
            os.setsid()
            if os.fork():
                os._exit(0)
        print(os.getpid(), flush=True)
        time.sleep(300)
print(os.getpid(), flush=True)
time.sleep(300)
"""


def pids_in(attempt: Attempt, count: int) -> list[int]:
    def found() -> list[int]:
        lines = attempt.log().split() if (attempt.folder / "output.log").exists() else []
        return [int(line) for line in lines] if len(lines) == count else []

    pids: list[int] = wait_for(found, what=f"{count} pids in the log")
    return pids


@pytest.mark.parametrize("ring", [True, False])
def test_a_stop_ends_children_that_ignore_sigterm_or_detach(attempt: Attempt, ring: bool) -> None:
    """Also when the signal to the shim got lost: it looks for the file by itself."""
    attempt.order(*python(STUBBORN)).start()
    pids = pids_in(attempt, 4)
    assert attempt.shim is not None
    attempt.stop("cancelled by bob")
    if ring:
        attempt.shim.send_signal(signal.SIGTERM)
    end = attempt.end()
    assert (end["ending"], end["exit_code"]) == ("stopped", 137)
    assert end["reason"] == "cancelled by bob; it did not end within 0.3 s of SIGTERM and was killed"
    assert all(gone(pid) for pid in pids)


def test_a_job_may_clean_up_within_the_grace(attempt: Attempt) -> None:
    code = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    attempt.order("sh", "-c", code, grace_s=60).start()
    wait_for(lambda: (attempt.folder / "output.log").exists() and b"ready" in attempt.log())
    attempt.stop()
    end = attempt.end()
    assert (end["ending"], end["exit_code"]) == ("stopped", 0)
    assert b"saved" in attempt.log()


# --- saving its work -----------------------------------------------------------------------------------------------

# On USR1 it writes what it has and exits with the given code; on TERM it exits at once with 9.
SAVES = """
import os, signal, sys, time
def save(*_):
    print("saved", flush=True)
    if sys.argv[1:]: sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGUSR1, save)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("ready", flush=True)
while True: time.sleep(0.05)
"""


def ready(attempt: Attempt, line: bytes = b"ready") -> None:
    wait_for(lambda: (attempt.folder / "output.log").exists() and line in attempt.log(), what=line.decode())


def saving(attempt: Attempt, *command: str, save_grace_s: float = 60) -> Attempt:
    attempt.order(*command, checkpoint_signal=int(signal.SIGUSR1), save_grace_s=save_grace_s, grace_s=60).start()
    ready(attempt)
    attempt.stop("reported to save its work and make room", save=True)
    return attempt


@pytest.mark.parametrize("code", [0, 1, 77])
def test_a_job_that_exits_after_the_checkpoint_signal_was_stopped(attempt: Attempt, code: int) -> None:
    """Many scripts leave with 0 once they have saved; had they been done, their next start would say so at once."""
    end = saving(attempt, *python(SAVES), str(code)).end()
    assert (end["ending"], end["exit_code"]) == ("stopped", code)
    assert end["reason"] == "reported to save its work and make room"
    assert attempt.log().count(b"saved") == 1


def test_a_job_that_saves_too_long_is_ended_after_the_save_grace(attempt: Attempt) -> None:
    end = saving(attempt, *python(SAVES), save_grace_s=1.0).end()
    assert (end["ending"], end["exit_code"]) == ("stopped", 9), "it got SIGTERM after the checkpoint signal"
    assert attempt.log().count(b"saved") == 1


def test_a_job_without_handler_is_ended_at_once(attempt: Attempt) -> None:
    attempt.order("sh", "-c", "echo ready; sleep 60", save_grace_s=60, checkpoint_signal=int(signal.SIGUSR1)).start()
    ready(attempt)
    attempt.stop(save=True)
    assert attempt.end()["ending"] == "stopped"


def test_the_checkpoint_signal_skips_a_shell_without_handler(attempt: Attempt) -> None:
    shell = 'echo begins; "$@"; echo "the training left with $?"'
    end = saving(attempt, "sh", "-c", shell, "sh", *python(SAVES), "5").end()
    assert end["ending"] == "stopped"
    assert b"the training left with 5" in attempt.log()


def test_loader_processes_get_no_checkpoint_signal(attempt: Attempt) -> None:
    forks = SAVES.replace('print("ready", flush=True)', 'os.fork() or time.sleep(0.3)\nprint("ready", flush=True)')
    attempt.order(*python(forks), "0", checkpoint_signal=int(signal.SIGUSR1), save_grace_s=60).start()
    wait_for(lambda: (attempt.folder / "output.log").exists() and attempt.log().count(b"ready") == 2)
    attempt.stop(save=True)
    attempt.end()
    assert attempt.log().count(b"saved") == 1


def test_repeated_preemptions_change_nothing_and_a_plain_stop_ends_it(attempt: Attempt) -> None:
    saving(attempt, *python(SAVES))
    ready(attempt, b"saved")
    assert attempt.shim is not None
    attempt.stop("reported to save its work and make room", save=True)
    attempt.shim.send_signal(signal.SIGTERM)
    assert not (attempt.folder / "exit.json").exists()
    attempt.stop("cancelled by bob")
    attempt.shim.send_signal(signal.SIGTERM)
    end = attempt.end()
    assert (end["ending"], end["exit_code"], end["reason"]) == ("stopped", 9, "cancelled by bob")


def test_an_exit_before_the_checkpoint_signal_is_its_own(attempt: Attempt) -> None:
    attempt.order("sh", "-c", "exit 0").start()
    end = attempt.end()
    attempt.stop(save=True)
    assert (end["ending"], end["exit_code"]) == ("exited", 0)


def test_a_stopped_job_gets_sigterm_and_sigcont(attempt: Attempt) -> None:
    attempt.order("sleep", "60", grace_s=60).start()
    os.kill(attempt.started()["pid"], signal.SIGSTOP)
    attempt.stop()
    assert attempt.end()["exit_code"] == 143


def test_processes_left_by_the_main_process_are_ended(attempt: Attempt) -> None:
    code = "setsid sh -c 'echo $$; trap \"\" TERM; while :; do sleep 0.1; done' & sleep 0.3; exit 7"
    end = attempt.run("sh", "-c", code)
    assert (end["ending"], end["exit_code"]) == ("exited", 7)
    assert gone(int(attempt.log().splitlines()[0]))


def test_what_a_command_left_running_is_named_in_the_log(attempt: Attempt) -> None:
    attempt.order("sh", "-c", "sleep 613 & sleep 614 & exit 3").start()
    assert attempt.end()["reason"] == "ended with exit code 3"
    said = attempt.log().splitlines()[-1]
    assert said.startswith(b"[gpuq] the command has ended; what it left running is ended too: sleep 61")
    assert b"sleep 613" in said
    assert b"sleep 614" in said


def test_copies_of_the_program_that_it_left_are_not_named(attempt: Attempt) -> None:
    attempt.order("python3", "-c", "import os, time\nif os.fork() == 0: time.sleep(600)").start()
    assert attempt.end()["exit_code"] == 0
    assert attempt.log() == b""


def test_where_the_home_is_removed_the_shim_ends_with_its_job(attempt: Attempt) -> None:
    attempt.order("sleep", "600").start()
    started = attempt.started()
    assert attempt.shim is not None

    def is_removed() -> bool:
        shutil.rmtree(attempt.folder.parent, ignore_errors=True)  # the shim may write into it meanwhile
        return not attempt.folder.parent.exists()

    wait_for(is_removed)
    os.kill(started["pid"], signal.SIGKILL)
    assert attempt.shim.wait(60) is not None


def test_a_signalled_shim_without_stop_order_ends_the_attempt_as_lost(attempt: Attempt) -> None:
    """As at a shutdown of the machine: the job did not fail and was not cancelled."""
    attempt.order("sleep", "60").start()
    attempt.started()
    assert attempt.shim is not None
    attempt.shim.send_signal(signal.SIGTERM)
    assert attempt.end()["ending"] == "lost"


def test_an_attempt_stopped_before_its_start_never_starts(attempt: Attempt) -> None:
    attempt.stop()
    end = attempt.run("touch", str(attempt.folder / "ran"))
    assert end["ending"] == "never started"
    assert not (attempt.folder / "ran").exists()


def test_a_second_shim_on_one_folder_does_nothing(attempt: Attempt) -> None:
    ran = attempt.folder / "ran"
    attempt.run("sh", "-c", f"echo once >> {ran}")
    attempt.start()
    attempt.end()
    assert ran.read_text() == "once\n"


def test_the_shim_is_small_and_loads_nothing_of_gpuq(attempt: Attempt) -> None:
    attempt.order("sleep", "60").start()
    attempt.started()
    assert attempt.shim is not None
    with Path(f"/proc/{attempt.shim.pid}/status").open() as file:
        resident_kib = int(file.read().split("VmRSS:")[1].split()[0])
    assert resident_kib < 20_000
    sources = [path.read_text() for path in SHIM.parent.glob("*.py")]
    assert not any(re.search(r"\b(import|from) gpuq\b", source) for source in sources)
