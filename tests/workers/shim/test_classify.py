"""How an end is named from its evidence: what frameworks and drivers print, what only looks like it, and anything at all."""

from __future__ import annotations

import re
import signal

import pytest
from gpuq_workers.shim import error_patterns, output_tail
from gpuq_workers.shim.classify import classify
from hypothesis import example, given
from hypothesis import strategies as st

from gpuq.core.state.attempt import Ending
from tests.workers.printed import (
    CHILD,
    DEVICE_FAULTS,
    DRIVER_FAULTS,
    ERRORS,
    GPU_MEMORY,
    HOST_MEMORY,
    RANK,
    SPAWNED,
    TORCH,
    traceback,
)

OOM, HOST, DRIVER, DEVICE = "out of memory", "host out of memory", "driver error", "device failed"
KILLED, ERROR = "killed", "exited"


def named(output: str | bytes, code: int = 1, **more: object) -> str:
    tail = output if isinstance(output, bytes) else output.encode()
    return classify(code, tail, **more).ending  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("output", "ending"),
    [
        pytest.param(output, ending, id=f"{ending}: {name}")
        for ending, cases in (
            (OOM, GPU_MEMORY), (HOST, HOST_MEMORY), (DRIVER, DRIVER_FAULTS), (DEVICE, DEVICE_FAULTS), (ERROR, ERRORS),
        )
        for name, output in cases.items()
    ],
)  # fmt: skip
def test_printed_messages_give_the_ending(output: str, ending: str) -> None:
    end = classify(1, output.encode()[-65_536:])
    assert end.ending == ending, end.reason
    assert named(output, 0) == ERROR, "a success is a success, whatever was printed"


def test_an_exit_code_comes_with_the_exception_that_caused_it() -> None:
    lived_through = traceback("KeyError: 'tried again'") + "epoch 2\n" * 20
    for output, reason in (
        (traceback("ConnectionError: no route to host"), "ended with exit code 1: ConnectionError: no route to host"),
        ("loss 0.3\n", "ended with exit code 1"),
        ("epoch 1\nerror: no data at /data/x\n", "ended with exit code 1: error: no data at /data/x"),
        (
            "usage: t.py [-h] --lr LR\nt.py: error: the following arguments are required: --lr\n",
            "ended with exit code 1: t.py: error: the following arguments are required: --lr",
        ),
        (
            "  File \"t.py\", line 3\n    if x\n        ^\nSyntaxError: expected ':'\n",
            "ended with exit code 1: SyntaxError: expected ':'",
        ),
        ("sh: 1: nvcc: not found\n", "ended with exit code 1: sh: 1: nvcc: not found"),
        (lived_through, "ended with exit code 1"),
        (traceback("E" * 500), f"ended with exit code 1: {'E' * 200}…"),
    ):
        assert classify(1, output.encode()).reason == reason


def test_the_matching_line_is_quoted() -> None:
    end = classify(1, traceback(TORCH).encode())
    assert end.reason.startswith(
        "out of memory: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."
    )
    assert len(end.reason) < 230


@pytest.mark.parametrize("output", [GPU_MEMORY["PyTorch since 2.5"], GPU_MEMORY["JAX"], GPU_MEMORY["cuBLAS"]])
def test_out_of_memory_without_a_gpu_is_host_memory(output: str) -> None:
    """XLA says the same words of both."""
    assert named(output, has_gpu=False) == HOST
    assert named(output, has_gpu=True) == OOM


@pytest.mark.parametrize("output", [*DRIVER_FAULTS.values(), *DEVICE_FAULTS.values()])
def test_driver_errors_without_a_gpu_are_the_jobs_own(output: str) -> None:
    assert named(output, has_gpu=False) == ERROR


# --- signals and the kernel --------------------------------------------------------------------------------------


def test_sigkill_is_host_oom_only_with_the_kernels_counter() -> None:
    assert named("", 137, signalled=True) == KILLED
    assert named("", 137, signalled=True, oom_kill_s=0.3) == HOST
    assert named("", 137, oom_kill_s=0.3) == HOST, "a shell hands it on as an exit code"
    assert named("", 137, signalled=True, oom_kill_s=30.0) == KILLED, "that was another's"
    assert named("", 1, oom_kill_s=0.3) == ERROR


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU]
)
def test_a_signal_of_another_process_is_a_kill(number: signal.Signals) -> None:
    assert named("", 128 + number, signalled=True) == KILLED


