"""Detect memory that a framework allocated in advance: such a pool is not the job's need.

TensorFlow takes all of a GPU's memory and JAX three quarters (`XLA_PYTHON_CLIENT_MEM_FRACTION`) at once and hand it out
themselves. gpuq switches that off (`AS_NEEDED`) unless the submitter set it. A pool is detected in two ways: the environment asks
for it and the reading reaches that share of the device; or the reading rises from almost nothing to most of the device within
three looks. A job that really fills most of a GPU within three seconds and stays there looks the same. Its peak counts as an
upper bound too, which costs it partners but no memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

AS_NEEDED = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Defaults of a job's environment, because frameworks that take the whole GPU at once would make sharing impossible."""
# What JAX takes by default, from its documentation on GPU memory allocation; TensorFlow leaves only some hundred MiB.
JAX_DEFAULT = 0.75
_LOOKS = 3
_NEXT_TO_NOTHING, _MOST = 0.1, 0.7
# A pool of a stated size is rounded, so it counts as taken from this share of it on.
_NEARLY = 0.95
# Beyond the pool come only CUDA contexts and libraries' workspaces; a peak further above it is the job's own need.
_BEYOND = 1.1
_NO, _YES = ("false", "0"), ("true", "1")


class PoolWatch:
    """Looks for a pool in one attempt's readings. `requested`: the share of the device that its environment asks for."""

    def __init__(self, requested: float | None = None) -> None:
        self._requested = requested
        self._recent: deque[int] = deque(maxlen=_LOOKS)

    def look(self, memory: int, total: int) -> int | None:
        """The bytes of the pool if this reading shows one, else None. A high first reading is no jump: the job may be old."""
        lowest = min(self._recent, default=memory)
        self._recent.append(memory)
        if self._requested is not None and memory >= _NEARLY * self._requested * total:
            return memory
        return memory if lowest <= _NEXT_TO_NOTHING * total and memory >= _MOST * total else None


def is_bound(peak: int | None, pool: int | None) -> bool:
    """Whether the highest reading is only that of the pool, and so an upper bound."""
    return peak is not None and pool is not None and peak <= _BEYOND * pool


def requested_share(environment: Mapping[str, str]) -> float | None:
    """The share of a device that these variables make a framework allocate at once; None if they do not."""
    if environment.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() in _NO:
        return 1.0
    wanted = environment.get("XLA_PYTHON_CLIENT_PREALLOCATE", "").lower()
    if wanted not in _YES or environment.get("XLA_PYTHON_CLIENT_ALLOCATOR", "default") not in ("default", "bfc"):
        return None
    try:
        part = float(environment.get("XLA_PYTHON_CLIENT_MEM_FRACTION", JAX_DEFAULT))
    except ValueError:
        return JAX_DEFAULT
    return part if 0 < part <= 1 else JAX_DEFAULT
