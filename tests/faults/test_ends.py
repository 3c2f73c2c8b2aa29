"""How jobs really end, each a process under the real shim, and what each end is called.

GPU and driver faults are real processes that print what frameworks print and leave with their exit code: no GPU was there. All
others happen. The kernel's own kill for memory needs a limited cgroup of our own, from systemd; elsewhere it is skipped, and its
counter is stood in for by a file.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuq.core.state.attempt import Ending
from tests.workers.conftest import SHIM, Attempt, gone, python, quick_shim, wait_for
from tests.workers.printed import SUMMARY, TORCH, traceback

OOM, HOST, DRIVER, DEVICE = "out of memory", "host out of memory", "driver error", "device failed"
EXITED, KILLED, TIMED_OUT, STOPPED = "exited", "killed", "timed out", "stopped"

LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29));"
READY = "print('ready', flush=True);"
WAITS = f"import time; {READY} time.sleep(60)"
TRAPS = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit({code}));" + READY + "time.sleep(60)"
)
DEAF = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY} time.sleep(60)"


def prints(text: str, code: int = 1) -> tuple[str, ...]:
    return python(f"import sys; sys.stderr.write({text!r}); sys.exit({code})")


def shell(script: str, *arguments: str) -> tuple[str, ...]:
    return ("bash", "-c", script, "bash", *arguments)


def signalled(number: int) -> Callable[[Attempt], None]:
    """Send the signal to the last process that printed its pid, or to the job's own."""

    def act(attempt: Attempt) -> None:
        wait_for(lambda: (attempt.folder / "output.log").exists() and b"ready" in attempt.log(), what="ready")
        printed = [int(word) for word in attempt.log().split() if word.isdigit()]
        os.kill(printed[-1] if printed else attempt.started()["pid"], number)

    return act


def stopped(*, save: bool = False) -> Callable[[Attempt], None]:
    def act(attempt: Attempt) -> None:
        wait_for(lambda: (attempt.folder / "output.log").exists() and b"ready" in attempt.log(), what="ready")
        attempt.stop("stopped by order", save=save)

    return act


@dataclass
class Case:
    """One job, what is done to it, and how its end is called."""

    command: tuple[str, ...]
    ending: str
    code: int
    said: str = ""
    act: Callable[[Attempt], None] = lambda _: None
    order: dict[str, Any] = field(default_factory=dict)


