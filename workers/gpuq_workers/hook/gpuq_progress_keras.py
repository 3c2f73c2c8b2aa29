"""Counts the steps of Keras optimizers: on JAX by the calls of the compiled step, elsewhere by reading `iterations`.

A wrapped optimizer call runs only while TensorFlow traces. So every optimizer is registered where it is made, and a thread reads
its `iterations` a few times a second. On JAX Keras keeps them in the compiled state and writes them back only now and then;
there `gpuq_progress_jax` counts.

The thread reads while a step may write. `iterations` is one aligned number, on PyTorch copied in place, so a read returns the
old value or the new one, and the next look finds what it missed. (With Keras 3.15 on PyTorch 2.13, CPU, six million reads during
9,000 steps, compiled ones too, never went back or failed.) On a GPU the read waits, in this thread alone, for the work queued
before it; that was not tried.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import threading
import time
import weakref
from types import ModuleType
from typing import Any

import gpuq_progress

_POLL_EVERY_S = 0.2
# No framework steps this fast: a larger jump of `iterations` is a loaded checkpoint.
_MOST_STEPS_PER_S = 20_000
# CU_STREAM_CAPTURE_MODE_RELAXED of the CUDA driver API.
_RELAXED = 2


def attach(module: ModuleType) -> None:
    """Count the steps of every optimizer that derives from this module's."""
    base = module.BaseOptimizer
    if module.backend.backend() == "jax":
        import gpuq_progress_jax

        gpuq_progress_jax.watch_method(base, "apply", lambda optimizer: optimizer.gradient_accumulation_steps or 1)
        return
    original = base.__init__

    @functools.wraps(original)
    def construct(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        with contextlib.suppress(Exception):  # the job must run, counted or not
            _watch.register(self)

    base.__init__ = construct


class _Watched:
    """One Keras optimizer. Its iteration variable is kept after the optimizer is freed, so that the last steps are counted."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = weakref.ref(optimizer)
        # Not the property, which computes with tensors when gradients accumulate: this is read from another thread.
        self._variable = optimizer._iterations
        self._per_step = optimizer.gradient_accumulation_steps or 1
        self._last = 0
        self._read_at = time.monotonic()

    def new_steps(self) -> int:
        """Steps since the last look; 0 when they cannot be read now, or when `iterations` was set from outside."""
        try:
            iterations = int(self._variable.numpy()) // self._per_step
        except Exception:  # noqa: BLE001 - it may be moving to another device; the next look reads it
            return 0
        now = time.monotonic()
        new, most = iterations - self._last, _MOST_STEPS_PER_S * (now - self._read_at + _POLL_EVERY_S)
        self._last, self._read_at = iterations, now
        return new if 0 < new < most else 0


class _Watch:
    """Reads `iterations` of every Keras optimizer and adds the increase to the counter."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """The state of a forked child: no thread, and no optimizers yet."""
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
        """Read every optimizer once."""
        with self._lock:
            owners = [(watched, watched.optimizer()) for watched in self._watched]
            # A MultiOptimizer counts its steps itself; counting its parts as well would double them.
            parts = {id(part) for _, owner in owners for part in getattr(owner, "_inner_optimizers", ())}
            new = sum(watched.new_steps() for watched, owner in owners if id(owner) not in parts)
            self._watched = [watched for watched, owner in owners if owner is not None]
        gpuq_progress.add(new, gpuq_progress.KERAS)

    def _run(self) -> None:
        relaxed = False
        while not self._stop.wait(_POLL_EVERY_S):
            relaxed = relaxed or _relax_captures()
            self.poll()

    def _finish(self, process: int) -> None:
        if process == os.getpid() and self._thread is not None:
            self._stop.set()
            self._thread.join(timeout=1)
            self.poll()


def _relax_captures() -> bool:
    """Let this thread read from a GPU while another thread captures a CUDA graph; returns whether that is set.

    `torch.cuda.graph` captures in the mode "global": a thread that waits for the GPU meanwhile makes the capture fail, unless
    that thread's own mode is relaxed. The CUDA driver is not loaded for this if the job has not loaded it.
    """
    with contextlib.suppress(Exception):
        driver = ctypes.CDLL("libcuda.so.1", os.RTLD_NOLOAD | os.RTLD_NOW)
        return bool(driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(_RELAXED))) == 0)
    return False


_watch = _Watch()
os.register_at_fork(after_in_child=_watch.restart)
