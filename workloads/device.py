"""What differs between frameworks: the device's name, the allocator's peaks, CPU threads, the random number state.

Each function takes the name of the Keras backend that is loaded. Only the first device is looked at, because each of these
trainings uses one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def limit_threads(backend: str, threads: int) -> None:
    """Limit the framework to this many CPU threads. Call it before any computation. JAX reads NPROC when it is loaded."""
    if backend == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    elif backend == "torch":
        import torch

        torch.set_num_threads(threads)


def name(backend: str) -> str:
    """As the framework calls it: `Tesla P100-PCIE-16GB`, or `cpu`."""
    if backend == "tensorflow":
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        return str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", "gpu")) if gpus else "cpu"
    if backend == "torch":
        import torch

        return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else "cpu"
    if backend == "jax":
        import jax

        return str(jax.devices()[0].device_kind)
    return "cpu"


def allocator_peaks(backend: str) -> dict[str, int | None]:
    """The most bytes that tensors held, and the most that the allocator took from the device for them.

    In bytes. None where the framework does not report it: both on a CPU, and the second for TensorFlow.
    """
    used, reserved = {"tensorflow": _tensorflow, "torch": _torch, "jax": _jax}.get(backend, _not_reported)()
    return {"allocator_peak_bytes": used, "allocator_reserved_bytes": reserved}


def random_state(backend: str) -> dict[str, np.ndarray]:
    """The state of random numbers that is not in the model: PyTorch's, which its dropout draws from. Else nothing."""
    if backend != "torch":
        return {}
    import torch

    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state(0)
    return {name: state.numpy() for name, state in states.items()}


def set_random_state(backend: str, states: Mapping[str, np.ndarray]) -> None:
    """Go on drawing where `random_state` was taken; what was saved under another framework or device is left alone."""
    if backend != "torch":
        return
    import torch

    if "cpu" in states:
        torch.set_rng_state(torch.from_numpy(states["cpu"]))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.from_numpy(states["cuda"]), 0)


def _tensorflow() -> tuple[int | None, int | None]:
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        return None, None
    return int(tf.config.experimental.get_memory_info("GPU:0")["peak"]), None


def _torch() -> tuple[int | None, int | None]:
    import torch

    if not torch.cuda.is_available():
        return None, None
    return int(torch.cuda.max_memory_allocated(0)), int(torch.cuda.max_memory_reserved(0))


def _jax() -> tuple[int | None, int | None]:
    import jax

    statistics: dict[str, Any] = jax.devices()[0].memory_stats() or {}
    used, reserved = statistics.get("peak_bytes_in_use"), statistics.get("peak_pool_bytes")
    return (None if used is None else int(used)), (None if reserved is None else int(reserved))


def _not_reported() -> tuple[int | None, int | None]:
    return None, None
