"""What every workload shares: the flags, the clean end, the log lines and the summary.

Arrives: a command line and a Keras model with its data. Leaves: real gradient steps, a line every few seconds, and one
line of JSON at the end. A SIGTERM while training ends it after the step under way, with the summary and exit code 143;
before the first step there is nothing to keep, so the signal's own action stands. Nothing here knows about gpuq.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import keras

Batch = tuple[np.ndarray, np.ndarray]
Fetch = Callable[[], Batch]
SIGTERM_EXIT = 128 + signal.SIGTERM
LOG_EVERY_S = 5.0
BATCHES_AHEAD = 4


def flags(description: str, **defaults: object) -> argparse.ArgumentParser:
    """The flags that all workloads take. Parsed before TensorFlow is imported, so that a wrong one fails at once."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--batch-size", type=_positive, default=32, metavar="N", help="samples in one gradient step")
    parser.add_argument("--epochs", type=_positive, default=1, metavar="N", help="times through the data")
    parser.add_argument("--steps", type=int, default=0, metavar="N", help="end after this many steps; 0: no limit")
    parser.add_argument(
        "--seconds", type=float, default=0, metavar="S", help="end after training this long; 0: no limit"
    )
    parser.add_argument("--samples", type=_positive, default=4096, metavar="N", help="samples of synthetic data")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of data, weights and order")
    parser.add_argument("--data", choices=["synthetic"], default="synthetic", help="where the samples come from")
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="threads of the framework; 0: its own choice"
    )
    parser.set_defaults(**defaults)
    return parser


def start(options: argparse.Namespace) -> None:
    """Import Keras and its framework with the seed and the threads that were asked for."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    say("loading Keras and its framework")
    began = time.monotonic()
    import keras

    if options.threads > 0:
        _limit_threads(keras.backend.backend(), options.threads)
    keras.utils.set_random_seed(options.seed)
    say(f"Keras {keras.__version__} on {keras.backend.backend()} after {time.monotonic() - began:.1f} s")


def train(model: keras.Model, fetch: Fetch, options: argparse.Namespace) -> int:
    """Train on the batches that `fetch` makes until the first limit is reached; print the summary; return the exit code."""
    progress = Progress(options)
    signal.signal(signal.SIGTERM, lambda *_: progress.end("stopped"))
    # A loop over `train_on_batch` and not `fit`: over a generator, `fit` leaves threads of TensorFlow behind that hold up
    # the end of the process for six seconds.
    with batches(fetch) as data:
        while progress.ended is None:
            progress.step(float(model.train_on_batch(*next(data))))
    print(json.dumps({"asked": vars(options), **progress.summary()}, default=str), flush=True)
    return SIGTERM_EXIT if progress.ended == "stopped" else 0


@contextmanager
def batches(fetch: Fetch) -> Iterator[Iterator[Batch]]:
    """Batches without end, made by `fetch` in a thread of its own while the one before is trained on."""
    with ThreadPoolExecutor(1, thread_name_prefix="loader") as loader:
        coming = deque(loader.submit(fetch) for _ in range(BATCHES_AHEAD))

        def take() -> Iterator[Batch]:
            while True:
                coming.append(loader.submit(fetch))
                yield coming.popleft().result()

        try:
            yield take()
        finally:
            loader.shutdown(cancel_futures=True)


def say(text: str) -> None:
    """One line of talk, at once: whoever follows the log sees it now."""
    print(text, flush=True)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def _limit_threads(backend: str, threads: int) -> None:
    if backend == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    elif backend == "torch":
        import torch  # type: ignore[import-not-found, unused-ignore]

        torch.set_num_threads(threads)
    else:
        say(f"--threads has no effect on {backend}")


class Progress:
    """Counts the steps, talks every few seconds, and says when to end and why."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._epoch_steps = max(1, options.samples // options.batch_size)
        self._began = self._spoke = time.monotonic()
        self._first_step_s = self._seconds = 0.0
        self._first_loss: float | None = None
        self._last_loss: float | None = None
        self.steps = 0
        self.ended: str | None = None

    def step(self, loss: float) -> None:
        """A step was made, with this loss on its batch."""
        self.steps += 1
        self._seconds = time.monotonic() - self._began
        self._last_loss = loss
        self._talk(loss)
        if self.steps == self._options.steps:
            self.end("steps")
        elif self.steps == self._options.epochs * self._epoch_steps:
            self.end("epochs")
        elif 0 < self._options.seconds <= self._seconds:
            self.end("seconds")

    def end(self, why: str) -> None:
        """The step under way is the last."""
        self.ended = self.ended or why

    def summary(self) -> dict[str, object]:
        """What came of it."""
        return {
            "ended": self.ended,
            "steps": self.steps,
            "seconds": round(self._seconds, 3),
            "steps_per_s": round(self._rate(), 3) if self.steps > 1 else None,
            "loss_first": self._first_loss,
            "loss_last": self._last_loss,
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

    def _talk(self, loss: float) -> None:
        if self._first_loss is None:
            self._first_loss, self._first_step_s = loss, self._seconds
            say(f"first step after {self._seconds:.1f} s, loss {loss:.4f}")
        elif time.monotonic() - self._spoke >= LOG_EVERY_S:
            self._spoke = time.monotonic()
            say(f"step {self.steps}  loss {loss:.4f}  {self._rate():.1f} steps/s")

    def _rate(self) -> float:
        """Steps per second after the first, which compiles."""
        after_first = self._seconds - self._first_step_s
        return (self.steps - 1) / after_first if after_first > 0 else 0.0
