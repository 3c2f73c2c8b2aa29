"""What frameworks, drivers and launchers print when a job ends, by how that end is to be named."""

from __future__ import annotations


def traceback(*last: str, frames: int = 2) -> str:
    """A traceback as Python prints it; `last` are the exception's own lines."""
    depth = "".join(
        f'  File "/home/ann/train.py", line {n}, in step\n    loss.backward()\n' for n in range(1, frames + 1)
    )
    return "Traceback (most recent call last):\n" + depth + "\n".join(last) + "\n"


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

# Said of a process below the job's own, which somebody or the kernel killed.
CHILD = traceback("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. ")
SPAWNED = traceback("torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL")
RANK = TORCHRUN.format(code=-9, why="Signal 9 (SIGKILL) received by PID 99")
