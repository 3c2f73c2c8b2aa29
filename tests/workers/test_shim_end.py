"""How an end is named from its evidence: what frameworks and drivers print, what only looks like it, and anything at all."""

from __future__ import annotations

import re
import signal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuq.core.attempt import Ending
from workers import shim_end, shim_text, shim_words
from workers.shim_end import Evidence, classify

OOM, HOST, DRIVER, DEVICE = "out of memory", "host out of memory", "driver error", "device failed"
KILLED, ERROR = "killed", "exited"


def traceback(*last: str, frames: int = 2) -> str:
    """A traceback as Python prints it; `last` are the exception's own lines."""
    depth = "".join(
        f'  File "/home/ann/train.py", line {n}, in step\n    loss.backward()\n' for n in range(1, frames + 1)
    )
    return "Traceback (most recent call last):\n" + depth + "\n".join(last) + "\n"


def named(output: str | bytes, code: int = 1, **more: object) -> str:
    tail = output if isinstance(output, bytes) else output.encode()
    return classify(Evidence(code, tail, **more)).ending  # type: ignore[arg-type]


# --- what is printed --------------------------------------------------------------------------------------------

TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which "
    "11.75 MiB is free. Process 1 has 40.02 GiB memory in use. Including non-PyTorch memory, this process has 39.11 GiB in use."
)
TORCHRUN = """\
E1121 10:00:01.000000 77 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: {code}) local_rank: 1 (pid: 99)
Traceback (most recent call last):
  File "/venv/bin/torchrun", line 7, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_10:00:01
  host      : alpha
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 99)
  error_file: <N/A>
  traceback : {why}
============================================================
"""
SUMMARY = TORCHRUN.format(code=1, why="To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html")
GRAPH = (
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:",
    "",
    "Detected at node gradients/conv defined at (most recent call last):",
    '  File "/home/ann/train.py", line 9, in <module>',
    "OOM when allocating tensor with shape[512,64,224,224] and type float on {where}",
    "\t [[{{{{node gradients/conv}}}}]]",
    "Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom.",
    " [Op:__inference_train_function_10]",
)
ON_GPU = "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
ON_CPU = "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"

