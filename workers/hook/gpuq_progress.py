"""Counts the training steps of one job in a small memory-mapped file that the worker reads. Standard library only.

Arrives: `step()` from a script, optimizer steps from PyTorch's global hook, `iterations` of Keras optimizers (read by a
thread a few times a second, since wrapped calls run only while TensorFlow traces). Leaves: the file that GPUQ_PROGRESS
names. Nothing here may disturb the training: every failure means "not counted".

The file. Little-endian. A header of 64 bytes: 8 bytes `GPUQPRG1`, then the number of slots in use (u32). After it one
slot of 64 bytes per process that ever counted a step:

    offset  type  field
    0       u8    sequence: counts the updates, modulo 256; its lowest bit says which record holds
    4       u32   process id
    8       u32   source: 1 gpuq.step(), 2 PyTorch, 3 Keras
    16, 40  two records: u64 steps, then f64 CLOCK_MONOTONIC seconds of the first and of the latest step

An update fills the record that does not hold and then moves the sequence on, in one byte, so a reader that finds the
sequence unchanged has a whole record, even while the writer is stopped or killed in the middle.

Only a process that counts a step takes a slot, so loader processes, which never step, have none. Ranks of one training
each count the same steps; the reader takes the largest of slots whose times overlap, and the sum of those that follow
each other. With two optimizers (a GAN) each step of each counts. Once a process calls `gpuq.step()`, that alone counts.

Keras on JAX writes `iterations` back only now and then, so its rate is coarse there. Optimizers wrapped in others (as
in ZeroRedundancyOptimizer) may count twice, which changes no ratio of rates.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import mmap
import os
import struct
import threading
import time
import weakref
from types import ModuleType
from typing import Any

MAGIC = b"GPUQPRG1"
HEADER_SIZE = SLOT_SIZE = 64
SLOTS = 255
SIZE = HEADER_SIZE + SLOTS * SLOT_SIZE
PROCESS = struct.Struct("<II")
RECORD = struct.Struct("<Qdd")
STEP, TORCH, KERAS = 1, 2, 3

_POLL_EVERY_S = 0.2
# No framework steps this fast: a larger jump of `iterations` is a loaded checkpoint.
_MOST_STEPS_PER_S = 20_000


class _Counter:
    """The slot of this process; taken at the first step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._map: mmap.mmap | None = None
        self._offset = 0
        self._sequence = 0
        self._steps = 0
        self._first = 0.0
        self._explicit = False
        self._closed = not os.environ.get("GPUQ_PROGRESS")

    def add(self, count: int, source: int) -> None:
        """Count `count` more steps."""
        if self._closed or count <= 0 or (self._explicit and source != STEP):
            return
        with self._lock:
            try:
                self._add(count, source)
            except Exception:  # noqa: BLE001 - an uncounted step is better than a failed one
                self._closed = True

    def _add(self, count: int, source: int) -> None:
        now = time.monotonic()
        view = self._map = self._map or self._take_slot(os.environ["GPUQ_PROGRESS"])
        if source == STEP and not self._explicit:
            # What was counted for the script so far, it now counts itself.
            self._explicit, self._steps = True, 0
        if not self._steps:
            self._first = now
        self._steps += count
        self._sequence = (self._sequence + 1) & 0xFF
        PROCESS.pack_into(view, self._offset + 4, os.getpid(), source)
        RECORD.pack_into(view, self._offset + 16 + (self._sequence & 1) * RECORD.size, self._steps, self._first, now)
        view[self._offset] = self._sequence

    def _take_slot(self, path: str) -> mmap.mmap:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_size < SIZE:
                os.ftruncate(descriptor, SIZE)
            view = mmap.mmap(descriptor, SIZE)
            used = struct.unpack_from("<I", view, 8)[0]
            if used >= SLOTS:
                raise OSError("more processes than slots")
            view[:8] = MAGIC
            struct.pack_into("<I", view, 8, used + 1)
            self._offset = HEADER_SIZE + used * SLOT_SIZE
            return view
        finally:
            # Not left to `close`: the map holds a copy of the descriptor, and with it the lock.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


class _Watched:
    """One Keras optimizer: its iteration variable, which outlives it here so that its last steps are not missed."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = weakref.ref(optimizer)
        # Not the property: that computes with tensors when gradients accumulate, and this is read from a thread.
        self._variable = optimizer._iterations
        self._per_step = optimizer.gradient_accumulation_steps or 1
        self._last = 0
        self._read_at = time.monotonic()

    def new_steps(self) -> int:
        """Steps since the last look; 0 when they cannot be read now, or when `iterations` was set from outside."""
        try:
            iterations = int(self._variable.numpy()) // self._per_step
        except Exception:  # noqa: BLE001 - a variable may be on its way to another device; the next look will tell
            return 0
        now = time.monotonic()
        new, most = iterations - self._last, _MOST_STEPS_PER_S * (now - self._read_at + _POLL_EVERY_S)
        self._last, self._read_at = iterations, now
        return new if 0 < new < most else 0


class _KerasWatch:
    """Reads `iterations` of every Keras optimizer that was made, and adds what is new to the counter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: list[_Watched] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def register(self, optimizer: Any) -> None:
        """Count this optimizer's steps from now on."""
        with self._lock:
            self._watched.append(_Watched(optimizer))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gpuq-progress", daemon=True)
                self._thread.start()
                # Registered after TensorFlow's own exit handlers, so it runs before them.
                atexit.register(self._finish, os.getpid())

    def poll(self) -> None:
        """One look at all of them."""
        with self._lock:
            owners = [(watched, watched.optimizer()) for watched in self._watched]
            # A MultiOptimizer counts its steps itself; its parts would count them again.
            parts = {id(part) for _, owner in owners for part in getattr(owner, "_inner_optimizers", ())}
            new = sum(watched.new_steps() for watched, owner in owners if id(owner) not in parts)
            self._watched = [watched for watched, owner in owners if owner is not None]
        _counter.add(new, KERAS)

    def _run(self) -> None:
        while not self._stop.wait(_POLL_EVERY_S):
            self.poll()

    def _finish(self, process: int) -> None:
        if process == os.getpid() and self._thread is not None:
            self._stop.set()
            self._thread.join(timeout=1)
            self.poll()


def step(count: int = 1) -> None:
    """Count `count` training steps of the job this process belongs to."""
    _counter.add(count, STEP)


def attach(module: ModuleType) -> None:
    """Count what this freshly imported module of PyTorch or Keras trains."""
    if module.__name__ == "torch.optim.optimizer":
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None:
            register(lambda *_: _counter.add(1, TORCH))
    else:
        _watch_construction(module.BaseOptimizer)


def _watch_construction(base: Any) -> None:
    original = base.__init__

    @functools.wraps(original)
    def construct(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        with contextlib.suppress(Exception):  # the job must run, counted or not
            _keras.register(self)

    base.__init__ = construct


def _start_anew() -> None:
    """In a forked child: another process, another slot, and no thread."""
    global _counter, _keras
    _counter, _keras = _Counter(), _KerasWatch()


_counter, _keras = _Counter(), _KerasWatch()
os.register_at_fork(after_in_child=_start_anew)
