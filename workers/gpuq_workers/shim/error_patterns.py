"""What programs print when memory runs out, a device fails or the driver refuses them, as one table of regular expressions.

The table is read from the top and the first row that matches decides. `RAISED` rows are searched in the exceptions that a
program ended with; `PRINTED` rows also in its last lines. Everything else is the program's own error: an illegal memory access,
a failed device-side assert, an "unspecified launch failure", an exhausted quota of a web service, too much shared memory for a
kernel, `CUDNN_STATUS_INTERNAL_ERROR` (which may mean anything). Standard library only, as all of the shim.
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

RAISED, PRINTED = "raised", "printed"

# (ending, where, pattern of one line, who prints it)
PATTERNS: tuple[tuple[str, str, bytes, str], ...] = (
    # The device is gone or damaged. Texts of cudaGetErrorString and nvmlErrorString, CUDA 12 and NVML 12.
    (DEVICE_FAILED, PRINTED, rb"uncorrectable ECC error encountered|CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA"),
    (DEVICE_FAILED, PRINTED, rb"cudaErrorECCUncorrectable|uncorrectable NVLink error", "CUDA"),
    (DEVICE_FAILED, PRINTED, rb"GPU has fallen off the bus|GPU is lost|NVMLError_GpuIsLost", "driver, NVML"),
    (DEVICE_FAILED, PRINTED, rb"CUDA_ERROR_DEVICE_UNAVAILABLE|cudaErrorDevicesUnavailable", "CUDA"),
    (DEVICE_FAILED, PRINTED, rb"CUDA-capable device\(s\) is/are busy or unavailable", "CUDA"),
    # The driver, or MPS, refuses this program. Texts of cudaGetErrorString; PyTorch's c10/cuda and torch/csrc/cuda.
    (DRIVER_ERROR, PRINTED, rb"no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE\b|cudaErrorNoDevice\b", "CUDA"),
    (DRIVER_ERROR, PRINTED, rb"CUDA driver version is insufficient|cudaErrorInsufficientDriver", "CUDA"),
    (DRIVER_ERROR, PRINTED, rb"unsupported display driver / cuda driver combination|SYSTEM_?DRIVER_?MISMATCH", "CUDA"),
    (DRIVER_ERROR, PRINTED, rb"cudaErrorSystemDriverMismatch|cudaErrorSystemNotReady", "CUDA"),
    (DRIVER_ERROR, PRINTED, rb"CUDA_ERROR_SYSTEM_NOT_READY|Error \d+: system not yet initialized", "CUDA, PyTorch"),
    (DRIVER_ERROR, PRINTED, rb"Driver/library version mismatch", "NVML"),
    (DRIVER_ERROR, RAISED, rb"^RuntimeError: No CUDA GPUs are available", "PyTorch"),
    (
        DRIVER_ERROR,
        RAISED,
        rb"Found no NVIDIA driver on your system|NVIDIA driver on your system is too old",
        "PyTorch",
    ),
    (DRIVER_ERROR, RAISED, rb"CUDA unknown error - this may be due|CUDA driver initialization failed", "PyTorch"),
    (DRIVER_ERROR, PRINTED, rb"MPS client failed to connect to|MPS server is not ready|CUDA_ERROR_MPS_", "CUDA MPS"),
    (DRIVER_ERROR, PRINTED, rb"cudaErrorMps[A-Z]|MPS client has been terminated by the server", "CUDA MPS"),
    # The host's memory, where the text could be mistaken for a device's.
    (HOST_OUT_OF_MEMORY, PRINTED, rb"OOM when allocating tensor.* by allocator (?:mkl)?[cC][pP][uU]\b", "TensorFlow"),
    (HOST_OUT_OF_MEMORY, PRINTED, rb"java\.lang\.OutOfMemoryError", "Java, Spark"),
    (HOST_OUT_OF_MEMORY, RAISED, rb"^ray\.exceptions\.OutOfMemoryError", "Ray"),
    # The device's memory.
    (OUT_OF_MEMORY, RAISED, rb"^(?:[\w.]+\.)?OutOfMemoryError\b", "PyTorch, CuPy"),
    (OUT_OF_MEMORY, RAISED, rb"\bRayTaskError\(OutOfMemoryError\)", "PyTorch under Ray"),
    (OUT_OF_MEMORY, PRINTED, rb"(?:CUDA|HIP|XPU|MPS backend) out of memory\. ?(?:Tried to|Currently|\()", "PyTorch"),
    (OUT_OF_MEMORY, PRINTED, rb"^(?:[\w.]+\.)?OutOfMemoryError: (?:CUDA|HIP|XPU) out of memory", "PyTorch"),
    (OUT_OF_MEMORY, RAISED, rb"(?:CUDA|HIP|XPU) out of memory", "PyTorch"),
    (
        OUT_OF_MEMORY,
        RAISED,
        rb"^[\w.]*Error: .{0,40}\b(?:CUDA|[Cc]uda|HIP) .{0,20}out of (?:the )?memory",
        "exceptions of applications that repeat it",
    ),
    (OUT_OF_MEMORY, RAISED, rb"^cuda failed with error 2 out of memory", "spconv"),
    (OUT_OF_MEMORY, RAISED, rb"No executable batch size found, reached zero", "Accelerate: too large at every size"),
    (
        OUT_OF_MEMORY,
        PRINTED,
        rb"(?:CUDA|HIP) error: ?out of memory|cuda runtime error \(2\) ?: out of memory",
        "PyTorch",
    ),
    (OUT_OF_MEMORY, PRINTED, rb"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory", "CUDA, HIP"),
    (OUT_OF_MEMORY, PRINTED, rb"cudaMalloc(?:Async)? failed: out of memory", "llama.cpp"),
    (OUT_OF_MEMORY, PRINTED, rb"(?:Cuda|CUDA) failure (?:2 ?:? )?'?out of memory", "NCCL, ONNX Runtime"),
    (OUT_OF_MEMORY, PRINTED, rb"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED", "cuBLAS, cuDNN 8"),
    (OUT_OF_MEMORY, PRINTED, rb"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "cuDNN 9"),
    (
        OUT_OF_MEMORY,
        PRINTED,
        rb"CUFFT_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED|CUSPARSE_STATUS_ALLOC_FAILED",
        "CUDA libraries",
    ),
    (
        OUT_OF_MEMORY,
        PRINTED,
        rb"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate|.*OOM)",
        "XLA: JAX, TensorFlow",
    ),
    (
        OUT_OF_MEMORY,
        PRINTED,
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
        PRINTED,
        rb"cuMemAlloc(?:_v2)? failed: out of memory|MemoryError: .*out_of_memory: (?:CUDA|RMM)",
        "PyCUDA, RMM",
    ),
    (OUT_OF_MEMORY, PRINTED, rb"Out of GPU memory trying to allocate", "CUDA.jl"),
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
        PRINTED,
        rb"^(?:terminate called after throwing an instance of '|\s*what\(\):\s+)std::bad_alloc",
        "C++",
    ),
    (HOST_OUT_OF_MEMORY, RAISED, rb"std::bad_alloc", "C++ under Python"),
    (HOST_OUT_OF_MEMORY, PRINTED, rb": fork: (?:retry: )?Cannot allocate memory", "shells"),
    (HOST_OUT_OF_MEMORY, PRINTED, rb"^memory allocation of \d+ bytes failed", "Rust"),
    (HOST_OUT_OF_MEMORY, PRINTED, rb"^fatal error: (?:runtime: )?(?:out of memory|cannot allocate memory)", "Go"),
    (HOST_OUT_OF_MEMORY, PRINTED, rb"^FATAL ERROR: .*JavaScript heap out of memory", "Node.js"),
    (HOST_OUT_OF_MEMORY, PRINTED, rb"^Error: cannot allocate vector of size", "R"),
    (HOST_OUT_OF_MEMORY, PRINTED, rb"^slurmstepd: error: Detected \d+ oom[_-]kill event", "Slurm"),
    # A process of the job other than the one that gpuq started. Whether it was the OOM killer, the kernel's counter says.
    (KILLED, RAISED, rb"DataLoader worker \(pid \d+\) is killed by signal: (?:Killed|Terminated)", "PyTorch"),
    (KILLED, RAISED, rb"Signal 9 \(SIGKILL\) received by PID|exitcode\s*: -9\b", "torchrun"),
    (KILLED, RAISED, rb"process \d+ terminated with signal SIGKILL", "torch.multiprocessing"),
)

# A worker process disappeared; only the kernel's OOM counter can say that memory was the reason.
LOST_PROCESS = rb"BrokenProcessPool|TerminatedWorkerError|DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly"

# Exceptions that only report the failure of another process, whose own exception stands further up in the output.
FORWARDERS = (
    rb"ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException|RayTaskError|TrainingFailedError"
    rb"|DistBackendError|NCCL error|ncclRemoteError|Connection (?:closed|reset) by peer|BrokenPipeError|BrokenProcessPool"
)