GPU_MEMORY = {
    "PyTorch since 2.5": traceback(TORCH),
    "PyTorch before": traceback(TORCH.replace("torch.Out", "torch.cuda.Out")),
    "PyTorch before 1.13": traceback(
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total)"
    ),
    "torch.AcceleratorError": traceback(
        "torch.AcceleratorError: CUDA error: out of memory",
        "Search for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda for more information.",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    ),
    "cuBLAS": traceback("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "cuDNN 8": traceback("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    "cuDNN 9": traceback("RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    "ROCm": traceback(TORCH.replace("CUDA", "HIP")),
    "TensorFlow": traceback(*GRAPH).replace("{where}", ON_GPU),
    "TensorFlow, eager": traceback(
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__Mul_device_GPU:0}} failed to "
        "allocate memory [Op:Mul] name: "
    ),
    "TensorFlow, a copy": traceback(
        "tensorflow.python.framework.errors_impl.InternalError: Dst tensor is not initialized."
    ),
    "JAX": traceback(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.",
        "BufferAssignment OOM Debugging.",
        "BufferAssignment stats:",
        *["             parameter allocation:  372.76MiB"] * 90,
    ),
    "JAX since 0.6": traceback(
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 176.00MiB (184549376B) on device 0",
        "--------------------",
        "For simplicity, JAX has removed its internal frames from the traceback of the following exception.",
    ),
    "CuPy": traceback(
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes (allocated so far: 0 bytes)."
    ),
    "Numba": traceback(
        "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"
    ),
    "PyCUDA": traceback("pycuda._driver.MemoryError: cuMemAlloc failed: out of memory"),
    "RMM": traceback("MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /rmm/cuda_memory_resource.hpp"),
    "NCCL": traceback(
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled cuda error, NCCL version 2.27.5",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "Last error:",
        "Cuda failure 2 'out of memory'",
    ),
    "Ray": traceback(
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::train() (pid=7, ip=10.0.0.1)",
        "  File ..., in train",
        TORCH,
    ),
    "cuFFT": traceback("RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED"),
    "CUDA.jl": "ERROR: LoadError: Out of GPU memory trying to allocate 8.000 GiB\n",
    "a C++ program": "terminate called after throwing an instance of 'thrust::system::system_error'\n"
    "  what():  parallel_for failed: cudaErrorMemoryAllocation: out of memory\n",
    "llama.cpp": "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 100 MiB on device 0: cudaMalloc failed: out of memory\n",
    "spconv": traceback(
        "RuntimeError: TensorStorage tensor.h 168", "cuda failed with error 2 out of memory. use CUDA_LAUNCH_BLOCKING=1"
    ),
    "Accelerate, at every size": traceback("RuntimeError: No executable batch size found, reached zero."),
    "in other words": traceback("RuntimeError: CUDA ran out of memory on cuda:0"),
    "JAX of old": traceback(
        "RuntimeError: Resource exhausted: Failed to allocate request for 32.00MiB (33554432B) on device 0"
    ),
    "a library's last line": "2024-03-05 10:00:01.577626: F statusor.cc:34] CUDA_ERROR_OUT_OF_MEMORY: out of memory\n",
    "caught, printed, given up": f"step 3\ncannot go on: {TORCH.partition(' ')[2]}\nbye\n",
    "raised again as something else": traceback(TORCH)
    + "\nThe above exception was the direct cause of the following exception:\n\n"
    + traceback("RuntimeError: training failed in epoch 3"),
    "while cleaning up after it": traceback(TORCH)
    + "\nDuring handling of the above exception, another exception occurred:\n\n"
    + traceback("NameError: name 'logger' is not defined"),
    "in a loader process": traceback(
        "MemoryError: Caught OutOfMemoryError in DataLoader worker process 0.",
        "Original Traceback (most recent call last):",
        '  File "worker.py", line 3, in fetch',
        TORCH,
    ),
    "in a notebook that is run": "-------\nOutOfMemoryError          Traceback (most recent call last)\n~/train.py in fit(x)\n"
    "   13 if x:\n-> 14   loss.backward()\n\n" + TORCH + "\n",
    "PyTorch before 1.0": traceback(
        "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/THCStorage.cu:58"
    ),
    "with a logger's farewell after it": traceback(TORCH) + "wandb: Run history:\n" * 40,
    "in colours, with a progress bar before it": "\r 50%|##  | 1/2\r100%|####| 2/2"
    + "\x1b[31m\n"
    + traceback(TORCH)
    + "\x1b[0m",
    "of a rank under torchrun": traceback(TORCH) + SUMMARY,
    "of a rank under torchrun, marked": "".join(f"[rank1]: {line}\n" for line in traceback(TORCH).splitlines())
    + SUMMARY,
    "of one rank among many": "".join(
        f"[rank0]: {a}\n[rank1]: {b}\n"
        for a, b in zip(
            traceback("torch.distributed.DistBackendError: NCCL error: remote process exited").splitlines(),
            traceback(TORCH).splitlines(),
            strict=True,
        )
    )
    + SUMMARY,
    "of a rank, with eight tracebacks after it": traceback(TORCH, frames=60)
    + traceback("torch.distributed.DistBackendError: NCCL error: remote process exited", frames=60) * 7
    + SUMMARY,
}

