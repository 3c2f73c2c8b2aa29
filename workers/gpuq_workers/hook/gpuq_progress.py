"""Counts the training steps of one job in a small memory-mapped file that the worker reads. Standard library only.

Arrives: `step()` from a script, and what `attach` is told to count: steps of PyTorch optimizers (their global hook), of
Keras optimizers (`gpuq_progress_keras`) and of JAX programs (`gpuq_progress_jax`). Leaves: the file that GPUQ_PROGRESS
names. Nothing here may disturb the training: every failure means "not counted".

The file. Little-endian; made empty by the first Python that the hook got into, so that none of it means "no hook". Then a
header of 64 bytes: 8 bytes `GPUQPRG1`, the number of slots in use (u32), and what was seen in any process (u32, the bits
SAW_... below), from which the worker says why nothing is counted. After it one slot of 64 bytes per process that ever
counted a step:

    offset  type  field
    0       u8    sequence: counts the updates, modulo 256; its lowest bit says which record holds
    4       u32   process id
    8       u32   source: 1 gpuq.step(), 2 PyTorch, 3 Keras, 4 JAX
    16, 40  two records: u64 steps, then f64 CLOCK_MONOTONIC seconds of the first and of the latest step

An update fills the record that does not hold and then moves the sequence on, in one byte, so a reader that finds the
sequence unchanged has a whole record, even while the writer is stopped or killed in the middle.

Only a process that counts a step takes a slot, so loader processes, which never step, have none. Ranks of one training
each count the same steps; the reader takes the largest of slots whose times overlap, and the sum of those that follow
each other. With two optimizers (a GAN) each step of each counts. Once a process calls `gpuq.step()`, that alone counts.
Optimizers wrapped in others (as in ZeroRedundancyOptimizer) may count twice, which changes no ratio of rates.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
from contextlib import contextmanager
from time import monotonic
from types import ModuleType
from typing import Any, Callable, Iterator  # noqa: UP035 - the job's Python may be 3.8

MAGIC = b"GPUQPRG1"
HEADER_SIZE = SLOT_SIZE = 64
SLOTS = 255
SIZE = HEADER_SIZE + SLOTS * SLOT_SIZE
PROCESS = struct.Struct("<II")
STEP, TORCH, KERAS, JAX = 1, 2, 3, 4
SAW_TORCH, SAW_KERAS, SAW_JAX, SAW_JAX_OPTIMIZER = 1, 2, 4, 8
# A framework whose inner seam is not where we know it; a JAX update that was compiled where its calls are not seen.
SAW_UNKNOWN_VERSION, SAW_UPDATE_OUT_OF_SIGHT = 16, 32


class _Slot:
    """The part of the file that one process has to itself."""

    def __init__(self, path: str) -> None:
        with _locked(path) as view:
            used = struct.unpack_from("<I", view, 8)[0]
            if used >= SLOTS:
                raise OSError("more processes than slots")
            struct.pack_into("<I", view, 8, used + 1)
        offset = HEADER_SIZE + used * SLOT_SIZE
        self.octets = memoryview(view)[offset : offset + SLOT_SIZE]
        # Native numbers: where there are GPUs, these are little-endian ones of eight bytes.
        self.integers, self.times = self.octets.cast("Q"), self.octets.cast("d")

    def belongs_to(self, process: int, source: int) -> None:
        """Say who counts here, and what."""
        PROCESS.pack_into(self.octets, 4, process, source)

    def begins_at(self, now: float) -> None:
        """The first step comes now."""
        self.times[3] = self.times[6] = now


def _counting() -> Callable[[int, int], None]:
    """What adds steps of a source to a slot of its own, which is taken at the first step.

    What every training step pays lies in one closure, which touches as little memory as can be: the training leaves
    nothing of it in the caches, so fetching anew what it touches costs ten times as much as working it off.
    """
    lock = threading.Lock()
    counts_for = 0
    closed = not os.environ.get("GPUQ_PROGRESS")
    slot: Any = None
    octets = integers = times = slot
    steps = sequence = 0

    def add(count: int, source: int) -> None:
        """Count `count` more steps. Of threads that step in the same instant, one may go uncounted."""
        nonlocal steps, sequence, counts_for, closed
        try:
            if (source != counts_for or count <= 0) and not begin(count, source):
                return
            steps += count
            sequence = (sequence + 1) & 0xFF
            if sequence & 1:
                integers[5] = steps
                times[7] = monotonic()
            else:
                integers[2] = steps
                times[4] = monotonic()
            octets[0] = sequence
        except Exception:  # noqa: BLE001 - an uncounted step is better than a failed one
            counts_for, closed = 0, True

    def begin(count: int, source: int) -> bool:
        """Whether to count these. They come from another source than before; what a script counts itself goes first."""
        nonlocal counts_for, slot, octets, integers, times, steps
        if closed or count <= 0 or counts_for == STEP:
            return False
        with lock:
            if slot is None:
                slot = _Slot(os.environ["GPUQ_PROGRESS"])
                octets, integers, times = slot.octets, slot.integers, slot.times
            elif source == STEP:
                steps = 0
            slot.belongs_to(os.getpid(), source)
            if not steps:
                slot.begins_at(monotonic())
            counts_for = source
        return True

    return add


def _start_anew() -> None:
    """In the child of a process that counted: its steps are not its parent's, and its slot is another."""
    global add  # noqa: PLW0603 - one for each process
    add = _counting()


@contextmanager
def _locked(path: str) -> Iterator[mmap.mmap]:
    """The file, whole and of the right kind, while no other process changes its header. The map stays open."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_size < SIZE:
            os.ftruncate(descriptor, SIZE)
        view = mmap.mmap(descriptor, SIZE)
        view[:8] = MAGIC
        yield view
    finally:
        # Not left to `close`: the map holds a copy of the descriptor, and with it the lock.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def step(count: int = 1) -> None:
    """Count `count` training steps of the job this process belongs to."""
    add(count, STEP)


def saw(what: int) -> None:
    """Leave word of what this process has met, so that nobody must wonder why it counts nothing."""
    path = os.environ.get("GPUQ_PROGRESS")
    if not path:
        return
    try:
        with _locked(path) as view:
            struct.pack_into("<I", view, 12, struct.unpack_from("<I", view, 12)[0] | what)
    except Exception:  # noqa: BLE001, S110 - it may be the script's to say why; the training goes on
        pass


def attach(module: ModuleType) -> None:
    """Count what this freshly imported module trains, or leave word that it is none we know."""
    try:
        _attach(module)
    except Exception:  # noqa: BLE001 - the job must run, counted or not
        saw(SAW_UNKNOWN_VERSION)


def _attach(module: ModuleType) -> None:
    name = module.__name__
    # Each framework's own part is imported only where that framework is.
    if name == "torch.optim.optimizer":
        saw(SAW_TORCH)
        module.register_optimizer_step_post_hook(lambda *_: add(1, TORCH))
    elif name.startswith("keras."):
        import gpuq_progress_keras

        saw(SAW_KERAS)
        gpuq_progress_keras.attach(module)
    else:
        import gpuq_progress_jax

        gpuq_progress_jax.attach(module)


# For steps that were seen, not told: they count until the script calls `step()` itself.
add = _counting()
os.register_at_fork(after_in_child=_start_anew)
