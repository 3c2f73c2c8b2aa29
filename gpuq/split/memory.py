"""Memory that the processes of a launch share: its buffers, each device's own copies of them, and one result of the copies."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gpuq.errors import Failure
from gpuq.split.device import GUARD_BYTES, mapped
from gpuq.split.launch import KernelFault, KernelLaunch, OpenClDevice
from gpuq.split.verdict import Correctness, SplitVerdict

_GUARD = 0xA5
_MERGED_AT_ONCE = 1 << 20
Bytes = NDArray[np.uint8]


class WritesMeet(KernelFault):
    """Two devices stored to the same element."""


class Memory:
    """Buffers in shared memory, each between two guards. They have no name: the memory is free after the last process that has
    it, however processes end."""

    def __init__(self) -> None:
        shared = Path("/dev/shm")  # noqa: S108
        self._folder = shared if shared.is_dir() else Path(tempfile.gettempdir())
        self._files: list[IO[bytes]] = []
        self._mapped: dict[int, Bytes] = {}

    def place(self, content: NDArray[Any]) -> int:
        """A new shared buffer with this content, as an open file."""
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  open until `end`
        self._files.append(file)
        try:
            # A write to a page that a full memory file system cannot give would end this process.
            os.posix_fallocate(file.fileno(), 0, content.nbytes + 2 * GUARD_BYTES)
        except OSError as error:
            raise Failure(
                f"{self._folder} has no room for a buffer of {content.nbytes} bytes: {error.strerror}.",
                fix="Free memory there; a container gets more with `docker run --shm-size`.",
            ) from None
        own = mapped(file.fileno())
        own[:GUARD_BYTES] = own[-GUARD_BYTES:] = _GUARD
        own[GUARD_BYTES:-GUARD_BYTES] = content.reshape(-1).view(np.uint8)
        self._mapped[file.fileno()] = own
        return file.fileno()

    def inside(self, file: int) -> Bytes:
        """A buffer's bytes without its guards. Raises KernelFault if a kernel changed a guard."""
        own = self._mapped[file]
        if not ((own[:GUARD_BYTES] == _GUARD).all() and (own[-GUARD_BYTES:] == _GUARD).all()):
            raise KernelFault(
                "the kernel stored outside of a buffer.", fix="Check its indices against the sizes of its buffers."
            )
        return own[GUARD_BYTES:-GUARD_BYTES]

    def end(self) -> None:
        """Give all of it up."""
        self._mapped.clear()
        for file in self._files:
            file.close()


def own_copies(
    launch: KernelLaunch,
    verdict: SplitVerdict,
    devices: Sequence[OpenClDevice],
    memory: Memory,
    common: dict[str, int],
    fill: int | None,
) -> tuple[list[dict[str, int]], dict[str, Bytes]]:
    """Each device's files, and what its own copies of stored-to buffers held at first.

    All devices work in the same memory where the split is proven. Otherwise each has its own copy of what the kernel stores to.
    """
    if len(devices) == 1 or (
        verdict.answer is Correctness.PROVEN and fill is None and all(one.in_host_memory for one in devices)
    ):
        return [common] * len(devices), {}
    fills = {}
    for name in verdict.written:
        content = launch.buffers[name].reshape(-1).view(np.uint8)
        fills[name] = content if fill is None or name in verdict.loaded else pattern(fill, content.size)
    return [{**common, **{name: memory.place(one) for name, one in fills.items()}} for _ in devices], fills


def pattern(fill: int, size: int) -> Bytes:
    """One of two patterns, of which each is the complement of the other."""
    drawn = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    return drawn if fill else ~drawn


def merged(
    verdict: SplitVerdict,
    memory: Memory,
    common: dict[str, int],
    files: list[dict[str, int]],
    fills: dict[str, Bytes],
) -> dict[str, Bytes]:
    """All that any device changed in its own copy, over the launch's own content. Raises WritesMeet."""
    result = {name: memory.inside(path) for name, path in common.items()}
    with ThreadPoolExecutor(len(files)) as pool:
        for name, granule in verdict.written.items():
            owns = [memory.inside(paths[name]) for paths in files]
            merge = partial(merge_block, result[name], owns, fills[name], granule)
            block = _MERGED_AT_ONCE - _MERGED_AT_ONCE % granule
            if any(pool.map(merge, (slice(at, at + block) for at in range(0, len(fills[name]), block)))):
                raise WritesMeet(
                    f"two devices stored to the same elements of `{name}`.",
                    fix="This launch has to run whole on one device.",
                )
    return result


def merge_block(merged: Bytes, owns: list[Bytes], fill: Bytes, granule: int, block: slice) -> bool:
    """Copy what each device changed in this block, by elements of `granule` bytes. Gives whether two changed the same one."""
    length = len(fill[block])
    word = math.gcd(granule, length, 8)
    words = [one[block].view(f"u{word}") for one in (merged, fill, *owns)]
    stored = np.zeros(length // word, bool)
    for own in words[2:]:
        changed = own != words[1]
        if granule > word and length % granule == 0:
            changed = changed.reshape(-1, granule // word).any(axis=1).repeat(granule // word)
        if (changed & stored).any():
            return True
        stored |= changed
        np.copyto(words[0], own, where=changed)
    return False
