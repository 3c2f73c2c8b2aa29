"""Memory that a framework took in advance: readings and a job's environment arrive, the size of its pool leaves.

TensorFlow takes all of a GPU's memory, JAX three quarters (`XLA_PYTHON_CLIENT_MEM_FRACTION`), in one go, and hands it out
itself. gpuq tells both not to (`AS_NEEDED`), but what the submitter sets wins. Such a pool is seen in two ways: the
environment asks for it and the reading reaches that part of the device; or the reading goes from next to nothing to most of
the device within three looks. A job that truly fills most of a GPU within three seconds and then stays there looks the
same: its peak counts as a bound too, which costs it partners, never memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

AS_NEEDED = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""What a job starts with: frameworks that take the whole GPU at once would make sharing impossible."""
# What JAX takes by default, from its documentation on GPU memory allocation; TensorFlow leaves only some hundred MiB.
JAX_DEFAULT = 0.75
_LOOKS = 3
_NEXT_TO_NOTHING, _MOST = 0.1, 0.7
# A pool of a stated size comes with a CUDA context, and is rounded: from here on it has been taken.
_NEARLY = 0.95
# Beyond the pool there are only contexts and libraries' workspaces; a peak well above it was something else.
_BEYOND = 1.1
_NO, _YES = ("false", "0"), ("true", "1")


class PoolWatch:
    """One attempt's readings, until a pool is found. `asked`: the part of the device that its environment asks for."""

    def __init__(self, asked: float | None = None) -> None:
        self._asked = asked
        self._recent: deque[int] = deque(maxlen=_LOOKS)

    def look(self, memory: int, total: int) -> int | None:
        """The bytes of the pool, if one was taken by now. A first reading that is high tells of no jump: the job
        may have been there long before."""
        lowest = min(self._recent, default=memory)
        self._recent.append(memory)
        if self._asked is not None and memory >= _NEARLY * self._asked * total:
            return memory
        return memory if lowest <= _NEXT_TO_NOTHING * total and memory >= _MOST * total else None


def is_bound(peak: int | None, pool: int | None) -> bool:
    """Whether the highest reading is only what a pool took."""
    return peak is not None and pool is not None and peak <= _BEYOND * pool


def asked_by(environment: Mapping[str, str]) -> float | None:
    """The part of a device that these variables have a framework take at once; None where they do not ask for it."""
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
