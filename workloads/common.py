"""What every workload shares: the flags, the training loop with its clean end, the log lines and the summary.

A workload passes its command line, its Keras models, a function that makes a batch and a function that takes one step on it.
The loop trains, logs a line every few seconds, and prints one line of JSON at the end. SIGTERM during training ends it after
the current step, with a checkpoint if `--checkpoint` names a folder, the summary and exit code 143. Before the first step
there is nothing to save, so the default action of the signal applies. This module does not depend on gpuq.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import math
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workloads import device
from workloads.checkpoint import Checkpoint
from workloads.datasets.source import AUTO, DOWNLOAD, SYNTHETIC
from workloads.progress import Progress, say

if TYPE_CHECKING:
    import keras

Batch = Any
Make = Callable[[np.ndarray, np.random.Generator], Batch]
"""Makes the batch of these samples. Its randomness comes from the generator alone, so a resumed run makes the same ones."""
Step = Callable[[Batch], float]
SIGTERM_EXIT = 128 + signal.SIGTERM
BATCHES_AHEAD = 4
# The largest that NumPy's older generator takes, which Keras sets too.
MOST_SEED = 2**32 - 1
PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")
# Storage goes on sending while a file is unpacked, as far as the system reads ahead.
READ_AHEAD_S = 0.5
# In the order in which one is looked for when nothing says which framework to use.
BACKENDS = ("tensorflow", "jax", "torch")


def flags(description: str, **defaults: object) -> argparse.ArgumentParser:
    """The flags that all workloads take. Parsed before a framework is imported, so that a wrong one fails at once."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--batch-size", type=positive, default=32, metavar="N", help="samples in one gradient step")
    add("--epochs", type=positive, default=1, metavar="N", help="times through the data")
    add(
        "--steps",
        type=count,
        default=0,
        metavar="N",
        help="end after this many steps, resumed ones included; 0: no limit",
    )
    add("--seconds", type=amount, default=0, metavar="S", help="end after training this long; 0: no limit")
    add("--data", type=_place, default="auto", metavar="WHERE", help=_DATA_HELP)
    add("--samples", type=positive, default=4096, metavar="N", help="samples of synthetic data")
    add("--precision", choices=PRECISIONS, default="float32", help="number format of the network's computing")
    add("--seed", type=_seed, default=0, metavar="N", help="seed of data, weights and order")
    add("--threads", type=count, default=0, metavar="N", help="threads of the framework; 0: its own choice")
    add("--loaders", type=positive, default=1, metavar="N", help="threads that make batches; more for a fast GPU")
    add(
        "--checkpoint",
        type=_new_folder,
        metavar="DIR",
        help="save here when stopped and at the end; resume from what is here",
    )
    add(
        "--checkpoint-seconds",
        type=amount,
        default=300,
        metavar="S",
        help="save this often besides; 0: only at the end",
    )
    parser.set_defaults(**defaults)
    return parser


def start(options: argparse.Namespace) -> None:
    """Import Keras and its framework with the seed, the threads and the number format that were asked for."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if options.threads > 0:
        os.environ.setdefault("NPROC", str(options.threads))  # JAX reads it once, when it starts
    _choose_backend()
    say("loading Keras and its framework")
    began = time.monotonic()
    try:
        import keras
    except (ImportError, ValueError) as error:
        raise SystemExit(
            _NO_FRAMEWORK.format(error=error, backend=os.environ.get("KERAS_BACKEND", "tensorflow"))
        ) from error
    gc.freeze()  # the framework stays to the end; otherwise the last collection looks through all of it, for a second
    if options.threads > 0:
        device.limit_threads(keras.backend.backend(), options.threads)
    keras.utils.set_random_seed(options.seed)
    keras.config.set_dtype_policy(options.precision)
    where = device.name(keras.backend.backend())
    say(f"Keras {keras.__version__} on {keras.backend.backend()}, {where}, after {time.monotonic() - began:.1f} s")


def jit() -> bool:
    """Whether Keras is to compile a step as a whole: for `model.compile(..., jit_compile=)`."""
    import keras

    # JAX is only fast when it compiles. With TensorFlow, compiling by XLA makes the first step wait long.
    return bool(keras.backend.backend() == "jax")


def fit(model: keras.Model, make: Make, samples: int, options: argparse.Namespace) -> int:
    """Train one compiled model on batches (inputs, targets); as `train`."""

    # Not Keras' own `fit`: over a generator it leaves threads of TensorFlow behind that hold up the end of the process
    # for six seconds.
    def step(batch: Batch) -> float:
        return float(model.train_on_batch(*batch))

    return train(step, make, samples, options, Trained([model]))


@dataclass(frozen=True)
class Trained:
    """What a training changes, and so what a checkpoint keeps: the models with their optimizers, and arrays."""

    models: Sequence[keras.Model]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    tell: Callable[[], dict[str, object]] = dict
    """What it returns goes into the summary."""


def train(step: Step, make: Make, samples: int, options: argparse.Namespace, trained: Trained) -> int:
    """Take steps until the first limit is reached; print the summary; return the exit code."""
    _build_optimizers(trained.models)
    order = Order(samples, options.batch_size, options.seed)
    checkpoint = Checkpoint(options, trained.models, trained.arrays)
    progress = Progress(options, order.epoch_steps, checkpoint.restore())
    signal.signal(signal.SIGTERM, lambda *_: progress.end("stopped"))

    def batch(number: int) -> Batch:
        return make(order.chosen(number), np.random.default_rng((options.seed, number)))

    with batches(batch, progress.total_steps, options.loaders) as data:
        while progress.ended is None:
            loss = step(progress.timed(lambda: next(data)))
            progress.step(loss)
            checkpoint.save_if_due(progress.total_steps)
    lost = _failure(lambda: checkpoint.save(progress.total_steps))
    _summarise({**progress.summary(), **trained.tell()}, options)
    if lost is not None:
        raise SystemExit(
            f"cannot save to {options.checkpoint}: {lost}. Make room, or name another folder with --checkpoint. The steps of "
            "this run are lost; a checkpoint from before is as it was."
        )
    return SIGTERM_EXIT if progress.ended == "stopped" else 0


def _build_optimizers(models: Sequence[keras.Model]) -> None:
    """Make the optimizers' variables, which a checkpoint fills.

    Keras would make them in the first step. Then TensorFlow traces that step twice, with a condition for each of the variables,
    and takes twice as long to begin.
    """
    for model in models:
        optimizer = getattr(model, "optimizer", None)
        if optimizer is not None and not optimizer.built:
            optimizer.build(model.trainable_variables)


class Order:
    """Which samples make up which step: every epoch goes through all of them once, in an order of its own."""

    def __init__(self, samples: int, batch_size: int, seed: int) -> None:
        self.epoch_steps = max(1, samples // batch_size)
        self._samples, self._size, self._seed = samples, batch_size, seed
        self._shuffled = lru_cache(2)(self._shuffle)

    def chosen(self, step: int) -> np.ndarray:
        """The indices of this step's samples; a set smaller than a batch is repeated."""
        epoch, place = divmod(step, self.epoch_steps)
        shuffled = self._shuffled(epoch)
        if len(shuffled) < self._size:
            return np.resize(shuffled, self._size)
        return shuffled[place * self._size : (place + 1) * self._size]

    def _shuffle(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self._seed, epoch, self._samples)).permutation(self._samples)


