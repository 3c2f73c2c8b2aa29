"""What every workload shares: the flags, the clean end, the log lines and the summary.

Arrives: a command line and a Keras model with its data. Leaves: real gradient steps, a line every few seconds, and one
line of JSON at the end. A SIGTERM while training ends it after the step under way, with the summary and exit code 143;
before the first step there is nothing to keep, so the signal's own action stands. Nothing here knows about gpuq.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import keras

Batch = tuple[np.ndarray, np.ndarray]
Fetch = Callable[[], Batch]
SIGTERM_EXIT = 128 + signal.SIGTERM
LOG_EVERY_S = 5.0


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
    progress = _progress(options)
    epoch_steps = max(1, options.samples // options.batch_size)
    with batches(fetch) as data:
        model.fit(data, steps_per_epoch=epoch_steps, epochs=options.epochs, verbose=0, callbacks=[progress])
    asked = {key.replace("-", "_"): value for key, value in vars(options).items()}
    print(json.dumps({"asked": asked, **progress.summary()}, default=str), flush=True)
    return SIGTERM_EXIT if progress.ended == "stopped" else 0


@contextmanager
def batches(fetch: Fetch) -> Iterator[Iterator[Batch]]:
    """Batches without end, each made by `fetch` in a thread of its own while the one before is trained on."""
    ready: queue.Queue[Batch] = queue.Queue(maxsize=4)
    closing = threading.Event()

    def fill() -> None:
        while not closing.is_set():
            batch = fetch()
            while not closing.is_set():
                with suppress(queue.Full):
                    ready.put(batch, timeout=0.1)
                    break

    def take() -> Iterator[Batch]:
        # Never blocks for good: the framework's own reader thread waits in here when the training ends early.
        while not closing.is_set():
            with suppress(queue.Empty):
                yield ready.get(timeout=0.1)

    loader = threading.Thread(target=fill, name="loader", daemon=True)
    loader.start()
    try:
        yield take()
    finally:
        closing.set()
        loader.join(timeout=5.0)


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


def _progress(options: argparse.Namespace) -> Any:
    """The callback that counts, talks and ends the training. Made here because its base class needs Keras."""
    import keras

    class Progress(keras.callbacks.Callback):  # type: ignore[misc]
        steps = 0
        ended = "epochs"
        first_loss: float | None = None
        last_loss: float | None = None
        seconds = 0.0

        def on_train_begin(self, logs: object = None) -> None:
            del logs
            self.began = self.spoke = time.monotonic()
            signal.signal(signal.SIGTERM, lambda *_: self._end("stopped"))

        def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
            del batch  # counts within an epoch only
            now = time.monotonic()
            self.steps += 1
            self.seconds = now - self.began
            self._note_loss(logs, now)
            if self.steps == options.steps:
                self._end("steps")
            elif 0 < options.seconds <= self.seconds:
                self._end("seconds")

        def _note_loss(self, logs: dict[str, float] | None, now: float) -> None:
            self.last_loss = float((logs or {})["loss"])
            if self.first_loss is None:
                self.first_loss = self.last_loss
                say(f"first step after {self.seconds:.1f} s, loss {self.first_loss:.4f}")
                self.first_step_s = self.seconds
            if now - self.spoke >= LOG_EVERY_S:
                self.spoke = now
                say(f"step {self.steps}  loss {self.last_loss:.4f}  {self._rate():.1f} steps/s")

        def _rate(self) -> float:
            after_first = self.seconds - self.first_step_s
            return (self.steps - 1) / after_first if after_first > 0 else 0.0

        def _end(self, why: str) -> None:
            self.ended = why
            self.model.stop_training = True

        def summary(self) -> dict[str, object]:
            return {
                "ended": self.ended,
                "steps": self.steps,
                "seconds": round(self.seconds, 3),
                "steps_per_s": round(self._rate(), 3) if self.steps > 1 else None,
                "loss_first": self.first_loss,
                "loss_last": self.last_loss,
                "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }

    return Progress()