HOST_MEMORY = {
    "Python": traceback("MemoryError"),
    "NumPy 2": traceback(
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array with shape (1000000, 1000000)"
    ),
    "NumPy 1": traceback(
        "numpy.core._exceptions.MemoryError: Unable to allocate 8.00 GiB for an array with shape (1073741824,)"
    ),
    "Arrow": traceback("pyarrow.lib.ArrowMemoryError: malloc of size 99 failed"),
    "fork": traceback("OSError: [Errno 12] Cannot allocate memory"),
    "PyTorch": traceback(
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 8000000000000 bytes. Error code 12 (Cannot allocate memory)"
    ),
    "PyTorch on Windows' words": traceback(
        "RuntimeError: [enforce fail] data. DefaultCPUAllocator: not enough memory: you tried"
    ),
    "/dev/shm full": "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory.\n"
    + traceback(
        "RuntimeError: DataLoader worker (pid 467) is killed by signal: Bus error. It is possible that dataloader's workers are "
        "out of shared memory. Please try to raise your shared memory limit."
    ),
    "/dev/shm full, and the loader again at exit": traceback(
        "RuntimeError: DataLoader worker (pid 5) is killed by signal: Bus error. It is possible that dataloader's workers are "
        "out of shared memory."
    )
    + "Exception ignored in atexit callback: <function _clean_up_worker at 0x7f>\n"
    + traceback("RuntimeError: DataLoader worker (pid 5) exited"),
    "TensorFlow without a GPU": traceback(*GRAPH).replace("{where}", ON_CPU),
    "C++": "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    "Fatal Python error: Aborted\n\nCurrent thread 0x00007f (most recent call first):\n"
    + '  File "/home/ann/train.py", line 3 in step\n' * 90
    + "\nExtension modules: numpy._core._multiarray_umath (total: 1)\n",
    "Java": "java.lang.OutOfMemoryError: Java heap space\n",
    "Ray": traceback("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."),
    "Slurm's word": "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n",
    "PyTorch's shared memory": traceback(
        "RuntimeError: unable to mmap 99 bytes from file </torch_7_0>: Cannot allocate memory (12)"
    ),
    "cuDNN 9": traceback("RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
    "Rust": "memory allocation of 137438953472 bytes failed\nAborted (core dumped)\n",
    "Go": "fatal error: runtime: out of memory\n\nruntime stack:\nruntime.throw(...)\n",
    "Node.js": "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n",
    "R": "Error: cannot allocate vector of size 7.5 Gb\nExecution halted\n",
    "a shell": "train.sh: fork: Cannot allocate memory\n",
}

DRIVER_FAULTS = {
    "driver too old": traceback("RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."),
    "no driver": traceback(
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU."
    ),
    "no device": traceback("RuntimeError: CUDA error: no CUDA-capable device is detected"),
    "PyTorch sees none": traceback("RuntimeError: No CUDA GPUs are available"),
    "insufficient": "CUDA error: CUDA driver version is insufficient for CUDA runtime version\n",
    "updated without a reboot": traceback(
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / "
        "cuda driver combination"
    ),
    "no fabric manager": traceback(
        "RuntimeError: Error 802: system not yet initialized (Triggered internally at CUDAFunctions.cpp)"
    ),
    "NVML": traceback(
        "pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.",
        "Driver/library version mismatch",
    ),
    "no fabric manager, by its name": "cudaErrorSystemNotReady\n",
    "PyTorch cannot begin": traceback(
        "RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu."
    ),
    "MPS, ended": traceback("RuntimeError: CUDA error: the MPS client has been terminated by the server"),
    "MPS": traceback(
        "RuntimeError: CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server"
    ),
}

DEVICE_FAULTS = {
    "ECC": traceback("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"),
    "unavailable, by its name": traceback("jax.errors.JaxRuntimeError: INTERNAL: CUDA_ERROR_DEVICE_UNAVAILABLE"),
    "ECC, by its name": "jaxlib: CUDA_ERROR_ECC_UNCORRECTABLE\n",
    "ECC, with NCCL's watchdog and C++ frames after it": traceback(
        "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    )
    + "[E1121 10:00:01 ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with exception: CUDA error\n"
    + "Exception raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:44 (most recent call first):\n"
    + "".join(
        f"frame #{n}: c10::Error::Error(std::string) + 0x57 (0x7a in /venv/torch/lib/libc10.so)\n" for n in range(40)
    ),
    "in a box of rich's": "╭─────── Traceback (most recent call last) ───────╮\n│ /venv/run.py:753 in run │\n│ ❱ 753 │   f( │\n"
    "╰─────────────╯\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n",
    "lost": traceback("pynvml.NVMLError_GpuIsLost: GPU is lost"),
    "off the bus": "NVRM: GPU has fallen off the bus.\n",
    "NVLink": traceback("RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution"),
    "busy or broken": traceback("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
}

# What gpuq must not fall for.
ERRORS = {
    "an illegal memory access": traceback(
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    ),
    "a device-side assert": traceback(
        "torch.AcceleratorError: CUDA error: device-side assert triggered",
        "Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda for more information.",
    ),
    "an unspecified launch failure": traceback("RuntimeError: CUDA error: unspecified launch failure"),
    "cuDNN's internal error": traceback("RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"),
    "no kernel image": traceback("RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    "Triton's shared memory": traceback(
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376."
    ),
    "a quota": traceback(
        "grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:",
        "\tstatus = StatusCode.RESOURCE_EXHAUSTED",
        '\tdetails = "Quota exceeded for quota metric requests"',
        ">",
    ),
    "a quota, once more": traceback(
        "google.api_core.exceptions.ResourceExhausted: 429 RESOURCE_EXHAUSTED: Quota exceeded"
    ),
    "a message too large": traceback("RuntimeError: RESOURCE_EXHAUSTED: Received message larger than max (9 vs. 4)"),
    "a model with a name": "loading OOM-7B (out of memory edition)\n" + traceback("KeyError: 'OutOfMemoryError'"),
    "one's own warning": "warning: CUDA out of memory is likely above batch size 64\n"
    + traceback("ValueError: batch size"),
    "a warning before a quiet end": "note: CUDA out of memory, halving the batch\nstep 1\n",
    "caught, retried, then another": traceback(TORCH)
    + "retrying with batch size 8\nstep 1\n"
    + traceback("KeyError: 'loss'"),
    "caught and logged long ago": traceback(TORCH)
    + "".join(f"step {n} loss 0.{n}\n" for n in range(40))
    + "giving up\n",
    "TensorFlow's warnings before a quiet end": "2021-10-12 20:59:07.711738: W picker.cc:729] Failed to determine "
    "best cudnn convolution algorithm: Resource exhausted: Out of memory while trying to allocate 16777716 bytes.\nbad option\n",
    "TensorFlow's hint that is none": "W bfc_allocator.cc:272] Allocator (GPU_0_bfc) ran out of memory trying to allocate 16MiB. "
    "The caller indicates that this is not a failure\n" + traceback("ValueError: shapes do not match"),
    "a memory error that is spoken of": "MemoryError: quoted\n",
    "a finalizer's": traceback("ValueError: x")
    + "Exception ignored in: <function Pool.__del__>\n"
    + traceback("MemoryError"),
    "a rank's own mistake": traceback("ValueError: batch size") + SUMMARY,
    "cut in the middle of a line": TORCH[20:] + "\n" + traceback("KeyError: 'x'"),
    "nothing at all": "",
    "one endless line": "." * 70_000,
}


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
def test_what_is_printed_names_the_end(output: str, ending: str) -> None:
    end = classify(Evidence(1, output.encode()[-65_536:]))
    assert end.ending == ending, end.reason
    assert named(output, 0) == ERROR, "a success is a success, whatever was printed"


def test_the_line_that_settled_it_is_quoted() -> None:
    end = classify(Evidence(1, traceback(TORCH).encode()))
    assert end.reason.startswith(
        "out of memory: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."
    )
    assert len(end.reason) < 230


@pytest.mark.parametrize("output", [GPU_MEMORY["PyTorch since 2.5"], GPU_MEMORY["JAX"], GPU_MEMORY["cuBLAS"]])
def test_without_a_gpu_it_was_the_hosts_memory(output: str) -> None:
    """XLA says the same words of both."""
    assert named(output, has_gpu=False) == HOST
    assert named(output, has_gpu=True) == OOM


@pytest.mark.parametrize("output", [*DRIVER_FAULTS.values(), *DEVICE_FAULTS.values()])
def test_without_a_gpu_no_driver_was_to_serve_it(output: str) -> None:
    assert named(output, has_gpu=False) == ERROR


# --- signals and the kernel --------------------------------------------------------------------------------------


def test_a_sigkill_is_the_kernels_only_with_evidence() -> None:
    assert named("", 137, signalled=True) == KILLED
    assert named("", 137, signalled=True, oom_kill_s=0.3) == HOST
    assert named("", 137, oom_kill_s=0.3) == HOST, "a shell hands it on as an exit code"
    assert named("", 137, signalled=True, oom_kill_s=30.0) == KILLED, "that was another's"
    assert named("", 1, oom_kill_s=0.3) == ERROR


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU]
)
def test_a_signal_from_somebody_is_a_kill(number: signal.Signals) -> None:
    assert named("", 128 + number, signalled=True) == KILLED


@pytest.mark.parametrize(
    "number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGPIPE]
)
def test_a_crash_is_an_error(number: signal.Signals) -> None:
    end = classify(Evidence(128 + number, signalled=True))
    assert (end.ending, end.reason) == (ERROR, f"ended by signal {int(number)} ({number.name})")


def test_an_exit_code_is_no_signal_unless_shells_hand_it_on() -> None:
    assert [named("", code) for code in (129, 130, 137, 143)] == [KILLED] * 4
    assert [named("", code) for code in (124, 125, 126, 127, 128, 139, 200, 255)] == [ERROR] * 8


def test_who_was_killed_did_not_end_by_what_he_had_lived_through() -> None:
    survived = traceback(TORCH) + "retrying with batch size 8\nstep 1\n"
    assert named(survived, 137, signalled=True) == KILLED
    assert named(traceback(TORCH), 143, signalled=True) == OOM, "its launcher ended it for that"


CHILD = traceback("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. ")
SPAWNED = traceback("torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL")
RANK = TORCHRUN.format(code=-9, why="Signal 9 (SIGKILL) received by PID 99")


@pytest.mark.parametrize("output", [CHILD, RANK, SPAWNED])
def test_a_process_under_it_was_killed_by_the_kernel_only_with_evidence(output: str) -> None:
    assert named(output) == KILLED
    assert named(output, oom_kill_s=20.0) == HOST


def test_a_pool_that_broke_is_an_error_unless_the_kernel_struck() -> None:
    broken = traceback(
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly"
    )
    assert named(broken) == ERROR
    assert named(broken, oom_kill_s=5.0) == HOST


def test_the_oom_watch_sees_a_rising_counter(tmp_path, monkeypatch) -> None:
    events, now = tmp_path / "memory.events", [100.0]
    events.write_text("oom 0\noom_kill 4\n")
    monkeypatch.setattr(shim_end, "_events_file", lambda: str(events))
    watch = shim_end.OomWatch(lambda: now[0])
    assert watch.seconds_ago() is None
    events.write_text("oom 1\noom_kill 5\n")
    assert watch.seconds_ago() == 0
    now[0] += 7
    assert watch.seconds_ago() == 7
    events.unlink()
    assert watch.seconds_ago() == 7, "what was seen stays seen"


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
def test_any_output_gets_one_of_the_words(
    tail: bytes, code: int, signalled: bool, oom: float | None, gpu: bool | None
) -> None:
    end = classify(Evidence(code, tail, signalled=signalled, oom_kill_s=oom, has_gpu=gpu))
    assert end.ending in {ERROR, KILLED, OOM, HOST, DRIVER, DEVICE}
    assert end.exit_code == code
    assert end.reason.isprintable()
    if code == 0:
        assert end.ending == ERROR
    if gpu is False:
        assert end.ending not in {OOM, DRIVER, DEVICE}


@given(OUTPUTS)
def test_a_last_word_of_its_own_settles_it(before: bytes) -> None:
    """Whatever was caught and logged before, the exception that ended it is the last."""
    tail = before + b"\n" * 2 + b"step\n" + traceback("KeyError: 'loss'").encode()
    messenger = re.search(shim_words.MESSENGERS, before)
    rank = any(tag in before for tag in (b"[rank", b"0: ", b"pid="))
    if not messenger and not rank:
        assert classify(Evidence(1, tail)).ending == ERROR


# --- the words -----------------------------------------------------------------------------------------------------


def test_the_words_of_the_shim_are_those_of_the_core() -> None:
    ours = {value for name, value in vars(shim_words).items() if name in Ending.__members__}
    assert ours == {str(ending) for ending in Ending}


def test_every_row_of_the_table_has_a_case_of_its_own() -> None:
    """A row that nothing shows to be needed goes."""
    cases = [
        text.encode()[-65_536:]
        for group in (GPU_MEMORY, HOST_MEMORY, DRIVER_FAULTS, DEVICE_FAULTS)
        for text in group.values()
    ]
    said = [shim_text.read(case) for case in (*cases, *(one.encode() for one in (CHILD, RANK, SPAWNED)))]
    shown = [
        pattern
        for _, _, pattern, _ in shim_words.WORDS
        if any(re.search(pattern, text, re.MULTILINE) for one in said for text in (*one.raised, *one.lines))
    ]
    missing = [source for _, _, pattern, source in shim_words.WORDS if pattern not in shown]
    assert missing == []
