"""The shim: parent of one job's process. It starts the job, keeps its output, ends it on request and records how it ended.

    python -I -S shim/main.py ATTEMPT_DIR      without an argument, the folder comes as one line on stdin: a shim started ahead

It reads `order.json` in the attempt's folder and writes `started.json`, `output.log` and `exit.json` there
(docs/architecture.md). No other process of gpuq need be alive. Standard library only and no import of gpuq, so that a shim
starts within milliseconds, stays small and survives every other process of gpuq. Whoever creates `exit.json.new` has the right
to write `exit.json`; a second process that tries leaves the attempt alone.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    # Appended, so that no file beside ours shadows a module of the standard library.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))  # noqa: PTH100, PTH118, PTH120

from gpuq_workers.shim import blink, child, classify, lease, mps, oom, tree
from gpuq_workers.shim import error_patterns as endings
from gpuq_workers.shim.log import BoundedLog
from gpuq_workers.shim.record import (
    LARGEST_ORDER_BYTES,
    VERSION,
    OnceFile,
    anchored,
    can_be_made_again,
    make_again,
    read_json,
    storable,
    write_json,
)

if TYPE_CHECKING:
    from gpuq_workers.shim.terminal import Terminal

_IDLE_POLL_S, _ENDING_POLL_S, _LOOK_EVERY_S = 0.5, 0.05, 0.3
_WARN_AGAIN_S = 1.0
NOT_STARTED = 125


def main(arguments: list[str]) -> int:
    """Serve one attempt. Returns 0; the job's exit code is in `exit.json`."""
    folder = arguments[0] if arguments else sys.stdin.readline().rstrip("\n")
    if not folder:
        return 0
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.chdir("/")
    try:
        exit_record = OnceFile(anchored(folder), "exit.json")
    except FileExistsError:
        return 0  # the attempt was closed before it started
    Shim(folder, exit_record, read_json(f"{folder}/order.json", LARGEST_ORDER_BYTES)).serve()
    return 0


