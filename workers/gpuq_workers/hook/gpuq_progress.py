"""Counts the training steps of one job in a small memory-mapped file that the worker reads. Standard library only.

Steps come from `step()` in a script, and from what `attach` counts: steps of PyTorch optimizers (their global hook), of Keras
optimizers (`gpuq_progress_keras`) and of JAX programs (`gpuq_progress_jax`). GPUQ_PROGRESS names the file. Nothing here may
disturb the training: on every failure the steps are not counted.

The file. Little-endian. The first Python process with the hook creates it empty, so that no file means "no hook". Then a header
of 64 bytes: 8 bytes `GPUQPRG1`, the number of slots in use (u32), and what was imported in any process (u32, the bits SAW_...
below), from which the worker explains why nothing is counted. After it one slot of 64 bytes per process that ever counted a
step:

    offset  type  field
    0       u8    sequence: counts the updates, modulo 256; its lowest bit selects the valid record
    4       u32   process id
    8       u32   source: 1 gpuq.step(), 2 PyTorch, 3 Keras, 4 JAX
    16, 40  two records: u64 steps, then f64 CLOCK_MONOTONIC seconds of the first and of the latest step

An update writes the other record and then increments the sequence, which is one byte. So a reader that finds the sequence
unchanged has read a whole record, even if the writer was stopped or killed in between.

Only a process that counts a step takes a slot, so data loaders have none. Ranks of one training count the same steps each; the
reader takes the largest of slots whose times overlap, and the sum of those that follow each other. With two optimizers (a GAN)
the steps of both count. Once a process calls `gpuq.step()`, only those calls count. Optimizers wrapped in others (as in
ZeroRedundancyOptimizer) may count twice, which changes no ratio of rates.
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
# A framework version whose internals are unknown to us; a JAX update compiled where its calls cannot be seen.
SAW_UNKNOWN_VERSION, SAW_UPDATE_OUT_OF_SIGHT = 16, 32


class _Slot:
    """This process's slot in the file. Raises OSError if all are taken."""

    def __init__(self, path: str) -> None:
        with _locked(path) as view:
            used = struct.unpack_from("<I", view, 8)[0]
            if used >= SLOTS:
                raise OSError("more processes than slots")
            struct.pack_into("<I", view, 8, used + 1)
        offset = HEADER_SIZE + used * SLOT_SIZE
        self.octets = memoryview(view)[offset : offset + SLOT_SIZE]
        # Native numbers, which are little-endian and of eight bytes on every machine with a GPU.
        self.integers, self.times = self.octets.cast("Q"), self.octets.cast("d")

    def belongs_to(self, process: int, source: int) -> None:
        """Write the process id and the source."""
        PROCESS.pack_into(self.octets, 4, process, source)

    def begins_at(self, now: float) -> None:
        """Write the time of the first step."""
        self.times[3] = self.times[6] = now


def _counting() -> Callable[[int, int], None]:
    """A function that adds steps of a source to this process's slot, which it takes at the first step.

    It runs in every training step, so it is one closure that touches little memory: the training evicts that memory from
    the caches, and fetching it again costs ten times as much as the work itself.
    """
    lock = threading.Lock()
    counts_for = 0
    closed = not os.environ.get("GPUQ_PROGRESS")
    slot: Any = None
    octets = integers = times = slot
    steps = sequence = 0

    def add(count: int, source: int) -> None:
        """Count `count` more steps. If two threads step at the same instant, one of the steps may be lost."""
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
        """Switch to another source and return whether to count it. `gpuq.step()` takes precedence over all others."""
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


def _restart() -> None:
    """In a forked child: it counts its own steps, in a slot of its own."""
    global add  # noqa: PLW0603 - one for each process
    add = _counting()


@contextmanager
def _locked(path: str) -> Iterator[mmap.mmap]:
    """The file's memory map, initialised, while no other process can change the header. The map stays open afterwards."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_size < SIZE:
            os.ftruncate(descriptor, SIZE)
        view = mmap.mmap(descriptor, SIZE)
        view[:8] = MAGIC
        yield view
    finally:
        # Unlocked here and not by `close`: the map holds a copy of the descriptor, which would keep the lock.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def step(count: int = 1) -> None:
    """Count `count` training steps of the job this process belongs to."""
    add(count, STEP)


def saw(what: int) -> None:
    """Record in the header what this process has imported, from which the worker explains why nothing is counted."""
    path = os.environ.get("GPUQ_PROGRESS")
    if not path:
        return
    try:
        with _locked(path) as view:
            struct.pack_into("<I", view, 12, struct.unpack_from("<I", view, 12)[0] | what)
    except Exception:  # noqa: BLE001, S110 - only the explanation is lost; the training must go on
        pass


def attach(module: ModuleType) -> None:
    """Count the steps of this freshly imported framework module, or record that its version is unknown."""
    name = module.__name__
    try:
        # The part for a framework is imported only where the framework is.
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
    except Exception:  # noqa: BLE001 - the job must run, counted or not
        saw(SAW_UNKNOWN_VERSION)


# Steps that the hook observes; they count until the script calls `step()` itself.
add = _counting()
os.register_at_fork(after_in_child=_restart)