@contextmanager
def batches(make: Callable[[int], Batch], first: int = 0, loaders: int = 1) -> Iterator[Iterator[Batch]]:
    """The batches from number `first` on, in order, without end; made in threads while those before are trained on."""
    with ThreadPoolExecutor(loaders, thread_name_prefix="loader") as pool:
        ahead = BATCHES_AHEAD + loaders - 1
        coming = deque(pool.submit(make, number) for number in range(first, first + ahead))

        def take() -> Iterator[Batch]:
            number = first + ahead
            while True:
                coming.append(pool.submit(make, number))
                number += 1
                yield coming.popleft().result()

        try:
            yield take()
        finally:
            pool.shutdown(cancel_futures=True)


class Pace:
    """The pace of slow storage: readers wait until it has sent their bytes, however many threads ask. 0: no limit."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self.free_at = time.monotonic()
        self._queue = threading.Lock()

    def wait(self, size: int) -> None:
        """Return when so many bytes could have been read."""
        if self.bytes_per_s <= 0:
            return
        with self._queue:
            now = time.monotonic()
            free_at = self.free_at = max(self.free_at, now - READ_AHEAD_S) + size / self.bytes_per_s
        time.sleep(max(0.0, free_at - now))


_DATA_HELP = (
    "synthetic: made here; a folder: the real data set lies there; download: fetch it first; "
    "auto: the real one if it was downloaded before, else synthetic"
)


_NO_FRAMEWORK = (
    "cannot load Keras with {backend}: {error}. `pip install 'gpuq-daemon[workloads]'` brings Keras and TensorFlow; "
    "KERAS_BACKEND=jax or torch takes another framework that is installed."
)


def _failure(save: Callable[[], None]) -> OSError | None:
    try:
        save()
    except OSError as error:
        return error
    return None


def _summarise(facts: dict[str, object], options: argparse.Namespace) -> None:
    import keras

    backend = keras.backend.backend()
    about = {"backend": backend, "device": device.name(backend), **device.allocator_peaks(backend)}
    asked = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    say(json.dumps({"asked": asked, **facts, **about}))


def _choose_backend() -> None:
    """Leave the choice to Keras, unless none was made and TensorFlow, its default, is missing: then the first installed one."""
    if "KERAS_BACKEND" in os.environ or importlib.util.find_spec("tensorflow") is not None:
        return
    found = next((name for name in BACKENDS if importlib.util.find_spec(name) is not None), None)
    if found is not None:
        os.environ["KERAS_BACKEND"] = found


def _place(text: str) -> str:
    if text not in (AUTO, SYNTHETIC, DOWNLOAD) and not Path(text).expanduser().is_dir():
        raise argparse.ArgumentTypeError(f"{text} is neither a folder nor one of {AUTO}, {SYNTHETIC} and {DOWNLOAD}")
    return text


def _new_folder(text: str) -> Path:
    path = Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file, and a folder is needed")
    return path


def positive(text: str) -> int:
    """A flag's whole number from 1 on."""
    return _whole(text, 1)


def count(text: str) -> int:
    """A flag's whole number from 0 on."""
    return _whole(text, 0)


def amount(text: str) -> float:
    """A flag's finite number from 0 on."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 on")
    return value


def _seed(text: str) -> int:
    return _whole(text, 0, MOST_SEED)


def _whole(text: str, least: int, most: int | None = None) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least or (most is not None and value > most):
        until = "on" if most is None else f"to {most}"
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from {least} {until}")
    return value
