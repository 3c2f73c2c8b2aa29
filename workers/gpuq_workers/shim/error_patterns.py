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

# In groups of one ending: (where, pattern of one line, who prints it).
_GROUPS: tuple[tuple[str, tuple[tuple[str, bytes, str], ...]], ...] = (
    # The device is gone or damaged. Texts of cudaGetErrorString and nvmlErrorString, CUDA 12 and NVML 12.
    (DEVICE_FAILED, (
        (PRINTED, rb"uncorrectable ECC error encountered|CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA"),
        (PRINTED, rb"cudaErrorECCUncorrectable|uncorrectable NVLink error", "CUDA"),
        (PRINTED, rb"GPU has fallen off the bus|GPU is lost|NVMLError_GpuIsLost", "driver, NVML"),
        (PRINTED, rb"CUDA_ERROR_DEVICE_UNAVAILABLE|cudaErrorDevicesUnavailable", "CUDA"),
        (PRINTED, rb"CUDA-capable device\(s\) is/are busy or unavailable", "CUDA"),
    )),
    # The driver, or MPS, refuses this program. Texts of cudaGetErrorString; PyTorch's c10/cuda and torch/csrc/cuda.
    (DRIVER_ERROR, (
        (PRINTED, rb"no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE\b|cudaErrorNoDevice\b", "CUDA"),
        (PRINTED, rb"CUDA driver version is insufficient|cudaErrorInsufficientDriver", "CUDA"),
        (PRINTED, rb"unsupported display driver / cuda driver combination|SYSTEM_?DRIVER_?MISMATCH", "CUDA"),
        (PRINTED, rb"cudaErrorSystemDriverMismatch|cudaErrorSystemNotReady", "CUDA"),
        (PRINTED, rb"CUDA_ERROR_SYSTEM_NOT_READY|Error \d+: system not yet initialized", "CUDA, PyTorch"),
        (PRINTED, rb"Driver/library version mismatch", "NVML"),
        (RAISED, rb"^RuntimeError: No CUDA GPUs are available", "PyTorch"),
        (RAISED, rb"Found no NVIDIA driver on your system|NVIDIA driver on your system is too old", "PyTorch"),
        (RAISED, rb"CUDA unknown error - this may be due|CUDA driver initialization failed", "PyTorch"),
        (PRINTED, rb"MPS client failed to connect to|MPS server is not ready|CUDA_ERROR_MPS_", "CUDA MPS"),
        (PRINTED, rb"cudaErrorMps[A-Z]|MPS client has been terminated by the server", "CUDA MPS"),
    )),
    # The host's memory, where the text could be mistaken for a device's.
    (HOST_OUT_OF_MEMORY, (
        (PRINTED, rb"OOM when allocating tensor.* by allocator (?:mkl)?[cC][pP][uU]\b", "TensorFlow"),
        (PRINTED, rb"java\.lang\.OutOfMemoryError", "Java, Spark"),
        (RAISED, rb"^ray\.exceptions\.OutOfMemoryError", "Ray"),
    )),
    # The device's memory.
    (OUT_OF_MEMORY, (
        (RAISED, rb"^(?:[\w.]+\.)?OutOfMemoryError\b", "PyTorch, CuPy"),
        (RAISED, rb"\bRayTaskError\(OutOfMemoryError\)", "PyTorch under Ray"),
        (PRINTED, rb"(?:CUDA|HIP|XPU|MPS backend) out of memory\. ?(?:Tried to|Currently|\()", "PyTorch"),
        (PRINTED, rb"^(?:[\w.]+\.)?OutOfMemoryError: (?:CUDA|HIP|XPU) out of memory", "PyTorch"),
        (RAISED, rb"(?:CUDA|HIP|XPU) out of memory", "PyTorch"),
        (RAISED, rb"^[\w.]*Error: .{0,40}\b(?:CUDA|[Cc]uda|HIP) .{0,20}out of (?:the )?memory", "applications that repeat it"),
        (RAISED, rb"^cuda failed with error 2 out of memory", "spconv"),
        (RAISED, rb"No executable batch size found, reached zero", "Accelerate: too large at every size"),
        (PRINTED, rb"(?:CUDA|HIP) error: ?out of memory|cuda runtime error \(2\) ?: out of memory", "PyTorch"),
        (PRINTED, rb"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory", "CUDA, HIP"),
        (PRINTED, rb"cudaMalloc(?:Async)? failed: out of memory", "llama.cpp"),
        (PRINTED, rb"(?:Cuda|CUDA) failure (?:2 ?:? )?'?out of memory", "NCCL, ONNX Runtime"),
        (PRINTED, rb"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED", "cuBLAS, cuDNN 8"),
        (PRINTED, rb"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "cuDNN 9"),
        (PRINTED, rb"CUFFT_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED|CUSPARSE_STATUS_ALLOC_FAILED", "CUDA libraries"),
        (PRINTED, rb"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate|.*OOM)", "XLA: JAX, TensorFlow"),
        (PRINTED, rb"Resource exhausted: ?(?:Out of memory|OOM|Failed to allocate)|OOM when allocating tensor",
         "TensorFlow, XLA"),
        (RAISED, rb"ResourceExhaustedError.*(?:[Oo]ut of memory|failed to allocate memory)", "TensorFlow, Paddle"),
        (RAISED, rb"Out of memory error on GPU \d+|failed to allocate memory \[Op:", "Paddle, TensorFlow"),
        (RAISED, rb"Dst tensor is not initialized", "TensorFlow: a copy to the GPU found no room"),
        (PRINTED, rb"cuMemAlloc(?:_v2)? failed: out of memory|MemoryError: .*out_of_memory: (?:CUDA|RMM)", "PyCUDA, RMM"),
        (PRINTED, rb"Out of GPU memory trying to allocate", "CUDA.jl"),
    )),
    # The host's memory.
    (HOST_OUT_OF_MEMORY, (
        (RAISED, rb"^(?:[\w.]+\.)?_?[A-Z]?\w*MemoryError\b", "Python, NumPy, Arrow"),
        (RAISED, rb"^\w*(?:Error|Exception):.*\[Errno 12\]", "Python"),
        (RAISED, rb"DefaultCPUAllocator: (?:can't allocate|not enough) memory", "PyTorch"),
        (RAISED, rb"unable to (?:mmap|allocate shared memory|write to file </torch_)", "PyTorch"),
        (RAISED, rb"DataLoader worker \(pid \d+\) is killed by signal: Bus error", "PyTorch: /dev/shm is full"),
        (RAISED, rb"CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", "cuDNN 9"),
        (PRINTED, rb"^(?:terminate called after throwing an instance of '|\s*what\(\):\s+)std::bad_alloc", "C++"),
        (RAISED, rb"std::bad_alloc", "C++ under Python"),
        (PRINTED, rb": fork: (?:retry: )?Cannot allocate memory", "shells"),
        (PRINTED, rb"^memory allocation of \d+ bytes failed", "Rust"),
        (PRINTED, rb"^fatal error: (?:runtime: )?(?:out of memory|cannot allocate memory)", "Go"),
        (PRINTED, rb"^FATAL ERROR: .*JavaScript heap out of memory", "Node.js"),
        (PRINTED, rb"^Error: cannot allocate vector of size", "R"),
        (PRINTED, rb"^slurmstepd: error: Detected \d+ oom[_-]kill event", "Slurm"),
    )),
    # A process of the job other than the one that gpuq started. Whether it was the OOM killer, the kernel's counter says.
    (KILLED, (
        (RAISED, rb"DataLoader worker \(pid \d+\) is killed by signal: (?:Killed|Terminated)", "PyTorch"),
        (RAISED, rb"Signal 9 \(SIGKILL\) received by PID|exitcode\s*: -9\b", "torchrun"),
        (RAISED, rb"process \d+ terminated with signal SIGKILL", "torch.multiprocessing"),
    )),
)  # fmt: skip
PATTERNS = tuple((ending, *row) for ending, rows in _GROUPS for row in rows)

# A worker process disappeared; only the kernel's OOM counter can say that memory was the reason.
LOST_PROCESS = rb"BrokenProcessPool|TerminatedWorkerError|DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly"

# Exceptions that only report the failure of another process, whose own exception stands further up in the output.
FORWARDERS = (
    rb"ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException|RayTaskError|TrainingFailedError"
    rb"|DistBackendError|NCCL error|ncclRemoteError|Connection (?:closed|reset) by peer|BrokenPipeError|BrokenProcessPool"
)