CASES = {
    # success
    "it ends": Case(("true",), EXITED, 0),
    "a thread of it leaves with 5": Case(
        python("import sys, threading; t = threading.Thread(target=sys.exit, args=(5,)); t.start(); t.join()"), EXITED, 0
    ),
    "a daemon thread of it ran out of memory": Case(
        python(
            "import threading\ndef f(): raise MemoryError\nt = threading.Thread(target=f, daemon=True); t.start(); t.join()"
        ),
        EXITED,
        0,
    ),
    "it ran out of memory, and went on with less": Case(
        python(LIMITED + "import traceback\ntry: bytearray(1 << 30)\nexcept MemoryError: traceback.print_exc()"), EXITED, 0
    ),
    "a pipe hides its failure, as pipes do": Case(shell('"$@" | cat', *python("raise MemoryError")), EXITED, 0),
    "its child outlives it": Case(("sh", "-c", "setsid sleep 999 & echo $!"), EXITED, 0),
    "it gets SIGHUP under nohup, and goes on": Case(
        ("nohup", *python("import os, signal; os.kill(os.getpid(), signal.SIGHUP); print('on')")), EXITED, 0
    ),
    "it listens to a stranger's SIGTERM and leaves with 0": Case(
        python(TRAPS.format(code=0)), EXITED, 0, act=signalled(signal.SIGTERM)
    ),
    # error
    "an exit code": Case(("sh", "-c", "exit 3"), EXITED, 3),
    "an exception": Case(python("{}['loss']"), EXITED, 1, "exit code 1"),
    "a last message": Case(python("import sys; sys.exit('no data')"), EXITED, 1),
    "it becomes another program": Case(shell('exec sh -c "exit 4"'), EXITED, 4),
    "an abort": Case(python("import os; os.abort()"), EXITED, 134, "SIGABRT"),
    "a segmentation fault": Case(python("import ctypes; ctypes.string_at(0)"), EXITED, 139, "SIGSEGV"),
    "a segmentation fault, with faulthandler": Case(
        (sys.executable, "-X", "faulthandler", "-c", "import ctypes; ctypes.string_at(0)"), EXITED, 139, "SIGSEGV"
    ),
    "a segmentation fault under a shell that may dump core": Case(
        shell('ulimit -c 1; "$@"; exit $?', *python("import ctypes; ctypes.string_at(0)")), EXITED, 139
    ),
    "a file that was cut under its map": Case(
        python(
            "import mmap, tempfile\nf = tempfile.TemporaryFile(); f.truncate(4096)\n"
            "m = mmap.mmap(f.fileno(), 4096); f.truncate(0)\nm[0]"
        ),
        EXITED,
        135,
        "SIGBUS",
    ),
    "it ran out of memory, retried, and then made a mistake": Case(
        python(
            LIMITED + "import traceback\ntry: bytearray(1 << 30)\nexcept MemoryError: traceback.print_exc()\n"
            "print('smaller')\n{}[0]"
        ),
        EXITED,
        1,
    ),
    "a finalizer ran out of memory at exit": Case(
        python("class A:\n def __del__(self): raise MemoryError\na = A()\nprint('x', flush=True)\n{}[0]"), EXITED, 1
    ),
    "a pool lost a process, for an unknown reason": Case(
        python(
            "import os, signal\nfrom concurrent.futures import ProcessPoolExecutor as P\n"
            "with P(1) as p: p.submit(os.kill, 0, 0).result(); p.submit(os._exit, 3).result()"
        ),
        EXITED,
        1,
    ),
    "a time limit of its own": Case(("timeout", "0.2", "sleep", "60"), EXITED, 124, "`timeout`"),
    "an illegal memory access": Case(
        prints(traceback("torch.AcceleratorError: CUDA error: an illegal memory access was encountered")), EXITED, 1
    ),
    "one line without an end": Case(python("import sys; sys.stdout.write('.' * 300_000); sys.exit(7)"), EXITED, 7),
    # host memory
    "Python's own": Case(python(LIMITED + "bytearray(1 << 30)"), HOST, 1, "MemoryError"),
    "NumPy's": Case(python("import numpy; numpy.zeros((10**6, 10**6, 100))"), HOST, 1, "Unable to allocate"),
    "the system's": Case(python("import mmap; mmap.mmap(-1, 1 << 60)"), HOST, 1, "[Errno 12]"),
    "C++'s": Case(
        python("import ctypes; ctypes.CDLL('libstdc++.so.6')['_ZSt17__throw_bad_allocv']()"), HOST, 134, "std::bad_alloc"
    ),
    "a pipe that does not hide it": Case(
        shell('set -o pipefail; "$@" | cat', *python(LIMITED + "bytearray(1 << 30)")), HOST, 1
    ),
    "without buffers, after half a line": Case(
        (sys.executable, "-u", "-c", "print('loading', end='\\r')\nraise MemoryError"), HOST, 1
    ),
    "in a process of a pool": Case(
        python("import multiprocessing as m\nwith m.Pool(1) as p: p.map(bytearray, [1 << 60])"), HOST, 1, "MemoryError"
    ),
    "in a process that it checks": Case(
        python(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {LIMITED + 'bytearray(1 << 30)'!r}], check=True)"),
        HOST,
        1,
    ),
    "in a group of tasks": Case(
        python(
            "import asyncio\nasync def f(): raise MemoryError\nasync def main():\n async with asyncio.TaskGroup() as g:\n"
            "  g.create_task(f())\nasyncio.run(main())"
        ),
        HOST,
        1,
    ),
    "XLA's word for it, where there is no GPU": Case(
        prints(traceback("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 40000000000000 bytes.")),
        HOST,
        1,
        order={"env": {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": ""}},
    ),
    # GPU memory (printed)
    "PyTorch's": Case(prints(traceback(TORCH)), OOM, 1, "Tried to allocate 20.00 MiB"),
    "after a progress bar": Case(prints("\r 10%|#  |\r 20%|## |\n" + traceback(TORCH)), OOM, 1),
    "of a rank, above its launcher's summary": Case(prints(traceback(TORCH, frames=300) + SUMMARY), OOM, 1),
    "caught, printed, given up": Case(prints(f"cannot train: {TORCH.partition(' ')[2]}\n", 2), OOM, 2),
    "a C++ program's, with an abort": Case(
        shell("echo \"  what():  cudaErrorMemoryAllocation: out of memory\"; kill -ABRT $$"), OOM, 134
    ),
    # the driver (printed)
    "the driver is too old": Case(
        prints(traceback("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).")), DRIVER, 1
    ),
    "an uncorrectable error": Case(
        prints(traceback("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered")), DEVICE, 1
    ),
    "the device is lost": Case(prints(traceback("pynvml.NVMLError_GpuIsLost: GPU is lost")), DEVICE, 1),
    # killed
    "by SIGKILL": Case(python(WAITS), KILLED, 137, "SIGKILL", signalled(signal.SIGKILL)),
    "by SIGTERM": Case(python(WAITS), KILLED, 143, "SIGTERM", signalled(signal.SIGTERM)),
    "by SIGINT": Case(python(WAITS), KILLED, 130, "SIGINT", signalled(signal.SIGINT)),
    "under a shell": Case(
        shell('"$@"; exit $?', *python("import os; print(os.getpid());" + WAITS)), KILLED, 137, act=signalled(signal.SIGKILL)
    ),
    "after it had lived through another's lack of memory": Case(
        python("print('Traceback (most recent call last):\\n  File\\nMemoryError\\nsmaller');" + WAITS),
        KILLED,
        137,
        act=signalled(signal.SIGKILL),
    ),
    # time limit
    "it ends on the first signal": Case(python(WAITS), TIMED_OUT, 143, "limit of 0.3 s", order={"time_limit_s": 0.3}),
    "it does not listen": Case(
        python(DEAF), TIMED_OUT, 137, order={"time_limit_s": 0.3, "grace_s": 0.1}
    ),
    "it cleans up and leaves with 0": Case(
        python(TRAPS.format(code=0)), TIMED_OUT, 0, order={"time_limit_s": 0.5, "grace_s": 10}
    ),
    # stopped by gpuq
    "a cancel": Case(python(WAITS), STOPPED, 143, "by order", stopped()),
    "a cancel that it does not hear": Case(python(DEAF), STOPPED, 137, act=stopped(), order={"grace_s": 0.1}),
    "a cancel, and it leaves with 0": Case(python(TRAPS.format(code=0)), STOPPED, 0, act=stopped(), order={"grace_s": 10}),
    "preempted, it saves and leaves with 0": Case(
        python(TRAPS.format(code=0)), STOPPED, 0, act=stopped(save=True), order={"save_grace_s": 10}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.ending}: {name}") for name, case in CASES.items()])
def test_an_end_is_called_what_it_was(attempt: Attempt, case: Case) -> None:
    attempt.order(*case.command, **{"cwd": str(attempt.folder), **case.order}).start()
    case.act(attempt)
    end = attempt.end()
    assert (end["ending"], end["exit_code"]) == (case.ending, case.code), end["reason"]
    assert case.said in end["reason"]


def test_every_end_that_a_job_can_have_has_a_case() -> None:
    """The rest is about jobs that never ran, and shims that are gone: tests/workers/shim/test_main.py, test_residents.py."""
    assert {case.ending for case in CASES.values()} == set(Ending) - {Ending.NEVER_STARTED, Ending.LOST}
    assert len(CASES) >= 30


def test_what_it_leaves_behind_is_gone_when_its_end_is_written(attempt: Attempt) -> None:
    attempt.run("sh", "-c", "setsid sleep 998 & echo $!")
    assert gone(int(attempt.log().splitlines()[0]))


def test_a_kill_by_the_kernel_is_recognised_by_its_counter(attempt: Attempt) -> None:
    """The real shim, a real SIGKILL, and a file in place of the kernel's counter, which the job raises itself."""
    events = attempt.folder / "memory.events"
    events.write_text("oom_kill 0\n")
    attempt.order("sh", "-c", f"echo 'oom_kill 1' > {events}; kill -9 $$")
    counter = f"shim.oom._events_file = lambda: {str(events)!r}"
    attempt.shim = subprocess.Popen(quick_shim(attempt.folder, counter), start_new_session=True)
    end = attempt.end()
    assert (end["ending"], end["exit_code"]) == (HOST, 137)


@pytest.mark.skipif(
    not Path("/run/systemd/system").exists() or shutil.which("systemd-run") is None,
    reason="a cgroup with a limit of its own comes from systemd, which does not run here",
)
def test_the_kernels_own_kill_is_the_hosts_memory(attempt: Attempt) -> None:
    user = [] if os.getuid() == 0 else ["--user"]
    scope = ["systemd-run", *user, "--scope", "--quiet", "--collect", "-p", "MemoryMax=48M", "-p", "MemorySwapMax=0"]
    attempt.order(*python("x = bytearray(1 << 28)"))
    attempt.shim = subprocess.Popen([*scope, sys.executable, "-I", "-S", str(SHIM), str(attempt.folder)])
    end = attempt.end()
    assert (end["ending"], end["exit_code"]) == (HOST, 137)