class Shim:
    """One attempt from its order to its exit status. `shim.unit` changes how its orders come."""

    _end_within_s = 300.0
    """How long it tries to write the end where its folder cannot be reached or written to."""

    def __init__(self, folder: str, exit_record: OnceFile, order: dict[str, Any]) -> None:
        self._folder = folder
        self._exit = exit_record
        self._order = order
        self._log = BoundedLog(folder, int(self._order["log_limit_bytes"]))
        self._lease = lease.JobLease(self._order)
        self._memory = oom.OomWatch()
        self._main = 0
        self._exit_code: int | None = None
        self._signalled = False
        self._oom_kill_s: float | None = None
        self._childless = False
        self._terminal: Terminal | None = None
        self._signalled_to_end = False
        self._saves: str | None = None
        self._save_until = 0.0
        self._warn_at: float | None = None
        self._warned = False
        self._ending: tuple[str, str] | None = None
        self._kill_at = 0.0
        self._killed = False
        self._terminated: set[tuple[int, int]] = set()
        self._disconnected: set[int] = set()
        self._look_at = 0.0
        self._deadline: float | None = None
        self._started_uptime: float | None = None
        self._started: dict[str, object] = {}

    def serve(self) -> int:
        """Run the command to its end and record it; its exit code, 125 if it was not started."""
        if self._stop_order() is not None:
            self._write_end(self._unstarted("stopped before it was started"))
            return NOT_STARTED
        if not self._may_begin():
            self._write_end(self._unstarted(self._lease.reason))
            return NOT_STARTED
        started = OnceFile(self._exit.folder, "started.json")
        tree.adopt_orphans()
        self._listen()
        self._log.begin()
        try:
            self._start()
        except child.StartFailed as failure:
            self._log.write(f"[gpuq] {failure.reason}\n".encode(errors="replace"))
            if failure.exit_code is None:
                self._write_end(self._unstarted(failure.reason))
                return NOT_STARTED
            self._write_end(classify.JobEnd(endings.EXITED, failure.exit_code, failure.reason))
            return failure.exit_code
        self._blinks = blink.Blinks(self._folder, bool(self._order.get("blink")), self._main)
        self._poller = select.poll()
        self._open_terminal()
        self._record_start(started)
        self._watch()
        end = self._classify()
        self._remove_empty_checkpoint_folder()
        self._write_end(end)
        if self._terminal is not None:
            self._terminal.close()
        return NOT_STARTED if end.exit_code is None else end.exit_code

    # --- start ---

    def _may_begin(self) -> bool:
        return self._lease.has_begun()

    def _unstarted(self, reason: str) -> classify.JobEnd:
        """The end of a job that was not started, so that it starts elsewhere or later."""
        return classify.JobEnd(endings.NEVER_STARTED, None, reason)

    def _start(self) -> None:
        """Start the job's process. Raises child.StartFailed."""
        self._output, output = child.terminal() if self._order.get("interactive") == "terminal" else child.pipe()
        began = lease.uptime()
        try:
            self._main = child.start(self._order, output)
        finally:
            os.close(output)
        self._started_uptime = began

    def _listen(self) -> None:
        ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wakeup = ours
        signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled_to_end = True
        self._look_at = 0.0

    def _record_start(self, record: OnceFile) -> None:
        if self._order.get("time_limit_s") is not None:
            # Not while the machine is suspended: the job does not run then.
            self._deadline = time.monotonic() + float(self._order["time_limit_s"])
            if self._order.get("signal_before_s") is not None:
                self._warn_at = self._deadline - float(self._order["signal_before_s"])
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
            boot_id = file.read().strip()
        self._started = {
            "pid": self._main,
            "shim_pid": os.getpid(),
            "start_ticks": tree.start_ticks(self._main),
            "shim_start_ticks": tree.start_ticks(os.getpid()),
            "boot_id": boot_id,
            "at": time.time(),
        }
        with suppress(OSError):  # the next look writes it
            record.publish(**self._started)

    def _keep_folder(self) -> None:
        """Make the folder again where it was removed: without it, the attempt would be taken for one that does not run."""
        folder = self._exit.folder
        if self._started and not os.path.lexists(f"{folder}/started.json"):
            with suppress(OSError):  # the next look tries again
                make_again(folder)
                write_json(f"{folder}/order.json", self._order)
                write_json(f"{folder}/started.json", {"version": VERSION, **self._started})

    # --- watch ---

    def _watch(self) -> None:
        poller = self._poller
        poller.register(self._output, select.POLLIN)
        poller.register(self._wakeup, select.POLLIN)
        while self._exit_code is None or not self._childless:
            pause = _ENDING_POLL_S if self._ending else _IDLE_POLL_S
            for descriptor, events in poller.poll(pause * 1000):
                if descriptor == self._wakeup:
                    os.read(self._wakeup, 4096)
                elif descriptor == self._output:
                    if not self._pump():
                        poller.unregister(self._output)
                elif self._terminal is not None:
                    self._terminal.serve(descriptor, events)
            self._reap()
            self._look()
        # The pipe may still hold output of processes that have just ended; it holds at most child.PIPE_BYTES.
        for _ in range(child.PIPE_BYTES // 4096):
            if not self._pump():
                break

    def _open_terminal(self) -> None:
        """Let clients attach to an interactive job. Where they cannot, it runs all the same."""
        if self._order.get("interactive") is None:
            return
        from gpuq_workers.shim.terminal import Terminal

        master = self._output if os.isatty(self._output) else None
        try:
            self._terminal = Terminal(self._folder, self._order, self._log, self._poller, master)
        except OSError as error:
            self._log.write(f"[gpuq] nothing can be attached to this job: {error.strerror}\n".encode())

    def _pump(self) -> bool:
        """Move output from the pipe to the log; False if there is none now or none will come."""
        try:
            data = os.read(self._output, child.PIPE_BYTES)
        except OSError:  # none now, or no process has the terminal open any more
            return False
        self._log.write(data)
        if self._terminal is not None:
            self._terminal.show()
        return bool(data)

    def _reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    self._childless = not self._has_left()
                    break
                self._blinks.over(pid, status)
                if pid == self._main and self._exit_code is None:
                    self._exit_code, self._signalled = classify.exit_code_of(status), os.WIFSIGNALED(status)
                    self._oom_kill_s = self._memory.seconds_ago()
        except ChildProcessError:
            self._childless = True
        # The main process has ended and left others: they are ended as well, with the grace that a stop gives.
        if self._exit_code is not None and not self._childless:
            self._begin_end(*self._ending_of_exit())

    def _has_left(self) -> bool:
        """Whether any of the children that have not ended belongs to the job."""
        return True

    def _look(self) -> None:
        """Check the stop order, the time limit and the progress of an end; rate limited by `_look_at`."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + (_ENDING_POLL_S if self._ending else _LOOK_EVERY_S)
        self._keep_folder()
        self._memory.look()
        if self._lease.has_ended():
            self._begin_end(endings.LOST, self._lease.reason)
            self._kill_at = min(self._kill_at, now + lease.LONGEST_GRACE_S)
        stop = None if self._ending else self._stop_order()
        if stop is not None:
            reason, save = stop
            if not save or not self._may_save(reason, now):
                self._begin_end(endings.STOPPED, reason)
        elif self._signalled_to_end:
            self._begin_end(endings.LOST, self._why_signalled())
        elif self._warn_at is not None and now >= self._warn_at and self._saves is None:
            # A job that does not listen yet is asked again: it may still be loading.
            self._warned = bool(tree.signal_listeners(os.getpid(), self._checkpoint_signal))
            self._warn_at = None if self._warned else now + _WARN_AGAIN_S
        elif self._deadline is not None and now >= self._deadline:
            self._begin_end(endings.TIMED_OUT, f"it ran longer than its limit of {self._order['time_limit_s']:g} s")
        if self._ending is not None:
            self._press(now)
        self._blinks.poll(self._ending is None and self._saves is None and self._exit_code is None)

    def _stop_order(self) -> tuple[str, bool] | None:
        """(reason, whether it may save its work first) of `stop.json`; None without one.

        Anything else of this name is a plain stop: on a full disk the file stays empty. A file that cannot be opened counts as
        missing, because the disk may be at fault; the next look tries again.
        """
        try:
            order = read_json(f"{self._folder}/stop.json")
            return str(order["reason"]), bool(order.get("save"))
        except OSError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return "stopped", False

    def _why_signalled(self) -> str:
        if os.path.lexists(f"{self._exit.folder}/exit.json") and not self._exit.is_in_place():
            return "its folder was removed while it ran, so gpuq ended it"
        return "its supervisor, gpuq's shim process, was asked to end, as at a shutdown"

    # --- save ---

    def _may_save(self, reason: str, now: float) -> bool:
        """Send the checkpoint signal once; whether the job still has time. A job without a handler for it gets none."""
        if self._saves is None:
            self._saves = reason
            self._blinks.end()
            listeners = tree.signal_listeners(os.getpid(), self._checkpoint_signal)
            self._save_until = now + (float(self._order.get("save_grace_s", 0.0)) if listeners else 0.0)
        return now < self._save_until

    def _ending_of_exit(self) -> tuple[str, str]:
        """The ending of a job that exited by itself. After a checkpoint signal it counts as stopped, or as at its time limit if
        it is to go on after that, whatever its exit code: many scripts save and exit with 0, and only their next start shows
        whether anything was left to do."""
        if self._saves is not None:
            return endings.STOPPED, self._saves
        if self._warned and self._order.get("resumes"):
            return endings.TIMED_OUT, f"it ended after the signal before its limit of {self._order['time_limit_s']:g} s"
        return endings.EXITED, ""

    @property
    def _checkpoint_signal(self) -> int:
        return int(self._order.get("checkpoint_signal", signal.SIGTERM))

    # --- end ---

    def _begin_end(self, ending: str, reason: str) -> None:
        if self._ending is None:
            self._ending = (ending, reason)
            self._blinks.end()
            self._hang_up()
            self._kill_at = time.monotonic() + float(self._order["grace_s"])
            self._look_at = 0.0

    def _hang_up(self) -> None:
        """A shell that reads from a terminal ignores SIGTERM; it ends, and its jobs with it, when the terminal is gone."""
        ticks = tree.start_ticks(self._main)
        if os.isatty(self._output) and self._exit_code is None and ticks is not None:
            tree.send_signal(self._main, ticks, signal.SIGHUP)

    def _press(self, now: float) -> None:
        """SIGTERM to each descendant once; after the grace SIGKILL to all, repeated until none is left."""
        kill = now >= self._kill_at
        self._killed |= kill and self._exit_code is None
        left = tree.below(os.getpid())
        if self._exit_code is not None and not self._terminated:
            self._note_left(left)
        if mps.PIPES in self._order["env"]:
            # Processes that this signal ends, for lack of a handler or by SIGKILL, are disconnected from MPS before it.
            ends = {pid for pid, _ in left if kill or not tree.handles(pid, signal.SIGTERM)} - self._disconnected
            self._disconnected |= ends
            mps.disconnect(self._order["env"], ends)
        for one in left:
            if kill:
                tree.send_signal(*one, signal.SIGKILL)
            elif one not in self._terminated:
                self._terminated.add(one)
                tree.send_signal(*one, signal.SIGTERM)
                # A stopped process handles SIGTERM only once it is resumed.
                tree.send_signal(*one, signal.SIGCONT)

    def _note_left(self, left: list[tuple[int, int]]) -> None:
        """Name in the log what the command left running, as `train.py &` does: it is ended, which may not be expected. Copies of
        the program itself and helpers of `multiprocessing` are left by many that end in order."""
        command = list(self._order["command"])
        arguments = command[1:] or command  # of a copy; its program may have been found on PATH or in a first line
        others = [
            words for pid, _ in left if (words := tree.command_line(pid)) and words[-len(arguments) :] != arguments
        ]
        named = [" ".join(words)[:200] for words in others if not any("multiprocessing" in word for word in words)]
        if named:
            line = f"[gpuq] the command has ended; what it left running is ended too: {'; '.join(named[:3])}\n"
            self._log.write(line.encode(errors="replace"))

    def _classify(self) -> classify.JobEnd:
        assert self._exit_code is not None
        ending, reason = self._ending or self._ending_of_exit()
        if ending == endings.EXITED:
            visible = self._order["env"].get("CUDA_VISIBLE_DEVICES")
            return classify.classify(
                self._exit_code,
                self._log.tail,
                signalled=self._signalled,
                oom_kill_s=self._oom_kill_s,
                has_gpu=None if visible is None else visible != "",
            )
        if self._killed:
            reason = f"{reason}; it did not end within {self._order['grace_s']:g} s of SIGTERM and was killed"
        return classify.JobEnd(ending, self._exit_code, reason)

    def _remove_empty_checkpoint_folder(self) -> None:
        """What a job has written there is its user's. Other attempts of a gang may be about to write."""
        env = self._order["env"]
        if "GPUQ_CHECKPOINT_DIR" in env and env.get("NNODES", "1") == "1":
            with suppress(OSError):
                os.rmdir(env["GPUQ_CHECKPOINT_DIR"])  # noqa: PTH106

    def _write_end(self, end: classify.JobEnd) -> None:
        """Publish `exit.json`; lost output is mentioned there and at the end of the log."""
        reason = end.reason
        if self._log.lost:
            lost = f"{self._log.lost} bytes of output could not be written: {self._log.fault}"
            self._log.close(f"\n[gpuq] {lost}\n")
            reason = f"{reason}; {lost}"
        self._log.close()
        lasted_s = None if self._started_uptime is None else lease.uptime() - self._started_uptime
        reason, at, give_up_at = storable(reason), time.time(), time.monotonic() + self._end_within_s
        while True:
            self._keep_folder()
            try:
                self._exit.publish(ending=end.ending, exit_code=end.exit_code, reason=reason, at=at, lasted_s=lasted_s)
                return
            except OSError as error:
                if time.monotonic() >= give_up_at or not can_be_made_again(self._exit.folder):
                    sys.stderr.write(f"{self._folder}: the end cannot be written: {error}; {end}\n")
                    return
            time.sleep(_LOOK_EVERY_S)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