@pytest.mark.parametrize(
    "number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGPIPE]
)
def test_a_crash_is_an_error(number: signal.Signals) -> None:
    end = classify(128 + number, signalled=True)
    assert (end.ending, end.reason) == (ERROR, f"ended by signal {int(number)} ({number.name})")


def test_an_exit_code_above_128_is_a_signal_only_as_shells_report_it() -> None:
    assert [named("", code) for code in (129, 130, 137, 143)] == [KILLED] * 4
    assert [named("", code) for code in (124, 125, 126, 127, 128, 139, 200, 255)] == [ERROR] * 8


def test_a_killed_process_does_not_end_by_a_handled_exception() -> None:
    survived = traceback(TORCH) + "retrying with batch size 8\nstep 1\n"
    assert named(survived, 137, signalled=True) == KILLED
    assert named(traceback(TORCH), 143, signalled=True) == OOM, "its launcher ended it for that"


@pytest.mark.parametrize("output", [CHILD, RANK, SPAWNED])
def test_a_killed_child_is_host_oom_only_with_the_kernels_counter(output: str) -> None:
    assert named(output) == KILLED
    assert named(output, oom_kill_s=20.0) == HOST


def test_a_broken_pool_is_an_error_without_the_kernels_counter() -> None:
    broken = traceback(
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly"
    )
    assert named(broken) == ERROR
    assert named(broken, oom_kill_s=5.0) == HOST


# --- anything ----------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        text.encode()
        for cases in (GPU_MEMORY, HOST_MEMORY, DRIVER_FAULTS, DEVICE_FAULTS, ERRORS)
        for text in cases.values()
        if len(text) < 4000
    ]
)
OUTPUTS = st.lists(st.one_of(PIECES, st.binary(max_size=60)), max_size=5).map(b"\n".join)


@given(
    st.one_of(st.binary(), OUTPUTS),
    st.integers(-1, 300),
    st.booleans(),
    st.none() | st.floats(),
    st.none() | st.booleans(),
)
@example(b"Traceback (most recent call last):", 1, False, None, None)
@example(b"[rank0]: Traceback (most recent call last)\n[rank0]:", 1, False, None, None)
def test_any_output_gets_an_ending(
    tail: bytes, code: int, signalled: bool, oom: float | None, gpu: bool | None
) -> None:
    end = classify(code, tail, signalled=signalled, oom_kill_s=oom, has_gpu=gpu)
    assert end.ending in {ERROR, KILLED, OOM, HOST, DRIVER, DEVICE}
    assert end.exit_code == code
    assert end.reason.isprintable()
    if code == 0:
        assert end.ending == ERROR
    if gpu is False:
        assert end.ending not in {OOM, DRIVER, DEVICE}


@given(OUTPUTS)
def test_the_last_exception_decides(before: bytes) -> None:
    """Whatever was caught and logged before, the exception that ended it is the last."""
    tail = before + b"\n" * 2 + b"step\n" + traceback("KeyError: 'loss'").encode()
    messenger = re.search(error_patterns.FORWARDERS, before)
    rank = any(tag in before for tag in (b"[rank", b"0: ", b"pid="))
    if not messenger and not rank:
        assert classify(1, tail).ending == ERROR


# --- the endings ----------------------------------------------------------------------------------------------------


def test_endings_of_the_shim_are_those_of_the_core() -> None:
    ours = {value for name, value in vars(error_patterns).items() if name in Ending.__members__}
    assert ours == {str(ending) for ending in Ending}


def test_every_pattern_has_a_test_case() -> None:
    """A row that nothing shows to be needed goes."""
    cases = [
        text.encode()[-65_536:]
        for group in (GPU_MEMORY, HOST_MEMORY, DRIVER_FAULTS, DEVICE_FAULTS)
        for text in group.values()
    ]
    said = [output_tail.read(case) for case in (*cases, *(one.encode() for one in (CHILD, RANK, SPAWNED)))]
    shown = [
        pattern
        for _, _, pattern, _ in error_patterns.PATTERNS
        if any(re.search(pattern, text, re.MULTILINE) for one in said for text in (*one.raised, *one.lines))
    ]
    missing = [source for _, _, pattern, source in error_patterns.PATTERNS if pattern not in shown]
    assert missing == []
