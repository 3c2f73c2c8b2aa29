"""What programs print when memory runs out, a device fails or the driver will not serve them: one literal table.

Read from the top, the first row that fits settles it. `RAISED` rows are looked for in the exceptions that a program ended with
only, `SAID` rows also among its last lines. What is not here is the program's own error: an illegal memory access, a failed
device-side assert, an "unspecified launch failure", an exhausted quota of a web service, too much shared memory asked of a
kernel, `CUDNN_STATUS_INTERNAL_ERROR` (which may be anything). Standard library only: this is part of the shim.
"""

from __future__ import annotations

EXITED = "exited"
KILLED = "killed"
TIMED_OUT = "timed out"
OUT_OF_MEMORY = "out of memory"
HOST_OUT_OF_MEMORY = "host out of memory"
DRIVER_ERROR = "driver error"
DEVICE_FAILED = "device failed"
STOPPED = "stopped"
NEVER_STARTED = "never started"
LOST = "lost"

RAISED, SAID = "raised", "said"

# (ending, where, pattern of one line, who prints it)
WORDS: tuple[tuple[str, str, bytes, str], ...] = (
    # The device is gone or damaged. Texts of cudaGetErrorString and nvmlErrorString, CUDA 12 and NVML 12.
    (DEVICE_FAILED, SAID, rb"uncorrectable ECC error encountered|CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA"),
    (DEVICE_FAILED, SAID, rb"cudaErrorECCUncorrectable|uncorrectable NVLink error", "CUDA"),
    (DEVICE_FAILED, SAID, rb"GPU has fallen off the bus|GPU is lost|NVMLError_GpuIsLost", "driver, NVML"),
    (DEVICE_FAILED, SAID, rb"CUDA_ERROR_DEVICE_UNAVAILABLE|cudaErrorDevicesUnavailable", "CUDA"),
    (DEVICE_FAILED, SAID, rb"CUDA-capable device\(s\) is/are busy or unavailable", "CUDA"),
    # The driver, or MPS, will not serve this program. Texts of cudaGetErrorString; PyTorch's c10/cuda and torch/csrc/cuda.
    (DRIVER_ERROR, SAID, rb"no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE\b|cudaErrorNoDevice\b", "CUDA"),
    (DRIVER_ERROR, SAID, rb"CUDA driver version is insufficient|cudaErrorInsufficientDriver", "CUDA"),
    (DRIVER_ERROR, SAID, rb"unsupported display driver / cuda driver combination|SYSTEM_?DRIVER_?MISMATCH", "CUDA"),
    (DRIVER_ERROR, SAID, rb"cudaErrorSystemDriverMismatch|cudaErrorSystemNotReady", "CUDA"),
    (DRIVER_ERROR, SAID, rb"CUDA_ERROR_SYSTEM_NOT_READY|Error \d+: system not yet initialized", "CUDA, PyTorch"),
    (DRIVER_ERROR, SAID, rb"Driver/library version mismatch", "NVML"),
    (DRIVER_ERROR, RAISED, rb"^RuntimeError: No CUDA GPUs are available", "PyTorch"),
    (
        DRIVER_ERROR,
        RAISED,
        rb"Found no NVIDIA driver on your system|NVIDIA driver on your system is too old",
        "PyTorch",
    ),
    (DRIVER_ERROR, RAISED, rb"CUDA unknown error - this may be due|CUDA driver initialization failed", "PyTorch"),
    (DRIVER_ERROR, SAID, rb"MPS client failed to connect to|MPS server is not ready|CUDA_ERROR_MPS_", "CUDA MPS"),
    (DRIVER_ERROR, SAID, rb"cudaErrorMps[A-Z]|MPS client has been terminated by the server", "CUDA MPS"),
    # The host's memory, where the words alone could be taken for a device's.
    (HOST_OUT_OF_MEMORY, SAID, rb"OOM when allocating tensor.* by allocator (?:mkl)?[cC][pP][uU]\b", "TensorFlow"),
    (HOST_OUT_OF_MEMORY, SAID, rb"java\.lang\.OutOfMemoryError", "Java, Spark"),
    (HOST_OUT_OF_MEMORY, RAISED, rb"^ray\.exceptions\.OutOfMemoryError", "Ray"),
    # The device's memory.
    (OUT_OF_MEMORY, RAISED, rb"^(?:[\w.]+\.)?OutOfMemoryError\b", "PyTorch, CuPy"),
    (OUT_OF_MEMORY, RAISED, rb"\bRayTaskError\(OutOfMemoryError\)", "PyTorch under Ray"),
    (OUT_OF_MEMORY, SAID, rb"(?:CUDA|HIP|XPU|MPS backend) out of memory\. ?(?:Tried to|Currently|\()", "PyTorch"),
    (OUT_OF_MEMORY, SAID, rb"^(?:[\w.]+\.)?OutOfMemoryError: (?:CUDA|HIP|XPU) out of memory", "PyTorch"),
    (OUT_OF_MEMORY, RAISED, rb"(?:CUDA|HIP|XPU) out of memory", "PyTorch"),
    (
        OUT_OF_MEMORY,
        RAISED,
        rb"^[\w.]*Error: .{0,40}\b(?:CUDA|[Cc]uda|HIP) .{0,20}out of (?:the )?memory",
        "as people say it again",
    ),
    (OUT_OF_MEMORY, RAISED, rb"^cuda failed with error 2 out of memory", "spconv"),
    (OUT_OF_MEMORY, RAISED, rb"No executable batch size found, reached zero", "Accelerate: too large at every size"),
    (OUT_OF_MEMORY, SAID, rb"(?:CUDA|HIP) error: ?out of memory|cuda runtime error \(2\) ?: out of memory", "PyTorch"),
    (OUT_OF_MEMORY, SAID, rb"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory", "CUDA, HIP"),
    (OUT_OF_MEMORY, SAID, rb"cudaMalloc(?:Async)? failed: out of memory", "llama.cpp"),
    (OUT_OF_MEMORY, SAID, rb"(?:Cuda|CUDA) failure (?:2 ?:? )?'?out of memory", "NCCL, ONNX Runtime"),
    (OUT_OF_MEMORY, SAID, rb"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED", "cuBLAS, cuDNN 8"),
    (OUT_OF_MEMORY, SAID, rb"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "cuDNN 9"),
    (
        OUT_OF_MEMORY,
        SAID,
        rb"CUFFT_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED|CUSPARSE_STATUS_ALLOC_FAILED",
        "CUDA libraries",
    ),
    (OUT_OF_MEMORY, SAID, rb"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate|.*OOM)", "XLA: JAX, TensorFlow"),
    (
        OUT_OF_MEMORY,
        SAID,
        rb"Resource exhausted: ?(?:Out of memory|OOM|Failed to allocate)|OOM when allocating tensor",
        "TensorFlow, XLA",
    ),
    (
        OUT_OF_MEMORY,
        RAISED,
        rb"ResourceExhaustedError.*(?:[Oo]ut of memory|failed to allocate memory)",
        "TensorFlow, Paddle",
    ),
    (OUT_OF_MEMORY, RAISED, rb"Out of memory error on GPU \d+|failed to allocate memory \[Op:", "Paddle, TensorFlow"),
    (OUT_OF_MEMORY, RAISED, rb"Dst tensor is not initialized", "TensorFlow: a copy to the GPU found no room"),
    (
        OUT_OF_MEMORY,
        SAID,
        rb"cuMemAlloc(?:_v2)? failed: out of memory|MemoryError: .*out_of_memory: (?:CUDA|RMM)",
        "PyCUDA, RMM",
    ),
    (OUT_OF_MEMORY, SAID, rb"Out of GPU memory trying to allocate", "CUDA.jl"),
    # The host's memory.
    (HOST_OUT_OF_MEMORY, RAISED, rb"^(?:[\w.]+\.)?_?[A-Z]?\w*MemoryError\b", "Python, NumPy, Arrow"),
    (HOST_OUT_OF_MEMORY, RAISED, rb"^\w*(?:Error|Exception):.*\[Errno 12\]", "Python"),
    (HOST_OUT_OF_MEMORY, RAISED, rb"DefaultCPUAllocator: (?:can't allocate|not enough) memory", "PyTorch"),
    (HOST_OUT_OF_MEMORY, RAISED, rb"unable to (?:mmap|allocate shared memory|write to file </torch_)", "PyTorch"),
    (
        HOST_OUT_OF_MEMORY,
        RAISED,
        rb"DataLoader worker \(pid \d+\) is killed by signal: Bus error",
        "PyTorch: /dev/shm is full",
    ),
    (HOST_OUT_OF_MEMORY, RAISED, rb"CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", "cuDNN 9"),
    (
        HOST_OUT_OF_MEMORY,
        SAID,
        rb"^(?:terminate called after throwing an instance of '|\s*what\(\):\s+)std::bad_alloc",
        "C++",
    ),
    (HOST_OUT_OF_MEMORY, RAISED, rb"std::bad_alloc", "C++ under Python"),
    (HOST_OUT_OF_MEMORY, SAID, rb": fork: (?:retry: )?Cannot allocate memory", "shells"),
    (HOST_OUT_OF_MEMORY, SAID, rb"^memory allocation of \d+ bytes failed", "Rust"),
    (HOST_OUT_OF_MEMORY, SAID, rb"^fatal error: (?:runtime: )?(?:out of memory|cannot allocate memory)", "Go"),
    (HOST_OUT_OF_MEMORY, SAID, rb"^FATAL ERROR: .*JavaScript heap out of memory", "Node.js"),
    (HOST_OUT_OF_MEMORY, SAID, rb"^Error: cannot allocate vector of size", "R"),
    (HOST_OUT_OF_MEMORY, SAID, rb"^slurmstepd: error: Detected \d+ oom[_-]kill event", "Slurm"),
    # One of its processes, not the one that we started: by whom, the kernel's counters tell.
    (KILLED, RAISED, rb"DataLoader worker \(pid \d+\) is killed by signal: (?:Killed|Terminated)", "PyTorch"),
    (KILLED, RAISED, rb"Signal 9 \(SIGKILL\) received by PID|exitcode\s*: -9\b", "torchrun"),
    (KILLED, RAISED, rb"process \d+ terminated with signal SIGKILL", "torch.multiprocessing"),
)

# Of these, only the kernel's counters can tell that memory was the reason.
VANISHED = rb"BrokenProcessPool|TerminatedWorkerError|DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly"

# Exceptions that only say that a process under them failed: what it said itself stands further up.
MESSENGERS = (
    rb"ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException|RayTaskError|TrainingFailedError"
    rb"|DistBackendError|NCCL error|ncclRemoteError|Connection (?:closed|reset) by peer|BrokenPipeError|BrokenProcessPool"
)
